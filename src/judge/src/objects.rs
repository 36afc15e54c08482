//! Objects of a cluster as they are written, found by kind, namespace and name.

use karpenter_model::names::condition;
use serde_json::{Value, json};

/// Kind, namespace and name of an object, each empty where it has none.
pub type Key = (String, String, String);

/// The key of an object.
pub fn key(object: &Value) -> Key {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// The objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// Puts objects in the place of those with the same key; the others are added at the end.
pub(crate) fn merge(objects: &mut Vec<Value>, changed: Vec<Value>) {
    for one in changed {
        match objects.iter_mut().find(|object| key(object) == key(&one)) {
            Some(object) => *object = one,
            None => objects.push(one),
        }
    }
}

/// Returns whether a pod belongs to a daemon set.
pub fn is_daemon(pod: &Value) -> bool {
    pod.pointer("/metadata/ownerReferences/0/kind").is_some_and(|kind| kind == "DaemonSet")
}

/// Pods without a node, but for those of daemons.
pub fn waiting(objects: &[Value]) -> impl Iterator<Item = &Value> {
    of_kind(objects, "Pod").filter(|pod| node_of(pod).is_none() && !is_daemon(pod))
}

/// The node a pod is bound to.
pub fn node_of(pod: &Value) -> Option<&str> {
    pod.pointer("/spec/nodeName").and_then(Value::as_str)
}

/// Writes down that the scheduler refuses the pods that have no node: only for those nodes are planned.
pub(crate) fn refuse_pods_without_node(objects: &mut [Value]) {
    for pod in objects.iter_mut().filter(|object| object["kind"] == "Pod" && node_of(object).is_none()) {
        pod["status"]["phase"] = json!("Pending");
        pod["status"]["conditions"] = json!([{
            "type": condition::POD_SCHEDULED, "status": "False", "reason": "Unschedulable", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
    }
}
