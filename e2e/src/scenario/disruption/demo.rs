//! The demonstration every talk about Karpenter shows: ten pods, then six, then three. First the small node goes,
//! then the large one is replaced by a smaller one.

use anyhow::{Result, ensure};
use karpenter_api::labels;
use serde_json::json;

use super::{WITHIN, consolidating};
use crate::manifests::merged;
use crate::scenario::corner::{Corner, needs, requiring};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let corner = Corner::open(world, "demo").await?;
    // 8, 4 and 2 CPUs: eight pods of 900m fill the largest, ten need another one.
    let types = requiring(json!([
        needs(labels::INSTANCE_TYPE, &["m5.2xlarge", "m5.xlarge", "m5.large"]),
        needs(labels::CAPACITY_TYPE, &["on-demand"]),
    ]));
    corner.ready_pool("demo", merged(types, consolidating("WhenEmptyOrUnderutilized"))).await?;
    let worker = json!({"spec": {"containers": [crate::scenario::corner::container(
        json!({"requests": {"cpu": "900m", "memory": "256Mi"}})
    )]}});
    // Two Deployments, so that it is certain which pods go: the two of the small node first.
    corner.pods("worker", 8, worker.clone()).await?;
    corner.running("worker", 8).await?;
    corner.pods("extra", 2, worker).await?;
    corner.running("extra", 2).await?;
    corner.settled_on("worker", 8, WITHIN, &["m5.2xlarge", "m5.large"]).await?;

    corner.scale("extra", 0).await?;
    corner.scale("worker", 6).await?;
    corner.settled_on("worker", 6, WITHIN, &["m5.2xlarge"]).await?;

    corner.scale("worker", 3).await?;
    corner.settled_on("worker", 3, WITHIN, &["m5.xlarge"]).await?;
    let claims = corner.claims().await?.len();
    ensure!(claims == 1, "{claims} claims for one node");
    Ok(())
}
