//! Fields the schema does not know, which an API server drops or refuses, and values the schema cannot judge.

use karpenter_api::manifest::unknown_fields;

use super::near::near;
use super::{LintFinding, LintSeverity, Linted, kinds};
use crate::stream::Manifest;

pub(super) fn unknown(manifests: &[Manifest], found: &mut Vec<LintFinding>) {
    for manifest in manifests.iter().filter(|manifest| kinds::is_judged(manifest, manifests)) {
        for unknown in unknown_fields(&manifest.object) {
            let name = unknown.field.rsplit('.').next().unwrap_or_default();
            let remedy = match near(name, unknown.known.iter().map(String::as_str)) {
                Some(meant) => format!("write `{meant}`"),
                None if crate::objects::kinds::is_ours(kinds::kind(&manifest.object)) => {
                    "remove it, or see `karpenter crds` for the fields there are".to_owned()
                }
                None => {
                    "remove it, or correct the indentation; the fields there are: ".to_owned()
                        + &unknown.known.join(", ")
                }
            };
            found.push(LintFinding {
                object: kinds::name(&manifest.object),
                origin: manifest.origin_of(&unknown.field),
                field: unknown.field,
                rule: "unknown-field",
                severity: LintSeverity::Error,
                problem: "there is no such field, so what it says has no effect".to_owned(),
                remedy,
            });
        }
    }
}

pub(super) fn invalid(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    for read in linted.pools {
        for invalid in read.written.problems(linted.registry) {
            let problem = format!("{}; the pool takes no part", invalid.problem);
            found.push(read.error("invalid", &invalid.field, problem, "correct the field"));
        }
    }
}
