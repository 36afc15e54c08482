//! Outcomes count for the pool that made the claim, and for no other of its name.

use karpenter_api::{NodeClaim, NodePool};
use karpenter_cloud::memory::NODE_CLASS;
use karpenter_kube_sim::apiserver::faults::{Fault, Rule};
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::fixture::World;

/// Message of a pool after this number of failures of a claim that says it was made by the pool with this uid, its own if
/// `None`, when the first `refused` verdicts cannot be written.
async fn healthy_after(failures: usize, owner: Option<&str>, refused: u32) -> String {
    let world = World::with_definitions();
    let class = json!({"group": NODE_CLASS.group, "kind": NODE_CLASS.kind, "name": "default"});
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
    });
    world.server.load(&pool).unwrap();
    let pool = world.list::<NodePool>().await.remove(0);
    let owner = owner.map_or_else(|| pool.uid().unwrap(), ToOwned::to_owned);
    world.context.view.put_pool(pool);
    let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "web", "uid": owner});
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "web"}, "ownerReferences": [owner]},
        "spec": {"nodeClassRef": class, "requirements": []},
    });
    world.server.load(&claim).unwrap();
    world.context.view.put_claim(world.list::<NodeClaim>().await.remove(0));
    let claim = world.context.view.claim(&"c".into()).unwrap().model;
    let failure = RegistrationOutcome::Failure { reason: "R".to_owned(), message: "m".to_owned() };
    if refused > 0 {
        let rule = Rule::on("patch").resource("nodepools/status").times(refused);
        world.server.faults().inject(rule, Fault::InternalError);
    }
    for _ in 0..failures {
        note(&world.context, &claim, &failure).await;
    }
    let status = world.list::<NodePool>().await.remove(0).status.unwrap_or_default();
    let conditions = status.conditions.into_iter();
    conditions
        .filter(|condition| condition.kind == condition::NODE_REGISTRATION_HEALTHY)
        .map(|condition| condition.status.as_str().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_outcome_counts_only_for_the_pool_that_made_the_claim() {
    assert_eq!(healthy_after(2, None, 0).await, "False");
    assert_eq!(healthy_after(2, Some("of-one-deleted-since"), 0).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_cannot_be_written_is_written_with_the_next_outcome() {
    assert_eq!(healthy_after(2, None, 1).await, "");
    assert_eq!(healthy_after(3, None, 1).await, "False");
}
