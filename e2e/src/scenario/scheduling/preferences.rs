//! A pod that prefers a zone the account does not have gets a node all the same.

use anyhow::{Result, ensure};
use karpenter_model::names::label;
use serde_json::json;

use crate::scenario::test_namespace::{TestNamespace, distinct, needs};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "preferences").await?;
    let nowhere =
        json!({"weight": 100, "preference": {"matchExpressions": [needs(label::ZONE, &["us-west-2z"])]}});
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [nowhere]}});
    test.pods_without_pool("dreamer", 2, json!({"spec": {"affinity": affinity}})).await?;
    test.ready_pool("preferences", json!({})).await?;

    let nodes = distinct(&test.running("dreamer", 2).await?);
    ensure!(nodes == 1, "two small pods are on {nodes} nodes");
    Ok(())
}
