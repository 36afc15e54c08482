//! A node that reached its age leaves within its termination grace period, although its pod must not be disrupted.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;

use crate::scenario::test_namespace::TestNamespace;
use crate::wait;
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "expiry").await?;
    // Twice what a node takes to come while the controller is killed again and again: one that could run for less than it
    // took to come does not expire.
    let short_lived =
        json!({"spec": {"template": {"spec": {"expireAfter": "6m", "terminationGracePeriod": "10s"}}}});
    test.ready_pool("expiry", short_lived).await?;
    let stubborn = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    test.pods("worker", 1, stubborn).await?;
    // By uid: the next node may get the address, and so the name, of the one before.
    let first: BTreeSet<Option<String>> =
        test.running("worker", 1).await?.iter().map(ResourceExt::uid).collect();

    wait::until("another node than the one that expired", || async {
        let now: BTreeSet<Option<String>> = test.nodes().await?.iter().map(ResourceExt::uid).collect();
        let gone = now.is_disjoint(&first) && !now.is_empty();
        Ok(if gone { Ok(()) } else { Err(format!("first {first:?}, now {now:?}")) })
    })
    .await?;
    // From here on no node expires, so that what runs stays.
    test.pool("expiry", json!({"spec": {"template": {"spec": {"expireAfter": "Never"}}}})).await?;
    let now = test.running("worker", 1).await?;
    ensure!(now.iter().all(|node| !first.contains(&node.uid())), "the pod runs on the expired node");
    Ok(())
}
