//! The demonstration every talk about Karpenter shows: ten pods, then six, then three. Ten CPUs become eight, then
//! four: empty nodes go, large ones are replaced by smaller ones.

use anyhow::Result;
use karpenter_model::names::label;
use serde_json::json;

use super::consolidating;
use crate::manifests::merged;
use crate::scenario::test_namespace::{TestNamespace, needs, requiring};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "demo").await?;
    // 8, 4 and 2 CPUs: eight pods of 900m fill the largest, ten need another one.
    let types = requiring(json!([
        needs(label::INSTANCE_TYPE, &["m5.2xlarge", "m5.xlarge", "m5.large"]),
        needs(label::CAPACITY_TYPE, &["on-demand"]),
    ]));
    let worker = json!({"spec": {"containers": [crate::scenario::test_namespace::container(
        json!({"requests": {"cpu": "900m", "memory": "256Mi"}})
    )]}});
    // Two Deployments, so that it is certain which pods go: the two of the small node first.
    test.pods_without_pool("worker", 8, worker.clone()).await?;
    test.ready_pool("demo", merged(types, consolidating("WhenEmptyOrUnderutilized"))).await?;
    test.running("worker", 8).await?;
    test.pods("extra", 2, worker).await?;
    test.running("extra", 2).await?;
    test.settled_on("worker", 8, &["m5.2xlarge", "m5.large"]).await?;

    test.scale("extra", 0).await?;
    test.scale("worker", 6).await?;
    // Eight CPUs, or the six of a smaller node beside the small one, which is cheaper still.
    test.settled_within("worker", 6, 8).await?;

    test.scale("worker", 3).await?;
    test.settled_within("worker", 3, 4).await
}
