//! Fields the schema does not know, which an API server drops or refuses, and values the schema cannot judge.

use karpenter_api::crd_values;
use serde_json::Value;

use super::near::near;
use super::{LintFinding, LintSeverity, Linted, kinds};
use crate::stream::Manifest;

pub(super) fn unknown(manifests: &[Manifest], found: &mut Vec<LintFinding>) {
    let definitions = crd_values();
    for manifest in manifests {
        let Some(schema) = schema_of(&definitions, &manifest.object) else { continue };
        for field in ["spec", "status"] {
            let mut report = |field: String, meant: Option<&str>| {
                let remedy = match meant {
                    Some(meant) => format!("write `{meant}`"),
                    None => "remove it, or see `karpenter crds` for the fields there are".to_owned(),
                };
                found.push(LintFinding {
                    object: kinds::name(&manifest.object),
                    field,
                    rule: "unknown-field",
                    severity: LintSeverity::Error,
                    problem: "there is no such field, so what it says has no effect".to_owned(),
                    remedy,
                    origin: manifest.origin.clone(),
                });
            };
            walk(&manifest.object[field], &schema["properties"][field], field, &mut report);
        }
    }
}

/// The schema of an object of one of our kinds, in a version that is served.
fn schema_of<'d>(definitions: &'d [Value], object: &Value) -> Option<&'d Value> {
    let definition = definitions.iter().find(|one| one["spec"]["names"]["kind"] == object["kind"])?;
    let version = object["apiVersion"].as_str().and_then(|text| text.rsplit_once('/'));
    let version = version.map_or("v1", |(_, version)| version);
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let served = versions.into_iter().flatten().find(|one| one["name"] == version)?;
    served.pointer("/schema/openAPIV3Schema")
}

pub(super) fn invalid(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    for read in linted.pools {
        for invalid in read.written.problems(linted.registry) {
            let problem = format!("{}; the pool takes no part", invalid.problem);
            found.push(read.error("invalid", &invalid.field, problem, "correct the field"));
        }
    }
}

fn walk<'s>(value: &Value, schema: &'s Value, path: &str, report: &mut impl FnMut(String, Option<&'s str>)) {
    match value {
        Value::Object(fields) => {
            let Some(properties) = schema["properties"].as_object() else { return };
            for (field, value) in fields {
                let path = format!("{path}.{field}");
                match properties.get(field) {
                    Some(schema) => walk(value, schema, &path, report),
                    None => report(path, near(field, properties.keys().map(String::as_str))),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &schema["items"], &format!("{path}[{index}]"), report);
            }
        }
        _ => {}
    }
}
