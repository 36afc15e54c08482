//! Daemons: up to two sets, for all nodes or some.

use fastrand::Rng;
use karpenter_model::names::label;
use serde_json::{Value, json};

use super::admission::RUNTIMES;
use super::{happens, one};

pub(super) fn draw(rng: &mut Rng) -> Vec<Value> {
    let count = if happens(rng, 50) { rng.usize(1..=2) } else { 0 };
    (0..count).map(|number| daemon_set(number, rng)).collect()
}

fn daemon_set(number: usize, rng: &mut Rng) -> Value {
    let name = format!("d{number}");
    let mut container = json!({"name": "c", "image": "x", "resources": {"requests": {
        "cpu": one(rng, &["50m", "100m", "300m"]), "memory": one(rng, &["64Mi", "256Mi"]),
    }}});
    if happens(rng, 20) {
        container["ports"] = json!([{"containerPort": 80, "hostPort": 9090}]);
    }
    if happens(rng, 8) {
        container["resources"] = json!({});
    }
    let mut spec = json!({"containers": [container]});
    if happens(rng, 10) {
        spec["hostNetwork"] = json!(true);
        spec["containers"][0]["ports"] = json!([{"containerPort": 9091}]);
    }
    match rng.u32(0..6) {
        0 => spec["nodeSelector"] = json!({(label::ARCH): "amd64"}),
        1 => {
            let in_zone = json!({"matchExpressions": [{"key": label::CAPACITY_TYPE, "operator": "In",
                "values": ["spot"]}]});
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [in_zone]}}});
        }
        2 => spec["nodeSelector"] = json!({"tier": one(rng, &["general", "team"])}),
        _ => {}
    }
    if happens(rng, 10) {
        spec["runtimeClassName"] = json!(RUNTIMES[0]);
    }
    if happens(rng, 60) {
        spec["tolerations"] = json!([{"operator": "Exists"}]);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "uid": name},
        "spec": {
            "selector": {"matchLabels": {"daemon": name}},
            "template": {"metadata": {"labels": {"daemon": name}}, "spec": spec},
        },
    })
}
