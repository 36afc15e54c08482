//! Drains: what holds a node up, what does not, and how fast many of them go.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_cloud::Kind;
use karpenter_cloud::memory::{Fault, Operation};
use karpenter_model::names::reason;
use karpenter_testkit::objects::{attachment, disruption_budget, pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, Process, SECOND, World, is_running};

/// So many nodes of a static pool, whose claims look like `template`.
async fn fixed(nodes: usize, template: &Value) -> (World, Process) {
    let world = World::new().await;
    world.pool("fixed", &json!({"replicas": nodes, "template": {"spec": template}}));
    let process = world.start_gated(|gates| gates.static_capacity = true);
    world.until("all nodes are initialized", 10 * MINUTE, || world.has_nodes(nodes)).await;
    (world, process)
}

/// A pod on a node, with annotations.
fn place(world: &World, name: &str, node: &str, annotations: &Value) {
    place_with_grace(world, name, node, annotations, 30);
}

fn place_with_grace(world: &World, name: &str, node: &str, annotations: &Value, seconds: u32) {
    let change = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": seconds},
    });
    world.load(&pod(name, "0", &change));
}

async fn all_run(world: &World) {
    world.until("all pods run", 2 * MINUTE, || world.pods().iter().all(is_running)).await;
}

async fn delete_nodes(world: &World) -> Vec<String> {
    let names: Vec<String> = world.nodes().iter().map(ResourceExt::name_any).collect();
    for name in &names {
        world.delete::<Node>(name).await;
    }
    names
}

/// Time until none of `nodes` is left.
async fn gone_after(world: &World, nodes: &[String], limit: Duration) -> Duration {
    let started = tokio::time::Instant::now();
    world
        .until("the old nodes are gone", limit, || {
            !world.nodes().iter().any(|node| nodes.contains(&node.name_any()))
        })
        .await;
    started.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_refused_termination_is_reported_on_the_node_and_goes_on_once_it_is_granted() {
    let (world, process) = fixed(1, &json!({})).await;
    for _ in 0..3 {
        world.account.fail(Operation::Terminate, Fault::Refused(Kind::Denied));
    }
    let nodes = delete_nodes(&world).await;
    gone_after(&world, &nodes, 5 * MINUTE).await;
    let events = process.events.events();
    let told: Vec<_> =
        events.iter().filter(|event| event.reason.name() == reason::TERMINATION_FAILED).collect();
    assert_eq!(told.len(), 1, "one event for three refusals: {told:?}");
    assert!(told[0].message.contains("failed to terminate instance"), "{}", told[0].message);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_nodes_drain_side_by_side() {
    let wanted = std::env::var("DRAIN_NODES");
    let count: u16 = wanted.map_or(200, |text| text.parse().expect("`DRAIN_NODES` is a number"));
    let (world, process) = fixed(count.into(), &json!({})).await;
    for (number, node) in world.nodes().iter().enumerate() {
        place_with_grace(&world, &format!("web-{number}"), &node.name_any(), &json!({}), 5);
    }
    all_run(&world).await;
    world.change_pool("fixed", &json!({"replicas": 0})).await;
    let nodes: Vec<String> = world.nodes().iter().map(ResourceExt::name_any).collect();
    // One node takes the 5 s of its pod and the 30 s of its machine.
    let elapsed = gone_after(&world, &nodes, 10 * MINUTE).await;
    assert!(elapsed < 2 * MINUTE, "{elapsed:?}");
    let metrics = &process.metrics;
    assert_eq!(metrics.pods.eviction_requests_total.value(["200"]), u64::from(count));
    assert_eq!(metrics.pods.drained_total.value(["Forceful Termination"]), u64::from(count));
    world.all_gone().await;
    // Each end is counted once.
    let counted = [
        metrics.nodes.drained_total.value(["fixed"]),
        metrics.nodes.termination_duration_seconds.count(["fixed"]),
        metrics.nodes.lifetime_duration_seconds.count(["fixed"]),
        metrics.nodeclaims.termination_duration_seconds.count(["fixed"]),
        metrics.nodeclaims.instance_termination_duration_seconds.count(["fixed"]),
    ];
    assert_eq!(counted, [u64::from(count); 5]);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_for_pods_is_kept_while_many_nodes_drain() {
    let (world, process) = fixed(12, &json!({})).await;
    for (number, node) in world.nodes().iter().enumerate() {
        place(&world, &format!("web-{number}"), &node.name_any(), &json!({}));
    }
    all_run(&world).await;
    // No controller creates the pods again: of twelve four may go.
    world.load(&disruption_budget("web", "web", &json!({"minAvailable": 8})));
    tokio::time::sleep(10 * SECOND).await;
    delete_nodes(&world).await;
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(world.pods().len(), 8, "the budget is kept");
    assert!(!process.events.messages("FailedDraining").is_empty());
    assert!(process.metrics.pods.eviction_requests_total.value(["429"]) > 0);
    world.delete::<PodDisruptionBudget>("web").await;
    world.until("the others follow", 5 * MINUTE, || world.pods().is_empty()).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_budgets_over_one_pod_hold_it_until_one_is_taken_away() {
    let (world, process) = fixed(1, &json!({})).await;
    let node = world.nodes().remove(0).name_any();
    place(&world, "web", &node, &json!({}));
    all_run(&world).await;
    for name in ["one", "two"] {
        world.load(&disruption_budget(name, "web", &json!({"maxUnavailable": 1})));
    }
    tokio::time::sleep(10 * SECOND).await;
    let nodes = delete_nodes(&world).await;
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(world.pods().len(), 1);
    let told = process.events.messages("FailedDraining");
    assert!(told.iter().any(|text| text.contains("PDB")), "{told:?}");
    world.delete::<PodDisruptionBudget>("two").await;
    gone_after(&world, &nodes, 5 * MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_protection_for_a_while_holds_for_that_while() {
    let (world, process) = fixed(1, &json!({})).await;
    let node = world.nodes().remove(0).name_any();
    place(&world, "web", &node, &json!({"karpenter.sh/do-not-disrupt": "6m"}));
    all_run(&world).await;
    let nodes = delete_nodes(&world).await;
    tokio::time::sleep(4 * MINUTE).await;
    assert!(is_running(&world.pods()[0]), "it is protected");
    gone_after(&world, &nodes, 5 * MINUTE).await;
    assert!(!process.events.messages("DoNotDisruptUntil").is_empty());
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_protected_for_different_whiles_leave_in_that_order_and_one_holds_the_node() {
    let (world, process) = fixed(1, &json!({})).await;
    let node = world.nodes().remove(0).name_any();
    for (name, protection) in [("a", "2m"), ("b", "4m"), ("c", "true")] {
        place_with_grace(&world, name, &node, &json!({"karpenter.sh/do-not-disrupt": protection}), 1);
    }
    place_with_grace(&world, "d", &node, &json!({}), 1);
    all_run(&world).await;
    let nodes = delete_nodes(&world).await;
    let left = || -> Vec<String> { world.pods().iter().map(ResourceExt::name_any).collect() };
    for (after, expected) in [(60, &["a", "b", "c"][..]), (90, &["b", "c"]), (120, &["c"]), (1800, &["c"])] {
        tokio::time::sleep(Duration::from_secs(after)).await;
        assert_eq!(left(), expected, "{after} s later");
    }
    assert!(world.nodes().iter().any(|one| one.name_any() == node), "the node waits for the last pod");
    let over = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}});
    world.patch::<Pod>("c", over).await;
    gone_after(&world, &nodes, 5 * MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_gives_every_pod_its_grace_and_ends_the_rest() {
    let (world, process) = fixed(1, &json!({"terminationGracePeriod": "10m"})).await;
    let node = world.nodes().remove(0).name_any();
    place(&world, "web", &node, &json!({"karpenter.sh/do-not-disrupt": "true"}));
    all_run(&world).await;
    world.load(&attachment("stuck", &node));
    let nodes = delete_nodes(&world).await;
    tokio::time::sleep(9 * MINUTE).await;
    let stays = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    assert!(stays(&world.pods()[0]), "its grace is 30 s");
    tokio::time::sleep(40 * SECOND).await;
    assert!(!world.pods().iter().any(stays), "30 s before the deadline");
    assert_eq!(process.events.messages("Disrupted").len(), 1);
    // Neither the pod nor the volume outlives the deadline by more than the end of the machine.
    gone_after(&world, &nodes, 3 * MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_claim_is_counted_for_its_own_pool() {
    let (world, process) = fixed(1, &json!({})).await;
    let node = world.nodes().remove(0);
    world.account.vanish(&world.account.machines()[0].provider_id.clone());
    // The claim goes by itself; what is left is a Node with our finalizer.
    let nodes = vec![node.name_any()];
    delete_nodes(&world).await;
    gone_after(&world, &nodes, 10 * MINUTE).await;
    let zone = node.labels()["topology.kubernetes.io/zone"].clone();
    assert_eq!(process.metrics.nodes.terminated_total.value(["fixed", &zone]), 1);
    process.stop().await;
}
