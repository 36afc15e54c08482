//! Pools whose node class does not exist or cannot work say so, exactly; once the class is repaired they work.
//! Other pools never notice: all other behaviours happen at the same time.

use anyhow::{Context, Result, ensure};
use karpenter_api::EC2NodeClass;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::manifests;
use crate::scenario::facts::phase;
use crate::scenario::test_namespace::{
    TestNamespace, class_like_default, class_says, pool_says, refers_to, told,
};
use crate::world::World;

/// A pool that refers to a class that does not exist yet.
pub(super) async fn missing_class(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "classless").await?;
    test.pool("classless", refers_to("late")).await?;
    test.pods("waiter", 1, json!({})).await?;

    pool_says(world, "classless", ("NodeClassReady", "False", "NodeClassNotFound")).await?;
    pool_says(world, "classless", ("Ready", "False", "UnhealthyDependents")).await?;
    stays_pending(&test).await?;

    manifests::apply_json(&world.client, class_like_default(world, "late", json!({})).await?).await?;
    pool_says(world, "classless", ("Ready", "True", "Ready")).await?;
    test.running("waiter", 1).await?;
    Ok(())
}

/// A class whose selector finds no subnet.
pub(super) async fn class_without_subnets(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "subnetless").await?;
    let nowhere = json!({"subnetSelectorTerms": [{"tags": {"purpose": "none-such"}}]});
    manifests::apply_json(&world.client, class_like_default(world, "subnetless", nowhere).await?).await?;
    test.pool("subnetless", refers_to("subnetless")).await?;
    test.pods("waiter", 1, json!({})).await?;

    class_says(world, "subnetless", ("SubnetsReady", "False", "SubnetsNotFound")).await?;
    class_says(world, "subnetless", ("Ready", "False", "UnhealthyDependents")).await?;
    let message = "SubnetSelector did not match any Subnets";
    told(world, "default", "subnetless", "SubnetsNotFound", message).await?;
    pool_says(world, "subnetless", ("NodeClassReady", "False", "UnhealthyDependents")).await?;
    stays_pending(&test).await?;

    let classes: Api<EC2NodeClass> = Api::all(world.client.clone());
    let repaired = class_like_default(world, "subnetless", json!({})).await?;
    let repaired = json!({"spec": {"subnetSelectorTerms": repaired["spec"]["subnetSelectorTerms"]}});
    classes
        .patch("subnetless", &PatchParams::default(), &Patch::Merge(&repaired))
        .await
        .context("repair the class")?;
    class_says(world, "subnetless", ("Ready", "True", "Ready")).await?;
    pool_says(world, "subnetless", ("Ready", "True", "Ready")).await?;
    test.running("waiter", 1).await?;
    Ok(())
}

/// A pod nothing may be launched for gets an event about it, and waits.
async fn stays_pending(test: &TestNamespace<'_>) -> Result<()> {
    test.pod_told("waiter", "FailedScheduling", "NodePool").await?;
    let waiters = test.pods_of("waiter").await?;
    ensure!(waiters.iter().all(|pod| phase(pod) == "Pending"), "a pod runs although its pool is not ready");
    let claims = test.claims().await?.len();
    ensure!(claims == 0, "a pool that is not ready has {claims} claims");
    Ok(())
}
