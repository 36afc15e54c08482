//! Required anti-affinity between pods on the hostname: as many nodes as pods.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::scenario::test_namespace::{TestNamespace, distinct};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "hostnames").await?;
    test.ready_pool("hostnames", json!({})).await?;
    let apart = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "loner"}},
    });
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}});
    test.pods("loner", 3, json!({"spec": {"affinity": affinity}})).await?;

    let nodes = distinct(&test.running("loner", 3).await?);
    ensure!(nodes == 3, "three pods that avoid each other are on {nodes} nodes");
    let claims = test.claims().await?.len();
    ensure!(claims == 3, "three pods were given {claims} claims");
    Ok(())
}
