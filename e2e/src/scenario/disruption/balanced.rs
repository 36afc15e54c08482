//! The same node, the same saving of a third: `WhenEmptyOrUnderutilized` takes it, `Balanced` finds that too little
//! for moving every pod of the pool.

use anyhow::{Result, ensure};
use karpenter_model::names::label;
use kube::ResourceExt;
use serde_json::json;

use super::consolidating;
use crate::manifests::merged;
use crate::scenario::explained::explained;
use crate::scenario::test_namespace::{TestNamespace, by_label, container, needs, requiring};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let balanced = oversized(world, "balanced", "Balanced").await?;
    let eager = oversized(world, "eager", "WhenEmptyOrUnderutilized").await?;
    balanced.scale("worker", 2).await?;
    eager.scale("worker", 2).await?;

    eager.settled_on("worker", 2, &["r5.xlarge"]).await?;
    // Both were weighed; that nothing has happened yet would prove little.
    let node = balanced.running("worker", 2).await?.remove(0).name_any();
    explained(world, &format!("node/{node}"), &["stays", "(Score)"]).await?;
    let types = by_label(&balanced.running("worker", 2).await?, label::INSTANCE_TYPE);
    ensure!(types.keys().eq(["m5.2xlarge"]), "the balanced pool moved its pods: {types:?}");
    Ok(())
}

/// Four pods on 8 CPUs; the other type the pool may have is a third cheaper and has room for two of them.
async fn oversized<'a>(world: &'a World, name: &'static str, policy: &str) -> Result<TestNamespace<'a>> {
    let test = TestNamespace::open(world, name).await?;
    let types = requiring(json!([
        needs(label::INSTANCE_TYPE, &["m5.2xlarge", "r5.xlarge"]),
        needs(label::CAPACITY_TYPE, &["on-demand"]),
    ]));
    let worker =
        json!({"spec": {"containers": [container(json!({"requests": {"cpu": "1500m", "memory": "1Gi"}}))]}});
    test.pods_without_pool("worker", 4, worker).await?;
    test.ready_pool(name, merged(types, consolidating(policy))).await?;
    test.settled_on("worker", 4, &["m5.2xlarge"]).await?;
    Ok(test)
}
