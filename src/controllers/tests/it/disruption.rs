//! Commands, end to end: nothing goes before what takes its place is ready, budgets hold at every moment, and what
//! goes wrong is taken back.

mod brakes;
mod counts;
mod deletion_costs;
mod history;
mod limits;
mod policies;
mod terminate_first;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use karpenter_cloud::memory::{Fault, Operation};
use karpenter_cloud::{DriftReason, Kind};
use karpenter_kube_sim::apiserver::{Fault as ApiFault, Rule};
use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_testkit::objects::{disruption_budget, one_of, with};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::crash::at_every_write;
use crate::world::{Crash, MINUTE, Process, SECOND, World, condition};
use history::{Rules, check, revision};

/// The spec of a pool of on-demand machines of these types.
fn pool(types: &[&str], disruption: &Value) -> Value {
    let requirements = [
        one_of("karpenter.sh/capacity-type", &["on-demand"]),
        one_of("node.kubernetes.io/instance-type", types),
    ];
    json!({"template": {"spec": {"requirements": requirements}}, "disruption": disruption})
}

fn initialized(world: &World, nodes: usize) -> bool {
    let claims = world.claims();
    claims.len() == nodes && claims.iter().all(|claim| condition(claim, "Initialized") == "True")
}

async fn settled(world: &World, pods: usize, nodes: usize) {
    let what = format!("{pods} pods run on {nodes} machines");
    world
        .until(&what, 20 * MINUTE, || {
            world.runs(pods) && initialized(world, nodes) && world.nodes().len() == nodes
        })
        .await;
}

/// One drifted machine with one pod, which nothing but drift may touch.
async fn about_to_drift(disruption: &Value) -> (World, Process) {
    let world = World::with_pool(&pool(&["small"], disruption)).await;
    world.set("web", 1, "1");
    let process = world.start();
    settled(&world, 1, 1).await;
    (world, process)
}

fn drift_only(nodes: &str) -> Value {
    json!({"consolidateAfter": "Never", "budgets": [{"nodes": nodes}]})
}

/// Machines launched from now on do not join; the first one stays as it is.
fn replacements_never_join(world: &World) {
    world.agent.behave_all(Behaviour::NeverJoins);
    let machine = world.account.machines().remove(0);
    world.agent.behave(machine.instance_id.as_str(), Behaviour::Healthy);
}

fn drift_all(world: &World) {
    for machine in world.account.machines() {
        world.account.drift(&machine.provider_id, DriftReason::new("ImageDrift"));
    }
}

/// Returns whether there are `count` machines, none of which is in `old`, with a pod each.
fn all_new(world: &World, old: &BTreeSet<String>, count: usize) -> bool {
    world.claim_names().is_disjoint(old) && initialized(world, count) && world.runs(count)
}

/// Returns whether no claim and no Node carries anything of a command.
fn untouched(world: &World) -> bool {
    let tainted = |node: &Node| {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.into_iter().any(|taint| taint.key == "karpenter.sh/disrupted")
    };
    !world.nodes().iter().any(tainted)
        && world.claims().iter().all(|claim| condition(claim, "DisruptionReason").is_empty())
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_too_large_is_replaced_before_it_goes() {
    let world =
        World::with_pool(&pool(&["small", "medium", "large"], &json!({"consolidateAfter": "30s"}))).await;
    world.set("big", 1, "12");
    world.set("web", 1, "1");
    let process = world.start();
    settled(&world, 2, 1).await;
    let (since, old) = (revision(&world), world.claim_names());
    world.scale("big", 0).await;
    world
        .until("the pod runs on a small machine", 10 * MINUTE, || {
            let nodes = world.nodes();
            let small = |node: &Node| node.labels()["node.kubernetes.io/instance-type"] == "small";
            world.runs(1) && nodes.len() == 1 && nodes.iter().all(small)
        })
        .await;
    assert!(world.claim_names().is_disjoint(&old));
    assert_eq!(check(&world, &Rules { since, budget: 1, one_at_a_time: true }), 1);
    let metrics = &process.metrics;
    assert_eq!(metrics.disruption.decisions_total.value(["replace", "underutilized", "single"]), 1);
    assert_eq!(process.created(["underutilized", "default", "false"]), 1);
    let labels = ["underutilized", "default", "on-demand", "when_empty_or_underutilized", "graceful"];
    assert_eq!(process.disrupted(labels), 1);
    assert_eq!(metrics.pods.drained_total.value(["Underutilized"]), 1);
    assert_eq!(process.events.messages("DisruptionLaunching"), ["Launching NodeClaim: Underutilized"]);
    assert_eq!(process.events.messages("DisruptionWaitingReadiness").len(), 1);
    let terminating = process.events.messages("DisruptionTerminating");
    assert_eq!(terminating, ["Disrupting Node: Underutilized", "Disrupting NodeClaim: Underutilized"]);
    assert_eq!(process.events.messages("ConsolidationCandidate").len(), 2);
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_whose_pods_fit_elsewhere_go_together() {
    let world = World::with_pool(&pool(&["medium"], &json!({"consolidateAfter": "30s"}))).await;
    world.set("big", 3, "2500m");
    let process = world.start();
    settled(&world, 3, 3).await;
    world.set("web", 3, "1");
    settled(&world, 6, 3).await;
    let since = revision(&world);
    world.scale("big", 0).await;
    settled(&world, 3, 1).await;
    assert_eq!(check(&world, &Rules { since, budget: 2, one_at_a_time: true }), 2, "both at once");
    let metrics = &process.metrics.disruption;
    assert_eq!(metrics.decisions_total.value(["delete", "underutilized", "multi"]), 1);
    assert_eq!(metrics.decisions_by_nodepool_total.value(["default", "delete", "underutilized", "multi"]), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_of_several_that_is_refused_tells_every_machine() {
    let world = World::with_pool(&pool(&["medium"], &json!({"consolidateAfter": "30s"}))).await;
    world.set("big", 3, "2500m");
    let process = world.start();
    settled(&world, 3, 3).await;
    world.set("web", 3, "1");
    settled(&world, 6, 3).await;
    let old = world.claim_names();
    world.scale("big", 0).await;
    let nodes = world.nodes();
    let proposed = |node: &Node| {
        let answer = process.explain(&format!("node/{}", node.name_any()));
        answer.reasons.iter().any(|why| why.code == "SecondLook")
    };
    world.until("a command waits", 5 * MINUTE, || nodes.iter().any(proposed)).await;
    let status =
        json!({"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3});
    let guard = disruption_budget("guard", "web", &json!({"maxUnavailable": 0}));
    world.load(&with(guard, &json!({"status": status})));
    let rejected = || process.events.messages("ConsolidationRejected");
    world.until("it is refused", MINUTE, || rejected().len() >= 4).await;
    let told = rejected();
    assert_eq!(told.len(), 4, "Node and claim of both: {told:#?}");
    let whole = |text: &String| {
        text.contains("(part of 2-node consolidation)") && text.contains(" rejected, churn: ")
    };
    assert!(told.iter().all(whole), "{told:#?}");
    assert_eq!(process.metrics.disruption.failed_validations_total.value(["multi"]), 2);
    assert_eq!(world.claim_names(), old);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_replaces_one_machine_after_the_other_under_a_budget_of_one() {
    let world = World::with_pool(&pool(&["small"], &drift_only("1"))).await;
    world.set("web", 3, "1500m");
    let process = world.start();
    settled(&world, 3, 3).await;
    let (since, old) = (revision(&world), world.claim_names());
    drift_all(&world);
    world.until("all machines are new", 60 * MINUTE, || all_new(&world, &old, 3)).await;
    assert_eq!(check(&world, &Rules { since, budget: 1, one_at_a_time: true }), 1);
    assert_eq!(process.metrics.disruption.decisions_total.value(["replace", "drifted", ""]), 3);
    let allowed = &process.metrics.nodepools.allowed_disruptions;
    assert!((allowed.value(["default", "Drifted"]) - 1.0).abs() < f64::EPSILON);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_be_launched_is_taken_back_and_tried_again() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let (since, old) = (revision(&world), world.claim_names());
    world.account.fail(Operation::Launch, Fault::Refused(Kind::NoCapacity));
    drift_all(&world);
    let failures = &process.metrics.disruption.queue_failures_total;
    world
        .until("the command has failed", 10 * MINUTE, || failures.value(["replace", "drifted", ""]) == 1)
        .await;
    assert!(old.is_subset(&world.claim_names()), "the candidate stays");
    world.until("another try has succeeded", 20 * MINUTE, || all_new(&world, &old, 1)).await;
    check(&world, &Rules { since, budget: 1, one_at_a_time: true });
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replacements_without_capacity_are_tried_ever_later_and_close_no_gate() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let old = world.claim_names();
    for _ in 0..4 {
        world.account.fail(Operation::Launch, Fault::Refused(Kind::NoCapacity));
    }
    drift_all(&world);
    let replaced = || all_new(&world, &old, 1);
    // Before the pause of a gate that four failures in a row would have closed.
    world.until("the fifth try succeeds", 20 * MINUTE, replaced).await;
    let created = &process.metrics.nodeclaims.created_total;
    assert_eq!(created.value(["drifted", "default", "false"]), 5);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_cannot_create_its_replacement_does_not_flap() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let old = world.claim_names();
    world.server.faults().inject(Rule::on("create").resource("nodeclaims"), ApiFault::InternalError);
    let since = revision(&world);
    drift_all(&world);
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(world.claim_names(), old);
    let taints = history::taints(&world, since);
    assert!((2..=5).contains(&taints), "tainted {taints} times in ten minutes");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_joins_is_given_up_and_the_old_machine_stays() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let old = world.claim_names();
    replacements_never_join(&world);
    drift_all(&world);
    let failures = &process.metrics.disruption.queue_failures_total;
    world
        .until("the command has timed out", 20 * MINUTE, || failures.value(["replace", "drifted", ""]) == 1)
        .await;
    assert!(world.claims().iter().any(|claim| old.contains(&claim.name_any())));
    assert!(world.runs(1), "no pod was evicted");
    world.until("taint and condition are taken back", MINUTE, || untouched(&world)).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_gets_ready_is_given_up_and_the_old_machines_stay() {
    let world = World::with_pool(&pool(&["small"], &drift_only("1"))).await;
    world.set("web", 2, "1");
    let process = world.start();
    settled(&world, 2, 2).await;
    let old = world.claim_names();
    world.agent.behave_all(Behaviour::NotReady);
    for machine in world.account.machines() {
        world.agent.behave(machine.instance_id.as_str(), Behaviour::Healthy);
    }
    drift_all(&world);
    world.until("a machine is to be replaced", 10 * MINUTE, || !untouched(&world)).await;
    let chosen = tokio::time::Instant::now();
    world
        .until("the replacement has joined", 5 * MINUTE, || {
            world
                .claims()
                .iter()
                .any(|claim| !old.contains(&claim.name_any()) && condition(claim, "Registered") == "True")
        })
        .await;
    world.until("taint and condition are taken back", 11 * MINUTE, || untouched(&world)).await;
    assert!(chosen.elapsed() <= 11 * MINUTE, "{:?}", chosen.elapsed());
    for _ in 0..120 {
        tokio::time::sleep(SECOND).await;
        assert!(world.claim_names().is_superset(&old) && world.runs(2));
    }
    assert_eq!(process.metrics.disruption.queue_failures_total.value(["replace", "drifted", ""]), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_command_leaves_over_is_used_by_the_next() {
    let world = World::with_pool(&pool(&["large"], &drift_only("1"))).await;
    world.set("web", 2, "1500m");
    let process = world.start();
    settled(&world, 2, 1).await;
    let old = world.claim_names();
    // One of two replacements cannot be created; the other comes up although it is not needed yet.
    world.server.faults().inject(Rule::on("create").resource("nodeclaims").times(1), ApiFault::InternalError);
    world.change_pool("default", &pool(&["small"], &drift_only("1"))).await;
    world.until("two new machines run everything", 30 * MINUTE, || all_new(&world, &old, 2)).await;
    assert_eq!(world.claims().len(), 2, "nothing is left over");
    assert_eq!(process.created(["drifted", "default", "false"]), 2);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_candidate_deleted_by_hand_holds_up_no_other() {
    let world = World::new().await;
    world.pool(
        "default",
        &pool(&["large"], &json!({"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]})),
    );
    world.set("big", 2, "9");
    let process = world.start();
    settled(&world, 2, 2).await;
    world.set("web", 2, "5");
    settled(&world, 4, 2).await;
    let old = world.claim_names();
    world.change_pool("default", &pool(&["small", "medium", "large"], &json!({}))).await;
    world.set("tiny", 2, "500m");
    settled(&world, 6, 2).await;
    world.scale("big", 0).await;
    world.scale("web", 0).await;
    world.until("a replacement is coming", 10 * MINUTE, || !world.claim_names().is_subset(&old)).await;
    let first = old.iter().next().unwrap();
    world.delete::<NodeClaim>(first).await;
    world
        .until("both are gone", 20 * MINUTE, || {
            world.claim_names().is_disjoint(&old) && world.runs(2) && untouched(&world)
        })
        .await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_commands_run_side_by_side() {
    let world = World::new().await;
    for name in ["left", "right"] {
        world.pool(name, &pool(&["small"], &drift_only("1")));
        world.set_with(name, 1, "1", &json!({"nodeSelector": {"karpenter.sh/nodepool": name}}));
    }
    let process = world.start();
    settled(&world, 2, 2).await;
    let (since, old) = (revision(&world), world.claim_names());
    drift_all(&world);
    world.until("both machines are new", 20 * MINUTE, || all_new(&world, &old, 2)).await;
    let most = check(&world, &Rules { since, budget: 2, one_at_a_time: false });
    assert_eq!(most, 2, "neither waited for the other");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_machine_that_cannot_be_written_delays_no_other() {
    let world = World::with_pool(&pool(&["small"], &drift_only("100%"))).await;
    world.set("web", 2, "1500m");
    let process = world.start();
    settled(&world, 2, 2).await;
    let old = world.claim_names();
    let stuck = world.claims().remove(0);
    let node = stuck.status.as_ref().and_then(|status| status.node_name.clone()).unwrap();
    world.server.faults().inject(Rule::on("patch").resource("nodes").name(&node), ApiFault::InternalError);
    drift_all(&world);
    world
        .until("the other machine is new", 20 * MINUTE, || {
            let names = world.claim_names();
            names.intersection(&old).count() == 1 && names.contains(&stuck.name_any())
        })
        .await;
    world.server.faults().clear();
    world
        .until("then this one too", 40 * MINUTE, || world.claim_names().is_disjoint(&old) && world.runs(2))
        .await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_before_the_second_look_calls_it_off() {
    let world = World::new().await;
    world.pool(
        "default",
        &pool(&["small"], &json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})),
    );
    world.pod("first", "1");
    let process = world.start();
    settled(&world, 1, 1).await;
    let old = world.claim_names();
    world.delete::<Pod>("first").await;
    let eligible = &process.metrics.disruption.eligible_nodes;
    world.until("the empty machine is a candidate", MINUTE, || eligible.value(["empty"]) > 0.5).await;
    world.pod("second", "1");
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(world.claim_names(), old, "the machine is in use again");
    assert!(world.runs(1));
    assert!(untouched(&world));
    assert_eq!(process.metrics.disruption.decisions_total.value(["delete", "empty", "empty"]), 0);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn marks_of_no_command_are_taken_back() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let (node, claim) = (world.nodes().remove(0), world.claims().remove(0));
    let taint = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    world.patch::<Node>(&node.name_any(), taint).await;
    let mut conditions = json!(claim.status.as_ref().unwrap().conditions);
    conditions.as_array_mut().unwrap().push(json!({
        "type": "DisruptionReason", "status": "True", "reason": "Empty", "message": "Empty",
        "lastTransitionTime": "2026-01-01T12:00:00Z", "observedGeneration": 1,
    }));
    world.patch_status::<NodeClaim>(&claim.name_any(), json!({"conditions": conditions})).await;
    assert!(!untouched(&world));
    world.until("both are gone", MINUTE, || untouched(&world)).await;
    assert_eq!(world.claim_names().len(), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_hears_why_a_node_stays() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let node = world.nodes().remove(0).name_any();
    world
        .until("the reason is known", MINUTE, || {
            let answer = process.explain(&format!("node/{node}"));
            answer.verdict == "stays" && answer.reasons[0].code == "ConsolidationDisabled"
        })
        .await;
    assert_eq!(process.explain("all").verdict, "nothing is to go");
    assert!(process.explain("nodepool/default").facts.iter().any(|fact| fact.value.starts_with("1 at once")));
    process.stop().await;
}

/// A drifted machine is replaced with a crash at the chosen write of the process that does it; false when there was
/// no such write.
async fn survives(crash: Crash) -> bool {
    let (world, process) = about_to_drift(&drift_only("1")).await;
    process.stop().await;
    let (since, old) = (revision(&world), world.claim_names());
    drift_all(&world);
    let replaced = async || {
        world
            .until(&format!("{crash:?}: the machine is new"), 60 * MINUTE, || {
                all_new(&world, &old, 1) && world.account.machines().len() == 1 && untouched(&world)
            })
            .await;
    };
    let second = world.start_with(crash);
    let mut crashed = false;
    tokio::select! {
        () = second.calls.crashed() => crashed = true,
        () = replaced() => {}
    }
    second.kill();
    if crashed {
        let third = world.start();
        replaced().await;
        third.stop().await;
    }
    check(&world, &Rules { since, budget: 1, one_at_a_time: true });
    world.one_machine_per_claim().await;
    crashed
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_a_command_leaves_nothing_behind() {
    at_every_write(15, survives).await;
}
