//! Deletions by hand, which go in order: drained first, then the instance terminated, the pods placed elsewhere.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodePool;
use karpenter_model::names::label;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::scenario::facts;
use crate::scenario::test_namespace::{TestNamespace, by_label, told};
use crate::wait;
use crate::world::World;

/// `kubectl delete node`.
pub(super) async fn of_a_node(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "node-deletion").await?;
    test.ready_pool("node-deletion", json!({})).await?;
    test.pods("worker", 2, json!({})).await?;
    let node = test.running("worker", 2).await?.remove(0);
    let name = node.name_any();
    let id = node.spec.clone().and_then(|spec| spec.provider_id).context("the node has no provider id")?;
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.delete(&name, &DeleteParams::default()).await.with_context(|| format!("delete node `{name}`"))?;

    wait::until("node and instance to be gone", || async {
        let node = is_there(&nodes, &node).await?;
        let instances = facts::instances(world).await?;
        let instance = instances.iter().any(|instance| id.ends_with(instance.id.as_str()));
        Ok(if node || instance { Err(format!("node there: {node}, instance: {instance}")) } else { Ok(()) })
    })
    .await?;
    let now = test.running("worker", 2).await?;
    ensure!(now.iter().all(|other| other.uid() != node.uid()), "a pod runs on the deleted node");
    Ok(())
}

/// `kubectl delete node` while a budget lets no pod go: the API server's refusals show as an event, and the drain goes on
/// soon after the budget is gone.
pub(super) async fn held_by_a_budget(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "held-drain").await?;
    test.ready_pool("held-drain", json!({})).await?;
    test.pods("worker", 1, json!({})).await?;
    let node = test.running("worker", 1).await?.remove(0);
    let name = node.name_any();
    test.forbid_evictions().await?;
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.delete(&name, &DeleteParams::default()).await.with_context(|| format!("delete node `{name}`"))?;
    told(world, "default", &name, "FailedDraining", "evicting pod held-drain/worker").await?;
    ensure!(is_there(&nodes, &node).await?, "the node went before its pod");

    test.allow_evictions().await?;
    wait::until("the node to be gone", || async {
        Ok(if is_there(&nodes, &node).await? { Err("it is there".to_owned()) } else { Ok(()) })
    })
    .await?;
    test.running("worker", 1).await.map(drop)
}

/// Returns whether a node is still there, by uid: the next one may get the address, and so the name, of the one before.
async fn is_there(nodes: &Api<Node>, node: &Node) -> Result<bool> {
    let there = nodes.get_opt(&node.name_any()).await.context("read the node")?;
    Ok(there.is_some_and(|there| there.uid() == node.uid()))
}

/// `kubectl delete nodepool`: its nodes go, and the pods move to the pool that is left.
pub(super) async fn of_a_pool(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "pool-deletion").await?;
    test.ready_pool("pool-deletion-first", json!({"spec": {"weight": 50}})).await?;
    test.ready_pool("pool-deletion-second", json!({})).await?;
    test.pods("worker", 2, json!({})).await?;
    let pools = by_label(&test.running("worker", 2).await?, label::NODE_POOL);
    ensure!(pools.keys().eq(["pool-deletion-first"]), "pods by pool: {pools:?}");

    let api: Api<NodePool> = Api::all(world.client.clone());
    api.delete("pool-deletion-first", &DeleteParams::foreground()).await.context("delete the pool")?;
    wait::until("the pool and its nodes to be gone", || async {
        let pool = api.get_opt("pool-deletion-first").await.context("read the pool")?.is_some();
        let pools = by_label(&test.nodes().await?, label::NODE_POOL);
        let left = pool || pools.contains_key("pool-deletion-first");
        Ok(if left { Err(format!("pool there: {pool}, nodes by pool: {pools:?}")) } else { Ok(()) })
    })
    .await?;
    let pools = by_label(&test.running("worker", 2).await?, label::NODE_POOL);
    ensure!(pools.keys().eq(["pool-deletion-second"]), "pods by pool: {pools:?}");
    Ok(())
}
