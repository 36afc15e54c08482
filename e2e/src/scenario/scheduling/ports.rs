//! Two pods that request the same port of their host cannot share it, however much room there is.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::manifests::merged;
use crate::scenario::test_namespace::{TestNamespace, container, distinct};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "ports").await?;
    test.ready_pool("ports", json!({})).await?;
    let listening = merged(
        container(json!({"requests": {"cpu": "100m"}})),
        json!({"ports": [{"containerPort": 80, "hostPort": 8080}]}),
    );
    test.pods("listener", 2, json!({"spec": {"containers": [listening]}})).await?;

    let nodes = distinct(&test.running("listener", 2).await?);
    ensure!(nodes == 2, "two pods with one host port are on {nodes} nodes");
    Ok(())
}
