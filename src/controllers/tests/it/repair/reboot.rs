//! Nodes whose condition asks for a reboot keep their place: nothing is launched for their pods.

use karpenter_api::NodeClaim;
use karpenter_cloud::Kind;
use karpenter_cloud::memory::{Fault, Operation};

use super::*;

/// The reason that asks for a reboot, and the condition it is about.
const GPU: (&str, &str) = ("AcceleratedHardwareReady", "NvidiaXID46Error");

/// A pool with one node, whose agent says that its GPU has an error that a reboot may clear.
async fn sick() -> (World, Process, String) {
    let (world, process) = running(1, &json!({}), &json!({})).await;
    let broken = world.account.machines()[0].instance_id.to_string();
    report(&world, &broken, GPU.0, GPU.1).await;
    (world, process, broken)
}

fn rebooting(world: &World) -> Option<(ConditionStatus, String)> {
    let claims: Vec<NodeClaim> = world.claims();
    let conditions = claims.iter().flat_map(|claim| &claim.status).flat_map(|status| &status.conditions);
    let rebooting = conditions.into_iter().find(|condition| condition.kind == "Rebooting")?;
    Some((rebooting.status, rebooting.reason.clone()))
}

async fn reaches(world: &World, reason: &str, limit: Duration) {
    let there = || rebooting(world).is_some_and(|(_, shown)| shown == reason);
    world.until(reason, limit, there).await;
}

fn calls(world: &World) -> usize {
    world.account.calls().iter().filter(|call| call.operation == Operation::Reboot).count()
}

fn node(world: &World) -> Node {
    world.nodes().remove(0)
}

fn has_taint(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint.key == "karpenter.sh/rebooting" && taint.effect == "NoSchedule")
}

fn is_labelled(node: &Node) -> bool {
    node.labels().contains_key("karpenter.sh/initialized")
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_rebooted_drains_comes_back_and_takes_its_pods_again() {
    let (world, process, _) = sick().await;
    tokio::time::sleep(9 * MINUTE).await;
    assert_eq!(rebooting(&world), None, "it may recover");
    reaches(&world, "RebootRequested", 2 * MINUTE).await;
    let claim = world.claims().remove(0);
    assert_eq!(claim.annotations().get("karpenter.sh/reboot-termination-grace-period").unwrap(), "300s");
    reaches(&world, "RebootIssued", MINUTE).await;
    assert!(has_taint(&node(&world)) && !is_labelled(&node(&world)));
    world.pod("late", "1");
    reaches(&world, "RebootSucceeded", 5 * MINUTE).await;
    world.all_running().await;
    let claim = world.claims().remove(0);
    assert!(claim.annotations().keys().all(|key| !key.contains("reboot")), "{:?}", claim.annotations());
    world.until("initialized again", MINUTE, || is_labelled(&node(&world))).await;
    assert!(!has_taint(&node(&world)));
    assert_eq!((world.claims().len(), world.account.machines().len(), calls(&world)), (1, 1, 1));
    let metrics = &process.metrics;
    assert_eq!(metrics.nodes.reboots_total.value(["succeeded"]), 1);
    assert_eq!(metrics.disruption.decisions_total.value(["reboot", "unhealthy", ""]), 1);
    assert_eq!(metrics.nodeclaims.created_total.value(["unhealthy", "default", "false"]), 0);
    assert_eq!(process.events.messages("RebootObserved").len(), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_may_not_leave_ride_along_once_the_drain_is_over() {
    let protected = json!({"karpenter.sh/do-not-disrupt": "true"});
    let (world, process) = running(1, &json!({}), &protected).await;
    let broken = world.account.machines()[0].instance_id.to_string();
    report(&world, &broken, GPU.0, GPU.1).await;
    reaches(&world, "RebootRequested", 12 * MINUTE).await;
    let pod = world.pods().remove(0);
    tokio::time::sleep(4 * MINUTE).await;
    assert_eq!(calls(&world), 0, "its drain may take five minutes");
    reaches(&world, "RebootSucceeded", 5 * MINUTE).await;
    tokio::time::sleep(5 * MINUTE).await;
    let after = world.pods().remove(0);
    assert_eq!((after.uid(), world.claims().len()), (pod.uid(), 1));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_third_time_within_a_day_the_node_is_replaced() {
    let (world, process, broken) = sick().await;
    for reboots in 1..=2 {
        world.until("a reboot", 15 * MINUTE, || calls(&world) == reboots).await;
        reaches(&world, "RebootSucceeded", 5 * MINUTE).await;
        tokio::time::sleep(9 * MINUTE).await;
        assert_eq!(calls(&world), reboots, "its condition is tolerated again from the end of the reboot");
    }
    world.until("it is removed", 15 * MINUTE, || !is_there(&world, &broken)).await;
    assert_eq!(calls(&world), 2);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_come_back_is_replaced_after_twenty_minutes() {
    let (world, process, broken) = sick().await;
    reaches(&world, "RebootRequested", 12 * MINUTE).await;
    world.agent.behave(&broken, Behaviour::Silent);
    // Its pod does not end without a kubelet.
    reaches(&world, "RebootIssued", 6 * MINUTE).await;
    tokio::time::sleep(19 * MINUTE).await;
    assert_eq!((is_there(&world, &broken), world.claims().len()), (true, 1), "nothing is launched meanwhile");
    world.until("it is given up", 5 * MINUTE, || !is_there(&world, &broken)).await;
    assert_eq!(process.metrics.nodes.reboots_total.value(["recovery_timeout"]), 1);
    assert_eq!(process.events.messages("RebootFailed").len(), 2, "about the node and its claim");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_keeps_failing_ends_in_a_replacement_and_one_that_does_not_is_made_again() {
    for (failures, result) in [(3, "succeeded"), (300, "provider_error")] {
        let (world, process, broken) = sick().await;
        for _ in 0..failures {
            world.account.fail(Operation::Reboot, Fault::Refused(Kind::Transient));
        }
        let over = || process.metrics.nodes.reboots_total.value([result]) == 1;
        world.until("the reboot is over", 30 * MINUTE, over).await;
        if failures == 3 {
            assert!(is_there(&world, &broken));
        } else {
            world.until("it is replaced", 5 * MINUTE, || !is_there(&world, &broken)).await;
        }
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_starts_again_goes_on_with_the_reboot_and_asks_no_second_time() {
    for after in ["RebootRequested", "RebootIssued"] {
        let (world, process, _) = sick().await;
        reaches(&world, after, 12 * MINUTE).await;
        process.stop().await;
        let process = gated(&world);
        reaches(&world, "RebootSucceeded", 10 * MINUTE).await;
        world.all_running().await;
        assert_eq!((calls(&world), world.claims().len()), (1, 1), "{after}");
        process.stop().await;
    }
}

/// The answer of the cloud came, and the process ended before it could write that: the boot id tells.
#[tokio::test(start_paused = true)]
async fn a_process_that_ends_between_the_call_and_its_record_reboots_once() {
    let (world, process, _) = sick().await;
    world.account.fail(Operation::Reboot, Fault::AnswerLost);
    world.until("the call", 15 * MINUTE, || calls(&world) == 1).await;
    process.stop().await;
    tokio::time::sleep(3 * MINUTE).await;
    let process = gated(&world);
    reaches(&world, "RebootSucceeded", 5 * MINUTE).await;
    assert_eq!(calls(&world), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_deleted_during_its_reboot_terminates() {
    let (world, process, broken) = sick().await;
    reaches(&world, "RebootIssued", 12 * MINUTE).await;
    world.delete::<NodeClaim>(&world.claims()[0].name_any()).await;
    world.until("it is gone", 5 * MINUTE, || !is_there(&world, &broken)).await;
    process.stop().await;
}
