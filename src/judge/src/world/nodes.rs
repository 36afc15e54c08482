//! Nodes that are there: of several sizes, some tainted, some without room, with what their agents publish.

use fastrand::Rng;
use karpenter_model::names::{label, taint};
use serde_json::{Value, json};

use super::pools::TEAM;
use super::{happens, one};
use crate::catalogue::{REGION, ZONES};

pub(super) fn draw(rng: &mut Rng) -> Vec<Value> {
    let count = rng.usize(0..=4);
    let mut objects = Vec::new();
    for number in 0..count {
        objects.extend(node(number, rng));
    }
    objects
}

fn node(number: usize, rng: &mut Rng) -> Vec<Value> {
    let name = format!("node-{number}");
    let arm = happens(rng, 15);
    let (instance_type, arch) = if arm { ("m6g.large", "arm64") } else { ("m5.large", "amd64") };
    let mut labels = json!({
        (label::HOSTNAME): name, (label::OS): "linux", (label::ARCH): arch,
        (label::REGION): REGION, (label::ZONE): one(rng, &ZONES),
        (label::INSTANCE_TYPE): instance_type,
        (label::CAPACITY_TYPE): one(rng, &["spot", "on-demand"]),
        "tier": one(rng, &["general", "team"]),
    });
    if happens(rng, 20) {
        labels["example.com/rack"] = json!(one(rng, &["r1", "r2"]));
    }
    let mut spec = json!({});
    if happens(rng, 15) {
        let effect = one(rng, &["NoSchedule", "NoExecute", "PreferNoSchedule"]);
        spec["taints"] = json!([{"key": TEAM, "value": "red", "effect": effect}]);
    }
    if happens(rng, 5) {
        // With the taint that the controller of the life cycle of nodes adds.
        spec["unschedulable"] = json!(true);
        spec["taints"] = json!([{"key": taint::UNSCHEDULABLE, "effect": "NoSchedule"}]);
    }
    let (cpu, memory) = (one(rng, &["500m", "1", "2", "4"]), one(rng, &["1Gi", "2Gi", "8Gi"]));
    let amounts = json!({"cpu": cpu, "memory": memory, "pods": one(rng, &["2", "4", "29"]), "ephemeral-storage": "20Gi"});
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name, "labels": labels}, "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    });
    let attachable = one(rng, &[1, 2, 25]);
    let csi_node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
        "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": name, "topologyKeys": [],
            "allocatable": {"count": attachable}}]},
    });
    vec![node, csi_node]
}
