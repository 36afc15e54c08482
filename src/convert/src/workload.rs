//! Pods that select nodes by labels, taints and annotations of older versions.
//!
//! A pod template is looked for where Kubernetes' own kinds have it, so that other kinds of the same form are served too.

use karpenter_model::names::label;
use serde_json::{Value, json};

use crate::names;

/// Paths at which kinds keep the pod.
const PODS: [&str; 3] = ["", "/spec/template", "/spec/jobTemplate/spec/template"];

/// An object with today's names.
pub(crate) struct Rewritten {
    pub(crate) object: Value,
    /// Path and what is different there.
    pub(crate) changes: Vec<(String, String)>,
}

/// The object with today's names; no changes if it has none of the old ones.
pub(crate) fn rewrite(object: &Value) -> Rewritten {
    let mut rewritten = Rewritten { object: object.clone(), changes: Vec::new() };
    for pod in PODS {
        let prefix = pod.trim_start_matches('/').replace('/', ".");
        let Some(pod) = rewritten.object.pointer_mut(pod) else { continue };
        let at = |path: &str| if prefix.is_empty() { path.to_owned() } else { format!("{prefix}.{path}") };
        let changes = &mut rewritten.changes;
        if let Some(annotations) = pod.pointer_mut("/metadata/annotations") {
            rename_keys(annotations, &at("metadata.annotations"), names::annotation_today, changes);
        }
        if let Some(spec) = pod.get_mut("spec") {
            rename_in_spec(spec, &at("spec"), changes);
        }
    }
    rewritten
}

fn rename_in_spec(spec: &mut Value, path: &str, changes: &mut Vec<(String, String)>) {
    if let Some(selector) = spec.get_mut("nodeSelector") {
        rename_keys(selector, &format!("{path}.nodeSelector"), names::label_today, changes);
    }
    let node = "affinity/nodeAffinity";
    let required = format!("/{node}/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    for term in list(spec, &required) {
        rename_expressions(term, path, changes);
    }
    for preferred in list(spec, &format!("/{node}/preferredDuringSchedulingIgnoredDuringExecution")) {
        if let Some(term) = preferred.get_mut("preference") {
            rename_expressions(term, path, changes);
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for term in list(spec, &format!("/affinity/{kind}/requiredDuringSchedulingIgnoredDuringExecution")) {
            rename(term, "topologyKey", &format!("{path}.affinity.{kind}"), names::label_today, changes);
        }
        for preferred in
            list(spec, &format!("/affinity/{kind}/preferredDuringSchedulingIgnoredDuringExecution"))
        {
            if let Some(term) = preferred.get_mut("podAffinityTerm") {
                rename(term, "topologyKey", &format!("{path}.affinity.{kind}"), names::label_today, changes);
            }
        }
    }
    for spread in list(spec, "/topologySpreadConstraints") {
        rename(
            spread,
            "topologyKey",
            &format!("{path}.topologySpreadConstraints"),
            names::label_today,
            changes,
        );
    }
    for toleration in list(spec, "/tolerations") {
        if rename(toleration, "key", &format!("{path}.tolerations"), names::taint_today, changes) {
            // The taint of v1 has no value to compare with.
            if let Some(fields) = toleration.as_object_mut() {
                fields.shift_remove("value");
                fields.insert("operator".to_owned(), json!("Exists"));
            }
        }
    }
}

fn rename_expressions(term: &mut Value, path: &str, changes: &mut Vec<(String, String)>) {
    for expression in list(term, "/matchExpressions") {
        rename(expression, "key", &format!("{path}.affinity.nodeAffinity"), names::label_today, changes);
    }
}

fn list<'v>(value: &'v mut Value, pointer: &str) -> impl Iterator<Item = &'v mut Value> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Gives the text in a field its name of today.
fn rename(
    object: &mut Value,
    field: &str,
    path: &str,
    today: impl Fn(&str) -> Option<&'static str>,
    changes: &mut Vec<(String, String)>,
) -> bool {
    let Some(value) = object.get_mut(field) else { return false };
    let Some((old, name)) = value.as_str().and_then(|old| Some((old.to_owned(), today(old)?))) else {
        return false;
    };
    changes.push((path.to_owned(), format!("`{old}` is `{name}` today")));
    *value = json!(name);
    true
}

/// Gives the keys of a map their names of today, each at its place.
fn rename_keys(
    map: &mut Value,
    path: &str,
    today: impl Fn(&str) -> Option<&'static str>,
    changes: &mut Vec<(String, String)>,
) {
    let Some(fields) = map.as_object_mut() else { return };
    let renamed = std::mem::take(fields).into_iter().map(|(key, value)| match today(&key) {
        Some(name) => {
            changes.push((path.to_owned(), format!("`{key}` is `{name}` today")));
            (name.to_owned(), value)
        }
        None => (key, value),
    });
    *fields = renamed.collect();
}

/// Lines of a text that still name the old label, counted from 1.
pub(crate) fn mentions(text: &str) -> Vec<usize> {
    let lines = text.lines().enumerate().filter(|(_, line)| line.contains(label::PROVISIONER_NAME));
    lines.map(|(index, _)| index + 1).collect()
}
