//! What an API server or the provider refuses of objects of our kinds: every field that is wrong, in the words of the one that
//! refuses it.

use karpenter_api::schema::{Cause, refusals};
use karpenter_cloud::ClassFault;
use serde_json::Value;

use super::{LintFinding, LintSeverity, kinds};
use crate::objects::text;
use crate::stream::Manifest;

/// What the provider has against a node class.
pub type ClassFaults<'a> = &'a dyn Fn(&Value) -> Vec<ClassFault>;

pub(super) fn check(manifests: &[Manifest], faults: ClassFaults<'_>, found: &mut Vec<LintFinding>) {
    for manifest in manifests {
        for cause in refusals(&manifest.object) {
            if !is_known(&cause, manifest, found) {
                found.push(refused(manifest, &cause));
            }
        }
        if text(&manifest.object, "/kind") == "EC2NodeClass" {
            found.extend(faults(&manifest.object).into_iter().map(|fault| of_class(manifest, fault)));
        }
    }
}

/// Whether another rule says more about the field, or about what it is in. Other fields of the object are other findings.
fn is_known(cause: &Cause, manifest: &Manifest, found: &[LintFinding]) -> bool {
    let object = kinds::name(&manifest.object);
    let is_in = |field: &str| {
        cause.field.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let mut errors = found.iter().filter(|one| one.severity == LintSeverity::Error && one.object == object);
    errors.any(|one| one.field == cause.field || one.rule == "invalid" && is_in(&one.field))
}

fn refused(manifest: &Manifest, cause: &Cause) -> LintFinding {
    LintFinding {
        object: kinds::name(&manifest.object),
        field: cause.field.clone(),
        rule: "refused",
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
