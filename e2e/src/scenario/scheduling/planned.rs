//! The scheduler follows the plan: small pods that came first do not take the room of large ones.
//!
//! Six machines are enough when each takes a large pod and a small one. The emptiest machine wins with the scheduler, and
//! small pods were there first; unless it is told who a machine was launched for, several of them share the first machines
//! and large pods need further ones.

use anyhow::{Result, ensure};
use karpenter_model::names::label;
use serde_json::json;

use crate::scenario::corner::{Corner, container, needs, requiring};
use crate::world::World;

/// Pods of either size, and the machines that are enough.
const EACH: usize = 6;

pub(super) async fn run(world: &World) -> Result<()> {
    let corner = Corner::open(world, "planned").await?;
    for (app, cpu) in [("small", "400m"), ("large", "1300m")] {
        let filling = container(json!({"requests": {"cpu": cpu}}));
        corner.pods_without_pool(app, EACH, json!({"spec": {"containers": [filling]}})).await?;
    }
    let machines = requiring(json!([
        needs(label::ARCH, &["amd64"]),
        needs(label::CAPACITY_TYPE, &["on-demand"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m"]),
        needs("karpenter.k8s.aws/instance-cpu", &["2"]),
    ]));
    corner.ready_pool("planned", machines).await?;
    for app in ["small", "large"] {
        corner.running(app, EACH).await?;
    }
    let claims = corner.claims().await?.len();
    ensure!(
        claims == EACH,
        "{EACH} large and {EACH} small pods were given {claims} machines, {EACH} are enough"
    );
    Ok(())
}
