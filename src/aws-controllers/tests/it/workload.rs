//! A pool and pods for it.

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodeClaim;
use karpenter_model::names::label;
use karpenter_testkit::objects::{node_pool, on_port_80, one_of, replica_set, with};
use serde_json::{Value, json};

use crate::world::World;

/// A pool of the class `default` that is never consolidated, with these requirements and `change` in its spec.
pub(crate) fn pool_with(world: &World, name: &str, requirements: &[Value], change: &Value) {
    let spec = with(json!({"disruption": {"consolidateAfter": "Never"}}), change);
    world.load(&node_pool(name, requirements, &spec));
}

/// Pool `web`, which buys in these ways.
pub(crate) fn pool(world: &World, capacity_types: &[&str]) {
    pool_with(world, "web", &[one_of(label::CAPACITY_TYPE, capacity_types)], &json!({}));
}

/// A pool of one type.
pub(crate) fn pool_of(world: &World, name: &str, instance_type: &str) {
    let requirements = [
        one_of(label::CAPACITY_TYPE, &["spot", "on-demand"]),
        one_of(label::INSTANCE_TYPE, &[instance_type]),
    ];
    pool_with(world, name, &requirements, &json!({"disruption": {"budgets": [{"nodes": "100%"}]}}));
}

/// Pods of one CPU each that come back when they are evicted.
pub(crate) fn replicas(world: &World, count: usize) {
    world.load(&replica_set("web", count, "1", &json!({})));
}

/// Pods that each need a node of this pool to themselves.
pub(crate) fn one_per_node(world: &World, name: &str, replicas: usize, pool: &str) {
    let of_pool = json!({"nodeSelector": {"karpenter.sh/nodepool": pool}});
    world.load(&replica_set(name, replicas, "1", &with(on_port_80("1"), &of_pool)));
}

/// Pool `web`, which buys in these ways, and a pod that runs in it.
pub(crate) async fn run(world: &World, capacity_types: &[&str]) {
    pool(world, capacity_types);
    replicas(world, 1);
    until_running(world).await;
}

/// Waits until there are pods and all of them run.
pub(crate) async fn until_running(world: &World) {
    world.until("the pods run", async || runs(world)).await;
}

/// Waits until a claim is being deleted.
pub(crate) async fn until_deleting(world: &World) {
    let deleting = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some();
    world.until("a claim is being deleted", async || claims(world).iter().any(deleting)).await;
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
