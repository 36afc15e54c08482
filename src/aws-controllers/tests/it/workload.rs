//! A pool and pods for it.

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodeClaim;
use kube::api::Api;
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

/// Whether there are pods and all of them run.
pub(crate) async fn runs(world: &World) -> bool {
    let pods = Api::<Pod>::all(world.client.clone()).list(&Default::default()).await.unwrap();
    let running =
        |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    !pods.items.is_empty() && pods.iter().all(running)
}

/// Every claim.
pub(crate) async fn claims(world: &World) -> Vec<NodeClaim> {
    Api::<NodeClaim>::all(world.client.clone()).list(&Default::default()).await.unwrap().items
}
