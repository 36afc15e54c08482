//! Pods from templates.

use serde_json::{Value, json};

use crate::apiserver::object::{self, at, text};

/// A pod of `owner`, which is of `kind`, made from the owner's template.
pub(super) fn pod(owner: &Value, kind: &str) -> Value {
    let template = &owner["spec"]["template"];
    let field = |name: &str| template["metadata"].get(name).cloned().unwrap_or_else(|| json!({}));
    json!({
        "metadata": {
            "generateName": format!("{}-", object::name(owner)),
            "labels": field("labels"), "annotations": field("annotations"),
            "ownerReferences": [reference(owner, kind)],
        },
        "spec": template["spec"],
    })
}

/// The reference that makes `owner` the controller.
pub(super) fn reference(owner: &Value, kind: &str) -> Value {
    let group = match kind {
        "Pod" => "v1",
        "Job" => "batch/v1",
        _ => "apps/v1",
    };
    json!({
        "apiVersion": group, "kind": kind, "name": object::name(owner), "uid": object::uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns whether `owner` controls `object`.
pub(super) fn controls(owner: &Value, object: &Value) -> bool {
    object::controller(object).is_some_and(|reference| text(reference, "/uid") == object::uid(owner))
}

/// Returns whether a pod counts towards what its controller wants: it neither ended nor is about to.
pub(super) fn is_active(pod: &Value) -> bool {
    !object::is_deleting(pod) && !has_ended(pod)
}

/// Returns whether a pod has ended, well or not.
pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Returns whether a pod is ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    object::condition(pod, "Ready") == Some("True")
}

/// A whole number at a pointer, 0 when absent.
pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    at(object, pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// A count as the API writes it.
pub(super) fn count(items: impl Iterator) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}
