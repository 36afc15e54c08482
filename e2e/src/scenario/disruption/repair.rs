//! A node whose accelerators have been broken for an hour is replaced whatever protects it, with `LEGACY_NODE_REPAIR`. Repair as a
//! method of disruption counts from the creation of a node at the earliest; it is played in virtual time
//! (`scenarios/repair-within-budget.yaml`); its reboots are proven in `devices`.

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::scenario::test_namespace::TestNamespace;
use crate::wait;
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "repair").await?;
    test.ready_pool("repair", json!({})).await?;
    test.pods("worker", 1, json!({})).await?;
    let node = test.running("worker", 1).await?.remove(0);
    let (sick, uid) = (node.name_any(), node.uid());
    let since = (Timestamp::now() - SignedDuration::from_hours(1)).to_string();
    let condition = json!({"status": {"conditions": [{
        "type": "AcceleratedHardwareReady",
        "status": "False",
        "reason": "NvidiaXID79Error",
        "message": "xid 79",
        "lastTransitionTime": since,
        "lastHeartbeatTime": since,
    }]}});
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes
        .patch_status(&sick, &PatchParams::default(), &Patch::Strategic(&condition))
        .await
        .with_context(|| format!("report broken hardware of node `{sick}`"))?;

    wait::until("the sick node to be gone", || async {
        // By uid: the next node may get the address, and so the name, of the one before.
        let there = nodes.get_opt(&sick).await.context("read the node")?.filter(|there| there.uid() == uid);
        Ok(there
            .map_or(Ok(()), |node| Err(format!("{:?}", node.status.and_then(|status| status.conditions)))))
    })
    .await?;
    let now = test.running("worker", 1).await?;
    ensure!(now.iter().all(|node| node.uid() != uid), "the pod runs on the sick node");
    Ok(())
}
