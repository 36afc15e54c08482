//! With the gate open a spot node that is too large is replaced by a smaller spot node, offered with at least the
//! fifteen types that keep such steps rare.

use anyhow::{Context, Result, ensure};
use karpenter_api::labels;
use serde_json::json;

use super::{WITHIN, consolidating};
use crate::manifests::merged;
use crate::scenario::corner::{Corner, container, needs, requiring};
use crate::wait;
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let corner = Corner::open(world, "spot").await?;
    let spot = requiring(json!([
        needs(labels::CAPACITY_TYPE, &["spot"]),
        needs(labels::ARCH, &["amd64"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
    ]));
    corner.ready_pool("spot", merged(spot, consolidating("WhenEmptyOrUnderutilized"))).await?;
    let worker =
        json!({"spec": {"containers": [container(json!({"requests": {"cpu": "3", "memory": "2Gi"}}))]}});
    corner.pods("worker", 4, worker).await?;
    corner.running("worker", 4).await?;
    corner.scale("worker", 1).await?;
    corner.running("worker", 1).await?;

    wait::until("one node with room for one pod and not for four", WITHIN, || async {
        let nodes = corner.nodes().await?;
        let cpus: Vec<u32> = nodes
            .iter()
            .map(|node| {
                crate::scenario::facts::label(node, "karpenter.k8s.aws/instance-cpu").parse().unwrap_or(0)
            })
            .collect();
        let types = nodes.len();
        Ok(if types == 1 && cpus[0] <= 8 { Ok(()) } else { Err(format!("CPUs of the nodes: {cpus:?}")) })
    })
    .await?;
    let claim = corner.claims().await?.into_iter().next().context("no claim is left")?;
    let types = claim.spec.requirements.iter().find(|requirement| requirement.key == labels::INSTANCE_TYPE);
    let offered = types.map_or(0, |requirement| requirement.values.iter().flatten().count());
    ensure!(
        offered >= 15,
        "the replacement was offered as {offered} types, at least 15 keep it from moving on"
    );
    Ok(())
}
