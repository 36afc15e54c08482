//! Objects of our kinds that an API server or the provider refuses: every field that is wrong, in the words of the one that
//! refuses it.

use karpenter_api::schema::{Cause, refusals};
use karpenter_cloud::ClassFault;
use serde_json::Value;

use super::{LintFinding, LintSeverity, kinds};
use crate::objects::text;
use crate::stream::Manifest;

/// Check of a node class by the provider.
pub type ClassFaults<'a> = &'a dyn Fn(&Value) -> Vec<ClassFault>;

/// The rule about what an API server refuses.
const REFUSED: &str = "refused";

/// Everything that is refused, whatever other rules find.
pub(super) fn found(manifests: &[Manifest], faults: ClassFaults<'_>) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for manifest in manifests {
        found.extend(refusals(&manifest.object).iter().map(|cause| refused(manifest, cause)));
        if text(&manifest.object, "/kind") == "EC2NodeClass" {
            found.extend(faults(&manifest.object).into_iter().map(|fault| of_class(manifest, fault)));
        }
    }
    found
}

/// Adds it to what other rules have found, unless one of them says more.
pub(super) fn add(refused: Vec<LintFinding>, found: &mut Vec<LintFinding>) {
    for one in refused {
        if one.rule != REFUSED || !is_known(&one, found) {
            found.push(one);
        }
    }
}

/// Returns whether another rule describes the field better, or what it is in. Other fields of the object are other findings.
fn is_known(refused: &LintFinding, found: &[LintFinding]) -> bool {
    let is_in = |field: &str| {
        refused.field.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let mut errors =
        found.iter().filter(|one| one.severity == LintSeverity::Error && one.object == refused.object);
    errors.any(|one| one.field == refused.field || one.rule == "invalid" && is_in(&one.field))
}

fn refused(manifest: &Manifest, cause: &Cause) -> LintFinding {
    LintFinding {
        object: kinds::name(&manifest.object),
        field: cause.field.clone(),
        rule: REFUSED,
        severity: LintSeverity::Error,
        problem: format!("an API server refuses the object: {}", cause.message),
        remedy: "correct the field; `karpenter crds` prints what is allowed".to_owned(),
        origin: manifest.origin.clone(),
    }
}

fn of_class(manifest: &Manifest, fault: ClassFault) -> LintFinding {
    let (rule, severity) = if fault.refused {
        ("class-refused", LintSeverity::Error)
    } else {
        ("class-never-joins", LintSeverity::Warning)
    };
    LintFinding {
        object: kinds::name(&manifest.object),
        field: fault.field.to_owned(),
        rule,
        severity,
        problem: fault.problem,
        remedy: fault.remedy.to_owned(),
        origin: manifest.origin.clone(),
    }
}
