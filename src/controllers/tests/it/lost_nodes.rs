//! Nodes that get lost, and Nodes that are never initialized.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_telemetry::events::reason;
use kube::ResourceExt;
use serde_json::json;

use crate::world::{MINUTE, World, condition, is_running};

/// <https://github.com/kubernetes-sigs/karpenter/issues/1392>
#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_is_gone_has_no_room_for_pods_and_ends() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    let process = world.start();
    world.all_running().await;
    let (first, name) = (world.claims().remove(0), world.nodes()[0].name_any());
    let id = first.status.as_ref().and_then(|status| status.provider_id.clone()).unwrap();
    world.account.stop(&id.as_str().into());
    let unguarded = json!({"metadata": {"finalizers": null}});
    world.patch::<Node>(&name, unguarded).await;
    world.delete::<Node>(&name).await;
    world.pod("other", "1");
    let runs = || world.pods().iter().any(|pod| pod.name_any() == "other" && is_running(pod));
    world.until("a pod that comes then runs elsewhere", 5 * MINUTE, runs).await;
    let ended = || world.claims().iter().all(|claim| claim.uid() != first.uid());
    world.until("the claim has ended", 20 * MINUTE, ended).await;
    process.stop().await;
}

/// <https://github.com/kubernetes-sigs/karpenter/issues/3242>
#[tokio::test(start_paused = true)]
async fn a_node_that_is_never_initialized_is_reported_and_goes_when_no_pod_wants_it() {
    let world = World::new().await;
    let taint = json!([{"key": "agent/not-ready", "effect": "NoSchedule"}]);
    world.pool("default", &json!({"template": {"spec": {"startupTaints": taint}}}));
    world.pod("web", "1");
    let process = world.start();
    let is_registered = || world.claims().iter().any(|one| condition(one, "Registered") == "True");
    world.until("the node has registered", 5 * MINUTE, is_registered).await;
    tokio::time::sleep(60 * MINUTE).await;
    assert_eq!(world.claims().len(), 1, "a pod wants it");
    let events = process.events.events();
    let about = events.iter().filter(|event| event.reason.name() == reason::NODE_NOT_INITIALIZED.name());
    let kinds: BTreeSet<&str> = about.map(|event| event.object.kind.as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["Node", "NodeClaim", "Pod"]));
    world.delete::<Pod>("web").await;
    world.until("the claim has ended", 10 * MINUTE, || world.claims().is_empty()).await;
    process.stop().await;
}
