//! Apps: some pods of one class each.

use fastrand::Rng;
use serde_json::{Value, json};

use super::pools::TEAM;
use super::{NAMESPACES, affinity, happens, one, volumes};
use crate::trial::CLASS;

/// Priority classes of every world.
const PRIORITIES: [(&str, i32); 3] = [("low", -10), ("high", 100), ("higher", 1000)];

/// The priority classes.
pub(super) fn priorities() -> Vec<Value> {
    let class = |(name, value)| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    PRIORITIES.map(class).to_vec()
}

/// The pods of an app, and their volumes.
pub(super) fn draw(app: usize, apps: usize, rng: &mut Rng) -> Vec<Value> {
    let namespace = if happens(rng, 80) { NAMESPACES[0].0 } else { NAMESPACES[1].0 };
    let spec = spec(app, apps, rng);
    let tier = one(rng, &["p", "q"]);
    let volumes = volumes::kind(rng);
    let mut objects = Vec::new();
    for number in 0..rng.usize(1..=5) {
        let mut spec = spec.clone();
        let mut class = format!("a{app}");
        if let Some(kind) = &volumes {
            let (claim, distinction, made) = volumes::claim(kind, app, number, namespace, rng);
            spec["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
            class = format!("{class}-{distinction}");
            objects.extend(made);
        }
        let name = format!("a{app}-{number}");
        objects.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2025-12-31T23:00:00Z",
                "labels": {"app": format!("a{app}"), "tier": tier}, "annotations": {CLASS: class},
            },
            "spec": spec,
        }));
    }
    objects
}

fn spec(app: usize, apps: usize, rng: &mut Rng) -> Value {
    let mut container = container(rng);
    if happens(rng, 12) {
        let mut port = json!({"containerPort": 80, "hostPort": one(rng, &[9090, 9091])});
        match rng.u32(0..4) {
            0 => port["protocol"] = json!("UDP"),
            1 => port["hostIP"] = json!("127.0.0.1"),
            _ => {}
        }
        container["ports"] = json!([port]);
    }
    let mut spec = json!({"containers": [container]});
    let spreads = affinity::spreads(app, apps, rng);
    if !spreads.is_empty() {
        spec["topologySpreadConstraints"] = json!(spreads);
    }
    if let Some(affinity) = affinity::affinity(app, apps, rng) {
        spec["affinity"] = affinity;
    }
    if let Some(labels) = affinity::node_selector(rng) {
        spec["nodeSelector"] = labels;
    }
    if happens(rng, 30) {
        spec["tolerations"] = match rng.u32(0..3) {
            0 => json!([{"operator": "Exists"}]),
            1 => json!([{"key": TEAM, "operator": "Exists"}]),
            _ => json!([{"key": TEAM, "operator": "Equal", "value": "red", "effect": "NoSchedule"}]),
        };
    }
    if happens(rng, 10) {
        let mut init = self::container(rng);
        init["name"] = json!("i");
        if happens(rng, 50) {
            init["restartPolicy"] = json!("Always");
        }
        spec["initContainers"] = json!([init]);
    }
    if happens(rng, 15) {
        spec["priorityClassName"] = json!(one(rng, &PRIORITIES).0);
    }
    spec
}

fn container(rng: &mut Rng) -> Value {
    json!({"name": "c", "image": "x", "resources": {"requests": {
        "cpu": one(rng, &["100m", "500m", "1", "1500m", "2"]), "memory": one(rng, &["128Mi", "256Mi", "1Gi", "3Gi"]),
    }}})
}
