//! Label keys of older versions or with a letter wrong, which select nothing or make pods wait for ever, values the key does
//! not have, and annotations of older versions, which protect nothing.

use karpenter_model::names::{annotation, label, today};
use serde_json::Value;

use super::near::near;
use super::{LintFinding, LintSeverity, Linted};
use crate::workloads::WORKLOADS;

/// The kind whose template makes Jobs, which make pods.
const CRON_JOB: &str = "CronJob";

/// Paths at which objects have annotations: of their own, and in templates.
const METADATA: [&str; 4] = [
    "metadata",
    "spec/template/metadata",
    "spec/jobTemplate/metadata",
    "spec/jobTemplate/spec/template/metadata",
];

/// Keys whose values are all known.
const CLOSED: [(&str, &[&str]); 3] = [
    (label::CAPACITY_TYPE, &label::CAPACITY_TYPES),
    (label::ARCH, &["amd64", "arm64"]),
    (label::OS, &["linux", "windows"]),
];

pub(super) fn check(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    for kind in ["NodePool", "Pod", "DaemonSet", CRON_JOB].into_iter().chain(WORKLOADS) {
        for (key, object) in linted.objects.of_kind(kind) {
            let name = if key.namespace.is_empty() {
                format!("{kind}/{}", key.name)
            } else {
                format!("{kind}/{}/{}", key.namespace, key.name)
            };
            let mut used = Vec::new();
            uses(&object["spec"], "spec", &mut used);
            for one in used {
                judge(linted, &name, &one, found);
            }
            for at in METADATA {
                let annotations = object.pointer(&format!("/{at}/annotations")).and_then(Value::as_object);
                for (key, value) in annotations.into_iter().flatten() {
                    let field = format!("{}.annotations.{key}", at.replace('/', "."));
                    if key == annotation::DO_NOT_DISRUPT {
                        found.extend(protects_nothing(kind, at, value, &name, field));
                        continue;
                    }
                    let present = today(key, &annotation::RENAMED);
                    found.extend(present.map(|present| old_key(&name, field, key, present)));
                }
            }
        }
    }
}

/// An annotation that is to protect a node or a pod, and does not where it is or as it is written: a duration counts on pods
/// alone.
fn protects_nothing(kind: &str, at: &str, value: &Value, object: &str, field: String) -> Option<LintFinding> {
    let value = value.as_str().unwrap_or_default();
    if value == "false" {
        return None;
    }
    let is_positive = || karpenter_api::parse_go_duration(value).is_ok_and(|duration| !duration.is_zero());
    let of_pool = kind == "NodePool";
    // Nothing hands down what is on a workload or a pool itself.
    let is_read = at.ends_with("template/metadata") || kind == "Pod";
    let (problem, remedy) = match (is_read, of_pool) {
        (false, _) => (
            "the annotation counts on pods and nodes alone, so here it protects nothing",
            "write it into the template",
        ),
        (true, _) if value == "true" => return None,
        (true, true) => {
            ("nodes are protected by `true` alone, so this protects nothing", "write \"true\", or remove it")
        }
        (true, false) if is_positive() => return None,
        (true, false) => (
            "pods are protected by `true` or a duration, so this protects nothing",
            "write \"true\", or a duration such as 1h, or remove it",
        ),
    };
    Some(LintFinding {
        object: object.to_owned(),
        field,
        rule: "protects-nothing",
        severity: LintSeverity::Warning,
        problem: problem.to_owned(),
        remedy: remedy.to_owned(),
        origin: None,
    })
}

/// A label key that is asked for or set.
struct Use<'a> {
    field: String,
    key: &'a str,
    values: Vec<&'a str>,
}

fn judge(linted: &Linted<'_>, object: &str, used: &Use<'_>, found: &mut Vec<LintFinding>) {
    if let Some(name) = today(used.key, &label::RENAMED) {
        found.push(old_key(object, used.field.clone(), used.key, name));
        return;
    }
    let mut report = |rule, problem, remedy| {
        let (object, field) = (object.to_owned(), used.field.clone());
        let severity = LintSeverity::Warning;
        found.push(LintFinding { object, field, rule, severity, problem, remedy, origin: None });
    };
    let registry = linted.registry;
    let known = registry.well_known.iter().chain(registry.normalized_keys.keys());
    let own = [label::NODE_POOL, label::HOSTNAME, label::aws::EC2_NODE_CLASS];
    let known = known.map(karpenter_model::LabelKey::as_str).chain(own);
    if let Some(meant) = near(used.key, known) {
        let problem = format!("`{}` is no well-known label, so no instance type has it", used.key);
        report("key-typo", problem, format!("write `{meant}` if that is meant"));
        return;
    }
    let Some((_, closed)) = CLOSED.iter().find(|(key, _)| *key == used.key) else { return };
    for value in used.values.iter().filter(|value| !closed.contains(value)) {
        let problem = format!("`{}` never is `{value}`", used.key);
        let remedy = match near(value, closed.iter().copied()) {
            Some(meant) => format!("write `{meant}`"),
            None => format!("use one of {}", closed.join(", ")),
        };
        report("value-typo", problem, remedy);
    }
}

fn old_key(object: &str, field: String, key: &str, today: &str) -> LintFinding {
    LintFinding {
        object: object.to_owned(),
        field,
        rule: "old-key",
        severity: LintSeverity::Warning,
        problem: format!("`{key}` is of an older version, so it has no effect or is met by no node"),
        remedy: format!("write `{today}`; `karpenter convert` does"),
        origin: None,
    }
}

/// Every place that names a label of nodes: requirements, node selectors, node affinity, topology keys, template labels.
fn uses<'a>(value: &'a Value, path: &str, found: &mut Vec<Use<'a>>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                let of_nodes = ["requirements[", "matchExpressions["]
                    .iter()
                    .any(|list| path.rsplit_once('.').is_some_and(|(_, last)| last.starts_with(list)));
                // Selectors of pods have expressions too.
                let of_pods = path.contains("elector.match");
                match item["key"].as_str().filter(|_| of_nodes && !of_pods) {
                    Some(key) => {
                        let values =
                            item["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
                        found.push(Use { field: format!("{path}.key"), key, values: values.collect() });
                    }
                    None => uses(item, &path, found),
                }
            }
        }
        Value::Object(fields) => {
            for (field, value) in fields {
                let path = format!("{path}.{field}");
                let of_pool = path == "spec.template.metadata.labels";
                match (field.as_str(), value) {
                    ("nodeSelector", Value::Object(labels)) => labels_of(labels, &path, found),
                    ("labels", Value::Object(labels)) if of_pool => labels_of(labels, &path, found),
                    ("topologyKey", Value::String(key)) => {
                        found.push(Use { field: path, key, values: Vec::new() });
                    }
                    _ => uses(value, &path, found),
                }
            }
        }
        _ => {}
    }
}

fn labels_of<'a>(labels: &'a serde_json::Map<String, Value>, path: &str, found: &mut Vec<Use<'a>>) {
    for (key, value) in labels {
        let values = value.as_str().into_iter().collect();
        found.push(Use { field: format!("{path}.{key}"), key, values });
    }
}
