//! Fields the schema does not know, which an API server drops or refuses, and values the schema cannot judge.

use karpenter_api::crd_values;
use serde_json::Value;

use super::near::near;
use super::{LintFinding, LintSeverity, Linted};

pub(super) fn check(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    for definition in crd_values() {
        let kind = definition.pointer("/spec/names/kind").and_then(Value::as_str).unwrap_or_default();
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        for (key, object) in linted.objects.of_kind(kind) {
            let version = object["apiVersion"].as_str().and_then(|text| text.rsplit_once('/'));
            let version = version.map_or("v1", |(_, version)| version);
            let served = versions.into_iter().flatten().find(|one| one["name"] == version);
            let Some(schema) = served.and_then(|one| one.pointer("/schema/openAPIV3Schema")) else {
                continue;
            };
            for field in ["spec", "status"] {
                let mut report = |field: String, meant: Option<&str>| {
                    let remedy = match meant {
                        Some(meant) => format!("write `{meant}`"),
                        None => "remove it, or see `karpenter crds` for the fields there are".to_owned(),
                    };
                    found.push(LintFinding {
                        object: format!("{kind}/{}", key.name),
                        field,
                        rule: "unknown-field",
                        severity: LintSeverity::Error,
                        problem: "there is no such field, so what it says has no effect".to_owned(),
                        remedy,
                        origin: None,
                    });
                };
                walk(&object[field], &schema["properties"][field], field, &mut report);
            }
        }
    }
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
