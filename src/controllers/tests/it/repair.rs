//! Broken nodes are replaced: another one comes up first, within the budgets of the pool.

mod legacy;
mod reboot;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::ConditionStatus;
use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_model::Clock;
use karpenter_testkit::objects::{on_port_80, pod, with};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{MINUTE, Process, World, condition};

const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";

fn gated(world: &World) -> Process {
    world.start_gated(|gates| gates.node_repair = true)
}

/// So many nodes of a pool with this `disruption`, with one pod each. The pods stay where they are when their node breaks,
/// because they tolerate the taints of one that is not ready; `protect` are annotations of theirs.
async fn running(nodes: usize, disruption: &Value, protect: &Value) -> (World, Process) {
    let world = World::new().await;
    world.pool("default", &json!({"disruption": with(json!({"consolidateAfter": "Never"}), disruption)}));
    let stays = with(
        on_port_80("1"),
        &json!({"tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists"},
        ]}),
    );
    for number in 0..nodes {
        let change = json!({"metadata": {"labels": {"app": "web"}, "annotations": protect}, "spec": stays});
        world.load(&pod(&format!("web-{number}"), "1", &change));
    }
    let process = gated(&world);
    world.all_running().await;
    assert_eq!(world.nodes().len(), nodes);
    (world, process)
}

/// Makes the kubelets of `count` machines report not ready; returns the ids of their instances.
fn break_machines(world: &World, count: usize) -> Vec<String> {
    let broken: Vec<String> =
        world.account.machines().iter().take(count).map(|machine| machine.instance_id.to_string()).collect();
    for id in &broken {
        world.agent.behave(id, Behaviour::NotReady);
    }
    broken
}

fn is_there(world: &World, broken: &str) -> bool {
    world.nodes().iter().any(|node| node.name_any().ends_with(broken))
}

/// Says on the Node of an instance what an agent of the node would say.
async fn report(world: &World, instance: &str, condition: &str, reason: &str) {
    let now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({
        "type": condition, "status": "False", "reason": reason, "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let nodes: Api<Node> = Api::all(world.client.clone());
    let name = world.nodes().iter().map(ResourceExt::name_any).find(|name| name.ends_with(instance)).unwrap();
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    nodes.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until the first claim is being deleted; when that was asked for, its deadline, and how many other claims were
/// initialized by then.
async fn first_deletion(world: &World, limit: Duration) -> (Timestamp, Option<Timestamp>, usize) {
    let deleting = || world.claims().into_iter().find(|claim| claim.metadata.deletion_timestamp.is_some());
    world.until("a claim is deleted", limit, || deleting().is_some()).await;
    let claim = deleting().unwrap();
    let deadline = claim.annotations().get(DEADLINE).map(|text| text.parse().unwrap());
    let initialized = |claim: &&karpenter_api::NodeClaim| condition(claim, "Initialized") == "True";
    let others = world.claims();
    let others = others.iter().filter(|other| other.metadata.deletion_timestamp.is_none());
    (claim.metadata.deletion_timestamp.unwrap().0, deadline, others.filter(initialized).count())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_for_half_an_hour_goes_once_another_one_is_initialized() {
    let (world, process) = running(5, &json!({"budgets": [{"nodes": "10%"}]}), &json!({})).await;
    let broken = break_machines(&world, 1).remove(0);
    tokio::time::sleep(29 * MINUTE).await;
    assert_eq!((is_there(&world, &broken), world.claims().len()), (true, 5), "it may recover");
    let (at, deadline, initialized) = first_deletion(&world, 10 * MINUTE).await;
    assert_eq!(initialized, 5, "four that stay and the one that takes over");
    assert_eq!(deadline, Some(at + 10 * MINUTE), "counted from the deletion");
    world.until("the broken node is gone", 15 * MINUTE, || !is_there(&world, &broken)).await;
    assert_eq!(process.disrupted(["unhealthy", "default", "spot", "", "graceful"]), 1);
    let labels = ["ready", "default", "spot", "image-1", "graceful"];
    assert_eq!(process.metrics.nodeclaims.unhealthy_disrupted_total.value(labels), 1);
    assert_eq!(process.created(["unhealthy", "default", "false"]), 1);
    assert_eq!(process.metrics.disruption.decisions_total.value(["replace", "unhealthy", ""]), 1);
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_starts_again_loses_no_time() {
    let (world, process) = running(1, &json!({}), &json!({})).await;
    let broken = break_machines(&world, 1).remove(0);
    tokio::time::sleep(29 * MINUTE).await;
    process.stop().await;
    let process = gated(&world);
    assert!(is_there(&world, &broken));
    world.until("there is another one", 3 * MINUTE, || world.claims().len() == 2).await;
    world.until("the broken node is gone", 15 * MINUTE, || !is_there(&world, &broken)).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn more_than_a_fifth_is_not_the_fault_of_the_machines() {
    let (world, process) = running(5, &json!({}), &json!({})).await;
    let broken = break_machines(&world, 1).remove(0);
    tokio::time::sleep(29 * MINUTE).await;
    let second = world.account.machines()[1].instance_id.to_string();
    report(&world, &second, "KernelReady", "Test").await;
    tokio::time::sleep(20 * MINUTE).await;
    assert!(is_there(&world, &broken));
    let events = process.events.events();
    let mut about: Vec<&str> = events
        .iter()
        .filter(|event| event.reason.name() == "NodeRepairBlocked")
        .map(|event| event.object.kind.as_str())
        .collect();
    about.sort_unstable();
    about.dedup();
    assert_eq!(about, ["Node", "NodeClaim", "NodePool"]);
    let told = process.events.messages("NodeRepairBlocked");
    let text = "more than 20% of nodes in nodepool \"default\" are unhealthy";
    assert!(told.iter().all(|message| message == text), "{told:?}");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_pods_hold_up_ends_with_the_grace_of_the_policy_or_does_not_begin() {
    let protected = json!({"karpenter.sh/do-not-disrupt": "true"});
    for (condition, grace) in [("AcceleratedHardwareReady", true), ("KernelReady", false)] {
        let (world, process) = running(1, &json!({}), &protected).await;
        let broken = world.account.machines()[0].instance_id.to_string();
        report(&world, &broken, condition, "Test").await;
        if grace {
            let (at, deadline, _) = first_deletion(&world, 35 * MINUTE).await;
            assert_eq!(deadline, Some(at + 10 * MINUTE));
            tokio::time::sleep(9 * MINUTE).await;
            assert!(is_there(&world, &broken), "its pod has some time left");
            world.until("the node is gone", 3 * MINUTE, || !is_there(&world, &broken)).await;
        } else {
            tokio::time::sleep(60 * MINUTE).await;
            assert_eq!((is_there(&world, &broken), world.claims().len()), (true, 1));
            let told = process.events.messages("DisruptionBlocked");
            let text = "repair requires a termination grace period to bypass blocking pods";
            assert!(told.iter().any(|message| message == text), "{told:?}");
        }
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_joins_leaves_the_broken_node_as_it_was() {
    let (world, process) = running(1, &json!({}), &json!({})).await;
    world.agent.behave_all(Behaviour::NeverJoins);
    let broken = break_machines(&world, 1).remove(0);
    tokio::time::sleep(31 * MINUTE).await;
    assert_eq!(world.claims().len(), 2, "a replacement is on its way");
    let failures = || process.metrics.disruption.queue_failures_total.value(["replace", "unhealthy", ""]);
    world.until("the command is given up", 20 * MINUTE, || failures() == 1).await;
    assert!(is_there(&world, &broken));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_is_repaired() {
    let world = World::with_pool(&json!({"disruption": {"consolidateAfter": "Never"}})).await;
    world.pod_with("web", "1", &json!({"tolerations": [{"operator": "Exists"}]}));
    let process = world.start();
    world.all_running().await;
    let broken = break_machines(&world, 1).remove(0);
    tokio::time::sleep(120 * MINUTE).await;
    assert!(is_there(&world, &broken));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_in_a_zone_the_cluster_is_shifted_away_from_are_left_alone_until_it_is_over() {
    let (world, process) = running(5, &json!({}), &json!({})).await;
    let zone = world.account.machines().remove(0).zone;
    world.account.shift_away([zone]);
    let broken = break_machines(&world, 1).remove(0);
    tokio::time::sleep(120 * MINUTE).await;
    assert!(is_there(&world, &broken));
    world.account.shift_away([]);
    world.until("the broken node is gone", 25 * MINUTE, || !is_there(&world, &broken)).await;
    process.stop().await;
}
