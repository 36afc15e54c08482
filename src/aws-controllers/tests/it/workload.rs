//! A pool and pods for it.

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodeClaim;
use serde_json::json;

use crate::world::World;

/// Pool `web`, which buys in these ways and is never consolidated.
pub(crate) fn pool(world: &World, capacity_types: &[&str]) {
    world.load(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types},
                ],
            }},
            "disruption": {"consolidateAfter": "Never"},
        },
    }));
}

/// Pods of one CPU each that come back when they are evicted.
pub(crate) fn replicas(world: &World, count: u32) {
    world.load(&json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": count, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                },
            },
        },
    }));
}

/// A pool of one type that nothing is consolidated in.
pub(crate) fn pool_of(world: &World, name: &str, instance_type: &str) {
    world.load(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type]},
                ],
            }},
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
        },
    }));
}

/// Pods that each need a node of this pool to themselves.
pub(crate) fn one_per_node(world: &World, name: &str, replicas: usize, pool: &str) {
    let container = json!({
        "name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}},
        "ports": [{"containerPort": 80, "hostPort": 80}],
    });
    world.load(&json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 5, "containers": [container],
                    "nodeSelector": {"karpenter.sh/nodepool": pool},
                },
            },
        },
    }));
}

/// Returns whether there are pods and all of them run.
pub(crate) fn runs(world: &World) -> bool {
    let pods = world.all::<Pod>();
    let running =
        |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    !pods.is_empty() && pods.iter().all(running)
}

/// Every claim.
pub(crate) fn claims(world: &World) -> Vec<NodeClaim> {
    world.all()
}
