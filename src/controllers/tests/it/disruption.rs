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
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_cloud::memory::{Fault, Operation};
use karpenter_cloud::{DriftReason, Kind};
use karpenter_kube_sim::apiserver::{Fault as ApiFault, Rule};
use karpenter_kube_sim::kubelet::Behaviour;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{Crash, Process, World, condition, is_running, merge};
use history::{Rules, check, revision};

const MINUTE: Duration = Duration::from_mins(1);

fn requirement(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// The spec of a pool of on-demand machines of these types.
fn pool(types: &[&str], disruption: &Value) -> Value {
    let requirements = [
        requirement("karpenter.sh/capacity-type", &["on-demand"]),
        requirement("node.kubernetes.io/instance-type", types),
    ];
    json!({"template": {"spec": {"requirements": requirements}}, "disruption": disruption})
}

/// Pods that come back when they are evicted, each with this much CPU.
pub(crate) fn set(world: &World, name: &str, replicas: u32, cpu: &str, selector: &Value) {
    set_with(world, name, replicas, cpu, &json!({"nodeSelector": selector}));
}

/// Adds a replica set with `more` in the spec of its pods.
fn set_with(world: &World, name: &str, replicas: u32, cpu: &str, more: &Value) {
    let mut spec =
        json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
    merge(&mut spec, more);
    set_of(world, name, replicas, &spec);
}

/// Pods of this spec that come back when they are evicted, after five seconds of grace.
pub(crate) fn set_of(world: &World, name: &str, replicas: u32, spec: &Value) {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 5},
            },
        },
    });
    merge(&mut set["spec"]["template"]["spec"], spec);
    world.load(&set);
}

pub(crate) async fn scale(world: &World, name: &str, replicas: u32) {
    let sets: Api<ReplicaSet> = Api::namespaced(world.client.clone(), "default");
    let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    sets.patch(name, &PatchParams::default(), &change).await.unwrap();
}

/// So many pods exist, and all of them run.
async fn running(world: &World, pods: usize) -> bool {
    let there = world.pods();
    there.len() == pods && there.iter().all(is_running)
}

async fn initialized(world: &World, nodes: usize) -> bool {
    let claims = world.claims();
    claims.len() == nodes && claims.iter().all(|claim| condition(claim, "Initialized") == "True")
}

async fn settled(world: &World, pods: usize, nodes: usize) {
    let what = format!("{pods} pods run on {nodes} machines");
    world
        .until(&what, Duration::from_mins(20), || async {
            running(world, pods).await && initialized(world, nodes).await && world.nodes().len() == nodes
        })
        .await;
}

/// One drifted machine with one pod, which nothing but drift may touch.
async fn about_to_drift(disruption: &Value) -> (World, Process) {
    let world = World::new().await;
    world.pool("default", &pool(&["small"], disruption));
    set(&world, "web", 1, "1", &json!({}));
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

async fn claim_names(world: &World) -> BTreeSet<String> {
    world.claims().iter().map(ResourceExt::name_any).collect()
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
    let world = World::new().await;
    world.pool("default", &pool(&["small", "medium", "large"], &json!({"consolidateAfter": "30s"})));
    set(&world, "big", 1, "12", &json!({}));
    set(&world, "web", 1, "1", &json!({}));
    let process = world.start();
    settled(&world, 2, 1).await;
    let (since, old) = (revision(&world), claim_names(&world).await);
    scale(&world, "big", 0).await;
    world
        .until("the pod runs on a small machine", Duration::from_mins(10), || async {
            let nodes = world.nodes();
            let small = |node: &Node| node.labels()["node.kubernetes.io/instance-type"] == "small";
            running(&world, 1).await && nodes.len() == 1 && nodes.iter().all(small)
        })
        .await;
    assert!(claim_names(&world).await.is_disjoint(&old));
    assert_eq!(check(&world, &Rules { since, budget: 1, one_at_a_time: true }), 1);
    let metrics = &process.metrics;
    assert_eq!(metrics.disruption.decisions_total.value(["replace", "underutilized", "single"]), 1);
    assert_eq!(metrics.nodeclaims.created_total.value(["underutilized", "default", "false"]), 1);
    assert_eq!(
        metrics.nodeclaims.disrupted_total.value([
            "underutilized",
            "default",
            "on-demand",
            "when_empty_or_underutilized",
            "graceful"
        ]),
        1
    );
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
    let world = World::new().await;
    world.pool("default", &pool(&["medium"], &json!({"consolidateAfter": "30s"})));
    set(&world, "big", 3, "2500m", &json!({}));
    let process = world.start();
    settled(&world, 3, 3).await;
    set(&world, "web", 3, "1", &json!({}));
    settled(&world, 6, 3).await;
    let since = revision(&world);
    scale(&world, "big", 0).await;
    settled(&world, 3, 1).await;
    assert_eq!(check(&world, &Rules { since, budget: 2, one_at_a_time: true }), 2, "both at once");
    let metrics = &process.metrics.disruption;
    assert_eq!(metrics.decisions_total.value(["delete", "underutilized", "multi"]), 1);
    assert_eq!(metrics.decisions_by_nodepool_total.value(["default", "delete", "underutilized", "multi"]), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_of_several_that_is_refused_tells_every_machine() {
    let world = World::new().await;
    world.pool("default", &pool(&["medium"], &json!({"consolidateAfter": "30s"})));
    set(&world, "big", 3, "2500m", &json!({}));
    let process = world.start();
    settled(&world, 3, 3).await;
    set(&world, "web", 3, "1", &json!({}));
    settled(&world, 6, 3).await;
    let old = claim_names(&world).await;
    scale(&world, "big", 0).await;
    let nodes = world.nodes();
    let proposed = |node: &Node| {
        let question = format!("node/{}", node.name_any()).parse().unwrap();
        process.explanations.answer(&question).reasons.iter().any(|why| why.code == "SecondLook")
    };
    world.until("a command waits", Duration::from_mins(5), || async { nodes.iter().any(proposed) }).await;
    world.load(&json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3},
    }));
    let rejected = || process.events.messages("ConsolidationRejected");
    world.until("it is refused", MINUTE, || async { rejected().len() >= 4 }).await;
    let told = rejected();
    assert_eq!(told.len(), 4, "Node and claim of both: {told:#?}");
    let whole = |text: &String| {
        text.contains("(part of 2-node consolidation)") && text.contains(" rejected, churn: ")
    };
    assert!(told.iter().all(whole), "{told:#?}");
    assert_eq!(process.metrics.disruption.failed_validations_total.value(["multi"]), 2);
    assert_eq!(claim_names(&world).await, old);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_replaces_one_machine_after_the_other_under_a_budget_of_one() {
    let world = World::new().await;
    world.pool("default", &pool(&["small"], &drift_only("1")));
    set(&world, "web", 3, "1500m", &json!({}));
    let process = world.start();
    settled(&world, 3, 3).await;
    let (since, old) = (revision(&world), claim_names(&world).await);
    drift_all(&world);
    world
        .until("all machines are new", Duration::from_hours(1), || async {
            claim_names(&world).await.is_disjoint(&old)
                && initialized(&world, 3).await
                && running(&world, 3).await
        })
        .await;
    assert_eq!(check(&world, &Rules { since, budget: 1, one_at_a_time: true }), 1);
    assert_eq!(process.metrics.disruption.decisions_total.value(["replace", "drifted", ""]), 3);
    let allowed = &process.metrics.nodepools.allowed_disruptions;
    assert!((allowed.value(["default", "Drifted"]) - 1.0).abs() < f64::EPSILON);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_be_launched_is_taken_back_and_tried_again() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let (since, old) = (revision(&world), claim_names(&world).await);
    world.account.fail(Operation::Launch, Fault::Refused(Kind::NoCapacity));
    drift_all(&world);
    let failures = &process.metrics.disruption.queue_failures_total;
    world
        .until("the command has failed", Duration::from_mins(10), || async {
            failures.value(["replace", "drifted", ""]) == 1
        })
        .await;
    assert!(old.is_subset(&claim_names(&world).await), "the candidate stays");
    world
        .until("another try has succeeded", Duration::from_mins(20), || async {
            claim_names(&world).await.is_disjoint(&old)
                && initialized(&world, 1).await
                && running(&world, 1).await
        })
        .await;
    check(&world, &Rules { since, budget: 1, one_at_a_time: true });
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replacements_without_capacity_are_tried_ever_later_and_close_no_gate() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let old = claim_names(&world).await;
    for _ in 0..4 {
        world.account.fail(Operation::Launch, Fault::Refused(Kind::NoCapacity));
    }
    drift_all(&world);
    let replaced = || async {
        claim_names(&world).await.is_disjoint(&old)
            && initialized(&world, 1).await
            && running(&world, 1).await
    };
    // Before the pause of a gate that four failures in a row would have closed.
    world.until("the fifth try succeeds", Duration::from_mins(20), replaced).await;
    let created = &process.metrics.nodeclaims.created_total;
    assert_eq!(created.value(["drifted", "default", "false"]), 5);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_cannot_create_its_replacement_does_not_flap() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let old = claim_names(&world).await;
    world.server.faults().inject(Rule::on("create").resource("nodeclaims"), ApiFault::InternalError);
    let since = revision(&world);
    drift_all(&world);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(claim_names(&world).await, old);
    let taints = history::taints(&world, since);
    assert!((2..=5).contains(&taints), "tainted {taints} times in ten minutes");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_joins_is_given_up_and_the_old_machine_stays() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let old = claim_names(&world).await;
    replacements_never_join(&world);
    drift_all(&world);
    let failures = &process.metrics.disruption.queue_failures_total;
    world
        .until("the command has timed out", Duration::from_mins(20), || async {
            failures.value(["replace", "drifted", ""]) == 1
        })
        .await;
    assert!(world.claims().iter().any(|claim| old.contains(&claim.name_any())));
    assert!(running(&world, 1).await, "no pod was evicted");
    let given_back = || async { untouched(&world) };
    world.until("taint and condition are taken back", Duration::from_mins(1), given_back).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_gets_ready_is_given_up_and_the_old_machines_stay() {
    let world = World::new().await;
    world.pool("default", &pool(&["small"], &drift_only("1")));
    set(&world, "web", 2, "1", &json!({}));
    let process = world.start();
    settled(&world, 2, 2).await;
    let old = claim_names(&world).await;
    world.agent.behave_all(Behaviour::NotReady);
    for machine in world.account.machines() {
        world.agent.behave(machine.instance_id.as_str(), Behaviour::Healthy);
    }
    drift_all(&world);
    let tainted = || async { !untouched(&world) };
    world.until("a machine is to be replaced", 10 * MINUTE, tainted).await;
    let chosen = tokio::time::Instant::now();
    world
        .until("the replacement has joined", 5 * MINUTE, || async {
            world
                .claims()
                .iter()
                .any(|claim| !old.contains(&claim.name_any()) && condition(claim, "Registered") == "True")
        })
        .await;
    world.until("taint and condition are taken back", 11 * MINUTE, || async { untouched(&world) }).await;
    assert!(chosen.elapsed() <= 11 * MINUTE, "{:?}", chosen.elapsed());
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(claim_names(&world).await.is_superset(&old) && running(&world, 2).await);
    }
    assert_eq!(process.metrics.disruption.queue_failures_total.value(["replace", "drifted", ""]), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_command_leaves_over_is_used_by_the_next() {
    let world = World::new().await;
    world.pool("default", &pool(&["large"], &drift_only("1")));
    set(&world, "web", 2, "1500m", &json!({}));
    let process = world.start();
    settled(&world, 2, 1).await;
    let old = claim_names(&world).await;
    // One of two replacements cannot be created; the other comes up although it is not needed yet.
    world.server.faults().inject(Rule::on("create").resource("nodeclaims").times(1), ApiFault::InternalError);
    world.change_pool("default", &pool(&["small"], &drift_only("1"))).await;
    world
        .until("two new machines run everything", Duration::from_mins(30), || async {
            claim_names(&world).await.is_disjoint(&old)
                && initialized(&world, 2).await
                && running(&world, 2).await
        })
        .await;
    assert_eq!(world.claims().len(), 2, "nothing is left over");
    assert_eq!(process.metrics.nodeclaims.created_total.value(["drifted", "default", "false"]), 2);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_candidate_deleted_by_hand_holds_up_no_other() {
    let world = World::new().await;
    world.pool(
        "default",
        &pool(&["large"], &json!({"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]})),
    );
    set(&world, "big", 2, "9", &json!({}));
    let process = world.start();
    settled(&world, 2, 2).await;
    set(&world, "web", 2, "5", &json!({}));
    settled(&world, 4, 2).await;
    let old = claim_names(&world).await;
    world.change_pool("default", &pool(&["small", "medium", "large"], &json!({}))).await;
    set(&world, "tiny", 2, "500m", &json!({}));
    settled(&world, 6, 2).await;
    scale(&world, "big", 0).await;
    scale(&world, "web", 0).await;
    world
        .until("a replacement is coming", Duration::from_mins(10), || async {
            !claim_names(&world).await.is_subset(&old)
        })
        .await;
    let first = old.iter().next().unwrap();
    let claims: Api<NodeClaim> = Api::all(world.client.clone());
    claims.delete(first, &DeleteParams::default()).await.unwrap();
    world
        .until("both are gone", Duration::from_mins(20), || async {
            claim_names(&world).await.is_disjoint(&old) && running(&world, 2).await && untouched(&world)
        })
        .await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_commands_run_side_by_side() {
    let world = World::new().await;
    for name in ["left", "right"] {
        world.pool(name, &pool(&["small"], &drift_only("1")));
        set(&world, name, 1, "1", &json!({"karpenter.sh/nodepool": name}));
    }
    let process = world.start();
    settled(&world, 2, 2).await;
    let (since, old) = (revision(&world), claim_names(&world).await);
    drift_all(&world);
    world
        .until("both machines are new", Duration::from_mins(20), || async {
            claim_names(&world).await.is_disjoint(&old)
                && initialized(&world, 2).await
                && running(&world, 2).await
        })
        .await;
    let most = check(&world, &Rules { since, budget: 2, one_at_a_time: false });
    assert_eq!(most, 2, "neither waited for the other");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_machine_that_cannot_be_written_delays_no_other() {
    let world = World::new().await;
    world.pool("default", &pool(&["small"], &drift_only("100%")));
    set(&world, "web", 2, "1500m", &json!({}));
    let process = world.start();
    settled(&world, 2, 2).await;
    let old = claim_names(&world).await;
    let stuck = world.claims().remove(0);
    let node = stuck.status.as_ref().and_then(|status| status.node_name.clone()).unwrap();
    world.server.faults().inject(Rule::on("patch").resource("nodes").name(&node), ApiFault::InternalError);
    drift_all(&world);
    world
        .until("the other machine is new", Duration::from_mins(20), || async {
            let names = claim_names(&world).await;
            names.intersection(&old).count() == 1 && names.contains(&stuck.name_any())
        })
        .await;
    world.server.faults().clear();
    world
        .until("then this one too", Duration::from_mins(40), || async {
            claim_names(&world).await.is_disjoint(&old) && running(&world, 2).await
        })
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
    let old = claim_names(&world).await;
    world.delete_pod("first").await;
    let eligible = &process.metrics.disruption.eligible_nodes;
    world
        .until("the empty machine is a candidate", MINUTE, || async { eligible.value(["empty"]) > 0.5 })
        .await;
    world.pod("second", "1");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(claim_names(&world).await, old, "the machine is in use again");
    assert!(running(&world, 1).await);
    assert!(untouched(&world));
    assert_eq!(process.metrics.disruption.decisions_total.value(["delete", "empty", "empty"]), 0);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn marks_of_no_command_are_taken_back() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let (node, claim) = (world.nodes().remove(0), world.claims().remove(0));
    let nodes: Api<Node> = Api::all(world.client.clone());
    let taint = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    nodes.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(taint)).await.unwrap();
    let mut conditions = json!(claim.status.as_ref().unwrap().conditions);
    conditions.as_array_mut().unwrap().push(json!({
        "type": "DisruptionReason", "status": "True", "reason": "Empty", "message": "Empty",
        "lastTransitionTime": "2026-01-01T12:00:00Z", "observedGeneration": 1,
    }));
    let claims: Api<NodeClaim> = Api::all(world.client.clone());
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    claims.patch_status(&claim.name_any(), &PatchParams::default(), &patch).await.unwrap();
    assert!(!untouched(&world));
    world.until("both are gone", MINUTE, || async { untouched(&world) }).await;
    assert_eq!(claim_names(&world).await.len(), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_hears_why_a_node_stays() {
    let (world, process) = about_to_drift(&drift_only("100%")).await;
    let node = world.nodes().remove(0).name_any();
    let ask = |question: String| process.explanations.answer(&question.parse().unwrap());
    world
        .until("the reason is known", MINUTE, || async {
            let answer = ask(format!("node/{node}"));
            answer.verdict == "stays" && answer.reasons[0].code == "ConsolidationDisabled"
        })
        .await;
    assert_eq!(ask("all".to_owned()).verdict, "nothing is to go");
    assert!(ask("nodepool/default".to_owned()).facts.iter().any(|fact| fact.value.starts_with("1 at once")));
    process.stop().await;
}

/// A drifted machine is replaced with a crash at the chosen write of the process that does it; false when there was
/// no such write.
async fn survives(crash: Crash) -> bool {
    let (world, process) = about_to_drift(&drift_only("1")).await;
    process.stop().await;
    let (since, old) = (revision(&world), claim_names(&world).await);
    drift_all(&world);
    let replaced = async || {
        world
            .until(&format!("{crash:?}: the machine is new"), Duration::from_hours(1), || async {
                claim_names(&world).await.is_disjoint(&old)
                    && initialized(&world, 1).await
                    && running(&world, 1).await
                    && world.account.machines().len() == 1
                    && untouched(&world)
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

async fn survives_at_every_write(crash: fn(usize) -> Crash) {
    let mut write = 0;
    while survives(crash(write)).await {
        write += 1;
    }
    assert!(write > 15, "only {write} writes were crashed at");
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_write_of_a_command_leaves_nothing_behind() {
    survives_at_every_write(Crash::BeforeWrite).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_of_a_command_leaves_nothing_behind() {
    survives_at_every_write(Crash::AfterWrite).await;
}
