//! A pool with `replicas` has that many nodes, pods or no pods, whatever the number becomes.

use anyhow::{Context, Result};
use karpenter_api::NodePool;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::scenario::test_namespace::TestNamespace;
use crate::wait;
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "static").await?;
    // A static pool may not have a weight or consolidation settings of dynamic ones.
    test.pool("static", json!({"spec": {"replicas": 2, "limits": {"nodes": 3}}})).await?;
    has_nodes(&test, 2).await?;
    for replicas in [3, 1, 0] {
        let pools: Api<NodePool> = Api::all(world.client.clone());
        let patch = json!({"spec": {"replicas": replicas}});
        pools
            .patch_scale("static", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("scale the pool to {replicas}"))?;
        has_nodes(&test, replicas).await?;
    }
    Ok(())
}

async fn has_nodes(test: &TestNamespace<'_>, count: usize) -> Result<()> {
    wait::until(&format!("{count} nodes of the static pool"), || async {
        let (claims, nodes) = (test.claims().await?.len(), test.nodes().await?.len());
        let reached = claims == count && nodes == count;
        Ok(if reached { Ok(()) } else { Err(format!("{claims} claims, {nodes} nodes")) })
    })
    .await
}
