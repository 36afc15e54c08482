//! A pod that no machine can hold stays pending; its event and `karpenter explain` give the reason. Its
//! neighbour in the same pool runs.

use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;

use crate::scenario::explained::explained;
use crate::scenario::facts::phase;
use crate::scenario::test_namespace::{TestNamespace, container};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "impossible").await?;
    test.ready_pool("impossible", json!({})).await?;
    let colossal = container(json!({"requests": {"cpu": "10000"}}));
    test.pods("colossus", 1, json!({"spec": {"containers": [colossal]}})).await?;
    test.pods("neighbour", 1, json!({})).await?;

    test.running("neighbour", 1).await?;
    test.pod_told("colossus", "FailedScheduling", "cpu more (NodePool=impossible").await?;
    let colossi = test.pods_of("colossus").await?;
    ensure!(
        colossi.len() == 1 && phase(&colossi[0]) == "Pending",
        "a pod of 10000 CPUs does not stay pending"
    );
    let pod = format!("pod/impossible/{}", colossi[0].name_any());
    // The resource that it lacks on the machine that comes closest, for the pool that could have been meant.
    let why = ["waits, no pool can take it", "impossible: ", "cpu more (InstanceTypes)"];
    explained(world, &pod, &why).await?;
    let claims = test.claims().await?.len();
    ensure!(claims == 1, "one small pod was given {claims} claims");
    Ok(())
}
