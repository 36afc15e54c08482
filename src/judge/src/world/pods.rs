//! Apps: some pods of one class each.

use fastrand::Rng;
use serde_json::{Value, json};

use super::admission::RUNTIMES;
use super::pools::TEAM;
use super::{NAMESPACES, affinity, happens, one, volumes};
use crate::trial::CLASS;

/// Priority classes of every world.
const PRIORITIES: [(&str, i32); 3] = [("low", -10), ("high", 100), ("higher", 1000)];

/// The priority classes, and one for all other pods. None preempts: a pod that goes would have to be made again.
pub(super) fn priorities() -> Vec<Value> {
    let class = |name: &str, value: i32, is_default: bool| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            "preemptionPolicy": "Never", "globalDefault": is_default})
    };
    let named = PRIORITIES.map(|(name, value)| class(name, value, false));
    named.into_iter().chain([class("usual", 0, true)]).collect()
}

/// The pods of an app, and their volumes.
pub(super) fn draw(app: usize, apps: usize, rng: &mut Rng) -> Vec<Value> {
    let namespace = if happens(rng, 80) { NAMESPACES[0].0 } else { NAMESPACES[1].0 };
    let spec = spec(app, apps, rng);
    let tier = one(rng, &["p", "q"]);
    let volumes = volumes::kind(rng);
    let revisions = happens(rng, 20);
    let mut objects = Vec::new();
    for number in 0..rng.usize(1..=5) {
        let mut spec = spec.clone();
        let mut class = format!("a{app}");
        if let Some(kind) = &volumes {
            let (volume, distinction, made) = volumes::volume(kind, app, number, namespace, rng);
            spec["volumes"] = json!([volume]);
            class = format!("{class}-{distinction}");
            objects.extend(made);
        }
        let mut labels = json!({"app": format!("a{app}"), "tier": tier});
        if revisions {
            let revision = *one(rng, &["r1", "r2"]);
            labels[affinity::REVISION] = json!(revision);
            class = format!("{class}-{revision}");
        }
        let name = format!("a{app}-{number}");
        objects.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": namespace, "creationTimestamp": "2025-12-31T23:00:00Z",
                "labels": labels, "annotations": {CLASS: class},
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
    let on_host_network = happens(rng, 6);
    if on_host_network {
        container["ports"] = json!([{"containerPort": one(rng, &[9090, 9091])}]);
    }
    let mut spec = json!({"containers": [container]});
    if on_host_network {
        spec["hostNetwork"] = json!(true);
    }
    if happens(rng, 10) {
        spec["runtimeClassName"] = json!(one(rng, &RUNTIMES));
    }
    let as_a_whole = happens(rng, 5);
    if as_a_whole {
        spec["resources"] = json!({"limits": {"cpu": "3", "memory": "4Gi"}});
        spec["containers"][0]["resources"] = json!({});
    }
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
    // The API server refuses pods whose containers ask for more than the pod as a whole.
    if !as_a_whole && happens(rng, 10) {
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
    if happens(rng, 8) {
        return json!({"name": "c", "image": "x"});
    }
    json!({"name": "c", "image": "x", "resources": {"requests": {
        "cpu": one(rng, &["100m", "500m", "1", "1500m", "2"]), "memory": one(rng, &["128Mi", "256Mi", "1Gi", "3Gi"]),
    }}})
}
