//! What people delete by hand goes in order: drained first, its instance terminated, its pods placed elsewhere.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::NodePool;
use karpenter_model::names::label;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::manifests;
use crate::scenario::corner::{Corner, by_label, told};
use crate::scenario::facts;
use crate::wait;
use crate::world::World;

/// `kubectl delete node`.
pub(super) async fn of_a_node(world: &World) -> Result<()> {
    let corner = Corner::open(world, "node-deletion").await?;
    corner.ready_pool("node-deletion", json!({})).await?;
    corner.pods("worker", 2, json!({})).await?;
    let node = corner.running("worker", 2).await?.remove(0);
    let name = node.name_any();
    let id = node.spec.clone().and_then(|spec| spec.provider_id).context("the node has no provider id")?;
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.delete(&name, &DeleteParams::default()).await.with_context(|| format!("delete node `{name}`"))?;

    wait::until("node and instance to be gone", || async {
        let there = nodes.get_opt(&name).await.context("read the node")?;
        // By uid: the next node may get the address, and so the name, of the one before.
        let node = there.is_some_and(|there| there.uid() == node.uid());
        let instances = facts::instances(world).await?;
        let instance = instances.iter().any(|instance| id.ends_with(instance.id.as_str()));
        Ok(if node || instance { Err(format!("node there: {node}, instance: {instance}")) } else { Ok(()) })
    })
    .await?;
    let now = corner.running("worker", 2).await?;
    ensure!(now.iter().all(|other| other.uid() != node.uid()), "a pod runs on the deleted node");
    Ok(())
}

/// `kubectl delete node` while a budget lets no pod go: the API server's refusals show as an event, and the drain goes on
/// soon after the budget is gone.
pub(super) async fn held_by_a_budget(world: &World) -> Result<()> {
    let corner = Corner::open(world, "held-drain").await?;
    corner.ready_pool("held-drain", json!({})).await?;
    corner.pods("worker", 1, json!({})).await?;
    let node = corner.running("worker", 1).await?.remove(0);
    let name = node.name_any();
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "never", "namespace": "held-drain"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "worker"}}},
    });
    manifests::apply_json(&world.client, budget).await?;
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.delete(&name, &DeleteParams::default()).await.with_context(|| format!("delete node `{name}`"))?;
    told(world, "default", &name, "FailedDraining", "evicting pod held-drain/worker").await?;
    // By uid: the next node may get the address, and so the name, of the one before.
    let is_there = || async {
        let there = nodes.get_opt(&name).await.context("read the node")?;
        anyhow::Ok(there.is_some_and(|there| there.uid() == node.uid()))
    };
    ensure!(is_there().await?, "the node went before its pod");

    let budgets: Api<PodDisruptionBudget> = Api::namespaced(world.client.clone(), "held-drain");
    budgets.delete("never", &DeleteParams::default()).await.context("delete the budget")?;
    wait::until("the node to be gone", || async {
        Ok(if is_there().await? { Err("it is there".to_owned()) } else { Ok(()) })
    })
    .await?;
    corner.running("worker", 1).await.map(drop)
}

/// `kubectl delete nodepool`: its nodes go, and the pods move to the pool that is left.
pub(super) async fn of_a_pool(world: &World) -> Result<()> {
    let corner = Corner::open(world, "pool-deletion").await?;
    corner.ready_pool("pool-deletion-first", json!({"spec": {"weight": 50}})).await?;
    corner.ready_pool("pool-deletion-second", json!({})).await?;
    corner.pods("worker", 2, json!({})).await?;
    let pools = by_label(&corner.running("worker", 2).await?, label::NODE_POOL);
    ensure!(pools.keys().eq(["pool-deletion-first"]), "pods by pool: {pools:?}");

    let api: Api<NodePool> = Api::all(world.client.clone());
    api.delete("pool-deletion-first", &DeleteParams::foreground()).await.context("delete the pool")?;
    wait::until("the pool and its nodes to be gone", || async {
        let pool = api.get_opt("pool-deletion-first").await.context("read the pool")?.is_some();
        let pools = by_label(&corner.nodes().await?, label::NODE_POOL);
        let left = pool || pools.contains_key("pool-deletion-first");
        Ok(if left { Err(format!("pool there: {pool}, nodes by pool: {pools:?}")) } else { Ok(()) })
    })
    .await?;
    let pools = by_label(&corner.running("worker", 2).await?, label::NODE_POOL);
    ensure!(pools.keys().eq(["pool-deletion-second"]), "pods by pool: {pools:?}");
    Ok(())
}
