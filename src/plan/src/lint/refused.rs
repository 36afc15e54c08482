//! Objects that an API server or the provider refuses: every field that is wrong, in the words of the one that refuses it.

use karpenter_api::manifest::refusals;
use karpenter_api::schema::Cause;
use karpenter_cloud::ClassFault;
use serde_json::Value;

use super::{LintFinding, LintSeverity, fields, kinds};
use crate::objects::{is_foreign, text};
use crate::stream::{Fault, Manifest, Reading};
use crate::workloads::too_many;

/// Check of a node class by the provider.
pub type ClassFaults<'a> = &'a dyn Fn(&Value) -> Vec<ClassFault>;

/// Beginning of a finding about what an API server refuses.
const REFUSES: &str = "an API server refuses the object: ";

/// The rule about what an API server refuses.
const REFUSED: &str = "refused";

/// Places and objects of files that `kubectl apply` would refuse, a line for each, in the order of the files. Objects that an
/// API server has stored are left out.
pub fn refused_lines(reading: &Reading) -> Vec<String> {
    let mut lines: Vec<(Option<crate::Origin>, String)> = Vec::new();
    for fault in &reading.faults {
        let field = if fault.field.is_empty() { String::new() } else { format!("`{}` ", fault.field) };
        lines.push((Some(fault.origin.clone()), format!("{field}{}", fault.problem)));
    }
    for manifest in &reading.manifests {
        let Some((field, asked)) = too_many(&manifest.object) else { continue };
        let field = format!("spec.{field}");
        lines.push((
            manifest.origin_of(&field),
            format!("{}: `{field}`: {asked}", kinds::name(&manifest.object)),
        ));
    }
    let mut found = Vec::new();
    let judged: Vec<Manifest> =
        reading.manifests.iter().filter(|one| !kinds::is_stored(&one.object)).cloned().collect();
    let _notes = kinds::check(&judged, &mut found);
    let known: Vec<Manifest> = judged.into_iter().filter(|one| !is_foreign(&one.object)).collect();
    fields::unknown(&known, &mut found);
    for manifest in known.iter().filter(|manifest| kinds::is_judged(manifest, &known)) {
        let causes = refusals(&manifest.object);
        add(causes.iter().map(|cause| refused(manifest, cause)).collect(), &mut found);
    }
    found.retain(|one| one.severity == LintSeverity::Error);
    lines.extend(found.into_iter().map(|one| {
        let LintFinding { object, field, problem, remedy, .. } = one;
        let problem = problem.strip_prefix(REFUSES).unwrap_or(&problem);
        (one.origin, format!("{object}: `{field}`: {problem}; {remedy}"))
    }));
    lines.sort();
    lines.dedup();
    let text = |(origin, text): (Option<crate::Origin>, String)| {
        origin.map(|origin| format!("{origin}: ")).unwrap_or_default() + &text
    };
    lines.into_iter().map(text).collect()
}

/// Findings about places that cannot be read.
pub(super) fn malformed(faults: Vec<Fault>) -> impl Iterator<Item = LintFinding> {
    faults.into_iter().map(|Fault { origin, field, problem }| LintFinding {
        object: origin.file.clone(),
        field,
        rule: "malformed",
        severity: LintSeverity::Error,
        problem: format!("the document cannot be read, so no rule looks at it: {problem}"),
        remedy: "correct it, or leave the file out".to_owned(),
        origin: Some(origin),
    })
}

/// Everything that is refused, whatever other rules find.
pub(super) fn found(manifests: &[Manifest], faults: ClassFaults<'_>) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for manifest in manifests {
        if kinds::is_judged(manifest, manifests) {
            found.extend(refusals(&manifest.object).iter().map(|cause| refused(manifest, cause)));
        }
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
    let mut errors = found.iter().filter(|one| {
        one.rule != REFUSED && one.severity == LintSeverity::Error && one.object == refused.object
    });
    errors.any(|one| one.field == refused.field || one.rule == "invalid" && is_in(&one.field))
}

fn refused(manifest: &Manifest, cause: &Cause) -> LintFinding {
    let is_ours = crate::objects::kinds::is_ours(kinds::kind(&manifest.object));
    let written = manifest.object.pointer(&pointer(&cause.field)).and_then(Value::as_str);
    let remedy = match written {
        Some(written) if written.contains("{{") || written.contains("${") => {
            "render the template first, as with `helm template`"
        }
        _ if is_ours => "correct the field; `karpenter crds` prints what is allowed",
        _ => "correct the field",
    };
    LintFinding {
        object: kinds::name(&manifest.object),
        field: cause.field.clone(),
        rule: REFUSED,
        severity: LintSeverity::Error,
        problem: format!("{REFUSES}{}", cause.message),
        remedy: remedy.to_owned(),
        origin: manifest.origin_of(&cause.field),
    }
}

/// The JSON pointer of a field without dots in its keys.
fn pointer(field: &str) -> String {
    format!("/{}", field.replace(['.', '['], "/").replace(']', ""))
}

fn of_class(manifest: &Manifest, fault: ClassFault) -> LintFinding {
    let (rule, severity) = if fault.refused {
        ("class-refused", LintSeverity::Error)
    } else {
        ("class-never-joins", LintSeverity::Warning)
    };
    LintFinding {
        object: kinds::name(&manifest.object),
        origin: manifest.origin_of(fault.field),
        field: fault.field.to_owned(),
        rule,
        severity,
        problem: fault.problem,
        remedy: fault.remedy.to_owned(),
    }
}
