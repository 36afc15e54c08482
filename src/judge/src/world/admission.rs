//! Admission of pods: limit ranges and runtime classes.

use fastrand::Rng;
use serde_json::{Value, json};

use super::pools::TEAM;
use super::{NAMESPACES, happens, one};

/// Runtime classes of every world: one that costs, and one that is for the nodes of one pool alone.
pub(super) const RUNTIMES: [&str; 2] = ["sandbox", "team"];

/// The runtime classes, and limit ranges of some namespaces. Their limits are above what any container asks for.
pub(super) fn draw(rng: &mut Rng) -> Vec<Value> {
    let class = |name: &str, fields: (&str, Value)| {
        let (field, value) = fields;
        json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name,
            field: value})
    };
    let overhead = json!({"podFixed": {"cpu": "250m", "memory": "128Mi"}});
    let scheduling =
        json!({"nodeSelector": {"tier": "team"}, "tolerations": [{"key": TEAM, "operator": "Exists"}]});
    let mut objects =
        vec![class(RUNTIMES[0], ("overhead", overhead)), class(RUNTIMES[1], ("scheduling", scheduling))];
    for namespace in NAMESPACES.map(|(name, _)| name).into_iter().chain(["kube-system"]) {
        if happens(rng, 20) {
            objects.push(limit_range(namespace, rng));
        }
    }
    objects
}

fn limit_range(namespace: &str, rng: &mut Rng) -> Value {
    let mut item = json!({"type": "Container"});
    if happens(rng, 60) {
        item["max"] = json!({"cpu": one(rng, &["2", "3"]), "memory": "3Gi"});
    }
    if happens(rng, 30) {
        item["default"] = json!({"cpu": "2"});
    }
    if happens(rng, 40) {
        item["defaultRequest"] = json!({"cpu": one(rng, &["100m", "1"]), "memory": "256Mi"});
    }
    if happens(rng, 30) {
        item["min"] = json!({"cpu": "50m", "memory": "64Mi"});
    }
    json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "usual", "namespace": namespace},
        "spec": {"limits": [item]},
    })
}
