//! Taints that the controller of the node life cycle keeps by the conditions of a node. It has done so within seconds in a
//! cluster; a manifest may have the condition alone.

use karpenter_model::names::{condition, taint};
use serde_json::{Value, json};

use crate::objects::Objects;

/// A condition with a status, and what it puts on the node: the key of a taint and its effects.
const BY_CONDITION: [(&str, &str, &str, &[&str]); 6] = [
    (condition::READY, "False", taint::NOT_READY, &["NoSchedule", "NoExecute"]),
    (condition::READY, "Unknown", taint::UNREACHABLE, &["NoSchedule", "NoExecute"]),
    ("MemoryPressure", "True", taint::MEMORY_PRESSURE, &["NoSchedule"]),
    ("DiskPressure", "True", taint::DISK_PRESSURE, &["NoSchedule"]),
    ("PIDPressure", "True", taint::PID_PRESSURE, &["NoSchedule"]),
    ("NetworkUnavailable", "True", taint::NETWORK_UNAVAILABLE, &["NoSchedule"]),
];

/// Gives nodes the taints of their conditions. Those that are there stay, as do nodes without conditions.
pub(crate) fn keep_taints(objects: &mut Objects) {
    for (_, node) in objects.of_kind_mut("Node") {
        let conditions =
            node.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_met = |kind: &str, status: &str| {
            conditions.iter().any(|one| one["type"] == kind && one["status"] == status)
        };
        let met = BY_CONDITION.iter().filter(|(kind, status, ..)| is_met(kind, status));
        for (_, _, key, effects) in met {
            for effect in *effects {
                put(node, key, effect);
            }
        }
    }
}

fn put(node: &mut Value, key: &str, effect: &str) {
    let taints = &mut node["spec"]["taints"];
    if taints.is_null() {
        *taints = json!([]);
    }
    let Some(taints) = taints.as_array_mut() else { return };
    if !taints.iter().any(|one| one["key"] == key && one["effect"] == effect) {
        taints.push(json!({"key": key, "effect": effect}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_taints_of_their_conditions() {
        let taints = |node: Value| -> Vec<String> {
            let mut objects: Objects = [node].into_iter().collect();
            // A second time changes nothing.
            keep_taints(&mut objects);
            keep_taints(&mut objects);
            let (_, node) = objects.of_kind("Node").next().unwrap();
            let all = node["spec"]["taints"].as_array().into_iter().flatten();
            all.map(|one| format!("{}:{}", one["key"].as_str().unwrap(), one["effect"].as_str().unwrap()))
                .collect()
        };
        let node = |conditions: Value, own: Value| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
                "spec": {"taints": own}, "status": {"conditions": conditions}})
        };
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let not_ready = ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"];
        assert_eq!(taints(node(json!(null), json!(null))), Vec::<String>::new());
        assert_eq!(taints(node(ready("True"), json!(null))), Vec::<String>::new());
        assert_eq!(taints(node(ready("False"), json!(null))), not_ready);
        let own = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        assert_eq!(taints(node(ready("False"), own)), not_ready);
        let disk = json!([{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": "True"}]);
        assert_eq!(taints(node(disk, json!(null))), ["node.kubernetes.io/disk-pressure:NoSchedule"]);
    }
}
