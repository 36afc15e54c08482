//! EC2 has no capacity for what would be cheapest: pods run on the next best thing, and launches stop asking for
//! what is known to be out.

use anyhow::{Result, ensure};
use karpenter_model::names::label;
use serde_json::json;

use crate::account::control::CapacityRule;
use crate::manifests::merged;
use crate::scenario::test_namespace::{TestNamespace, by_label, needs, requiring, told};
use crate::world::World;

/// The cheapest type of a pool is out; the pool has another one.
pub(super) async fn dry_type(world: &World) -> Result<()> {
    exhaust(world, "t3.medium").await?;
    let test = TestNamespace::open(world, "dry-type").await?;
    test.ready_pool("dry-type", only(&["t3.medium", "t3.large"])).await?;
    test.pods("worker", 2, json!({})).await?;

    let types = by_label(&test.running("worker", 2).await?, label::INSTANCE_TYPE);
    ensure!(types.keys().eq(["t3.large"]), "pods by instance type: {types:?}");
    Ok(())
}

/// The heavier pool has no type left: its claim fails, and the pods move on to the lighter pool.
pub(super) async fn dry_pool(world: &World) -> Result<()> {
    exhaust(world, "t3a.*").await?;
    let test = TestNamespace::open(world, "dry-pool").await?;
    let first = "dry-pool-first-";
    let heavier = merged(only(&["t3a.medium", "t3a.large"]), json!({"spec": {"weight": 50}}));
    test.ready_pool("dry-pool-first", heavier).await?;
    test.ready_pool("dry-pool-second", only(&["t2.large"])).await?;
    test.pods("worker", 2, json!({})).await?;

    told(world, "default", first, "InsufficientCapacityError", first).await?;
    let pools = by_label(&test.running("worker", 2).await?, label::NODE_POOL);
    ensure!(pools.keys().eq(["dry-pool-second"]), "pods by pool: {pools:?}");
    Ok(())
}

fn only(types: &[&str]) -> serde_json::Value {
    requiring(json!([needs(label::INSTANCE_TYPE, types), needs(label::CAPACITY_TYPE, &["on-demand"])]))
}

async fn exhaust(world: &World, types: &str) -> Result<()> {
    let rule = CapacityRule { instance_type: Some(types.to_owned()), ..CapacityRule::default() };
    world.control()?.limit_capacity(&rule).await
}
