//! A pool with `replicas` has that many nodes, pods or no pods, whatever the number becomes.

use anyhow::{Context, Result};
use karpenter_api::NodePool;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::scenario::corner::Corner;
use crate::wait;
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let corner = Corner::open(world, "static").await?;
    // A static pool may not have a weight or consolidation settings of dynamic ones.
    corner.pool("static", json!({"spec": {"replicas": 2, "limits": {"nodes": 3}}})).await?;
    has_nodes(&corner, 2).await?;
    for replicas in [3, 1, 0] {
        let pools: Api<NodePool> = Api::all(world.client.clone());
        let patch = json!({"spec": {"replicas": replicas}});
        pools
            .patch_scale("static", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("scale the pool to {replicas}"))?;
        has_nodes(&corner, replicas).await?;
    }
    Ok(())
}

async fn has_nodes(corner: &Corner<'_>, count: usize) -> Result<()> {
    wait::until(&format!("{count} nodes of the static pool"), || async {
        let (claims, nodes) = (corner.claims().await?.len(), corner.nodes().await?.len());
        let reached = claims == count && nodes == count;
        Ok(if reached { Ok(()) } else { Err(format!("{claims} claims, {nodes} nodes")) })
    })
    .await
}
