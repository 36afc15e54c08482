//! Incidents of other autoscalers, replayed against this one (`docs/reference/edge-cases-incidents.md`).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use karpenter_cloud::Kind;
use karpenter_cloud::memory::{Fault, Operation};
use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_model::settings::{DisruptionSettings, Settings};
use karpenter_testkit::objects::{disruption_budget, merge, on_port_80, with};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::world::{MINUTE, Process, SECOND, World, is_running};

/// The spec of a pool that nothing is consolidated in, changed by `template`.
fn pool(template: &Value) -> Value {
    let mut spec = json!({"disruption": {"consolidateAfter": "Never"}});
    merge(&mut spec["template"]["spec"], template);
    spec
}

/// Pods that come back when they go, each of which needs a node to itself.
fn one_per_node(world: &World, name: &str, replicas: usize, more: &Value) {
    world.set_with(name, replicas, "1", &with(on_port_80("1"), more));
}

fn pods_of(world: &World, app: &str) -> Vec<Pod> {
    let mut pods = world.pods();
    pods.retain(|pod| pod.labels().get("app").is_some_and(|of| of == app));
    pods
}

fn running(world: &World, app: &str) -> usize {
    pods_of(world, app).iter().filter(|pod| is_running(pod)).count()
}

async fn until_running(world: &World, app: &str, count: usize, limit: Duration) {
    let what = format!("{count} pods of {app} run");
    world.until(&what, limit, || running(world, app) == count).await;
}

fn created(process: &Process, pool: &str) -> u64 {
    process.created(["provisioned", pool, "false"])
}

/// Calls `look` every `step` for `span`.
async fn every(step: Duration, span: Duration, look: impl Fn()) {
    let until = tokio::time::Instant::now() + span;
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(step).await;
        look();
    }
}

/// Puts an unannounced taint on every node that has none of it, or takes it off all of them.
async fn taint(world: &World, on: bool) {
    const KEY: &str = "example.com/agent-not-ready";
    let change = |_: &Node, taints: &mut Vec<Taint>| {
        taints.retain(|taint| taint.key != KEY);
        if on {
            taints.push(Taint { key: KEY.into(), effect: "NoSchedule".into(), ..Taint::default() });
        }
    };
    world.change_taints(change).await;
}

/// Runs one pod whose nodes get a taint as soon as they exist and keep it for `span`; returns how many nodes were bought.
async fn bought_while_tainted(span: Duration) -> u64 {
    let world = World::with_pool(&pool(&json!({}))).await;
    one_per_node(&world, "web", 1, &json!({}));
    let process = world.start();
    world.until("a node is there", 5 * MINUTE, || !world.nodes().is_empty()).await;
    assert_eq!(running(&world, "web"), 0, "nodes take some seconds to be ready");
    let until = tokio::time::Instant::now() + span;
    while tokio::time::Instant::now() < until {
        taint(&world, true).await;
        tokio::time::sleep(SECOND).await;
    }
    assert_eq!(running(&world, "web"), 0, "the taint keeps the pod away");
    taint(&world, false).await;
    until_running(&world, "web", 1, MINUTE).await;
    let bought = created(&process, "default");
    process.stop().await;
    bought
}

#[tokio::test(start_paused = true)]
async fn a_taint_nobody_announced_on_a_young_node_buys_no_second_one() {
    assert_eq!(bought_while_tainted(50 * SECOND).await, 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_stays_for_half_an_hour_buys_a_bounded_number() {
    // Three until it is clear that nodes are no help, then one after each pause, and pauses double.
    let bought = bought_while_tainted(30 * MINUTE).await;
    assert!(bought <= 6, "{bought} nodes");
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_binds_late_gets_no_second_node() {
    let world = World::with_pool(&pool(&json!({}))).await;
    // No scheduler of this name runs, so the pod is bound when the test does it.
    world.pod_with("web", "1", &json!({"schedulerName": "late"}));
    world.unschedulable("web").await;
    let process = world.start();
    let initialized = || {
        let nodes = world.nodes();
        nodes.iter().any(|node| node.labels().contains_key("karpenter.sh/initialized"))
    };
    world.until("the node is up", 5 * MINUTE, initialized).await;
    tokio::time::sleep(50 * SECOND).await;
    assert_eq!(created(&process, "default"), 1);
    assert_eq!(world.nodes().len(), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_is_behind_keeps_the_nodes_of_a_burst() {
    // Nodes go as soon as they are empty and not expected to be used.
    let world = World::with_pool(&json!({"disruption": {"consolidateAfter": "0s"}})).await;
    let names: Vec<String> = (0..5).map(|number| format!("web-{number}")).collect();
    for name in &names {
        // No scheduler of this name runs, so pods are bound when the test does it.
        world.pod_with(name, "1", &with(on_port_80("1"), &json!({"schedulerName": "behind"})));
        world.unschedulable(name).await;
    }
    let process = world.start();
    world.until("the nodes are up", 5 * MINUTE, || world.has_nodes(5)).await;
    for name in &names {
        tokio::time::sleep(50 * SECOND).await;
        let pod = world.pods().into_iter().find(|pod| pod.name_any() == *name).unwrap();
        let node = pod.status.and_then(|status| status.nominated_node_name).expect("the pod names its node");
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"kind": "Node", "name": node}});
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
        let params = PostParams::default();
        let _answer: Value = pods.create_subresource("binding", name, &params, &binding).await.unwrap();
    }
    world.all_running().await;
    assert_eq!(created(&process, "default"), 5, "no node was removed and bought again");
    process.stop().await;
}

/// Three pods on nodes that expire every half hour, with a budget that lets none of them go: the most nodes there were
/// at once, and how many were bought, in 70 minutes.
async fn held_on_expiring_nodes(allows: &Value) -> (usize, u64) {
    let world = World::with_pool(&pool(&json!({"expireAfter": "30m"}))).await;
    one_per_node(&world, "web", 3, &json!({}));
    world.load(&disruption_budget("web", "web", allows));
    let process = world.start();
    until_running(&world, "web", 3, 5 * MINUTE).await;
    let most = Cell::new(0);
    every(5 * SECOND, 70 * MINUTE, || {
        most.set(most.get().max(world.claims().len()));
        assert_eq!(running(&world, "web"), 3, "the budget is kept");
    })
    .await;
    let bought = created(&process, "default");
    process.stop().await;
    (most.get(), bought)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_bought_for_pods_that_no_budget_will_ever_let_go() {
    assert_eq!(held_on_expiring_nodes(&json!({"maxUnavailable": 0})).await, (3, 3));
}

#[tokio::test(start_paused = true)]
async fn pods_that_may_not_be_evicted_from_expiring_nodes_get_one_replacement_each() {
    // A number that happens to equal the replicas may change, so room is made ready.
    let (most, bought) = held_on_expiring_nodes(&json!({"minAvailable": 3})).await;
    assert!(most > 3, "three nodes that drain have replacements");
    // Replacements expire as well: three nodes drain, three go, and three come in their place.
    assert!(most <= 9 && bought <= 9, "{most} nodes at once, {bought} in all");
}

#[tokio::test(start_paused = true)]
async fn fifty_nodes_born_together_expire_together_and_budgets_of_pods_hold() {
    let world = World::with_pool(&pool(&json!({"expireAfter": "15m"}))).await;
    one_per_node(&world, "web", 50, &json!({}));
    world.load(&disruption_budget("web", "web", &json!({"maxUnavailable": "10%"})));
    let process = world.start();
    until_running(&world, "web", 50, 5 * MINUTE).await;
    let old: BTreeSet<String> = world.nodes().iter().map(ResourceExt::name_any).collect();
    let (most, least, left) = (Cell::new(0), Cell::new(50), Cell::new(50));
    every(5 * SECOND, 9 * MINUTE, || {
        assert_eq!(running(&world, "web"), 50, "not before they expire");
    })
    .await;
    every(5 * SECOND, 14 * MINUTE, || {
        most.set(most.get().max(world.claims().len()));
        least.set(least.get().min(running(&world, "web")));
        left.set(world.nodes().iter().filter(|node| old.contains(&node.name_any())).count());
    })
    .await;
    assert_eq!(left.get(), 0, "old nodes are left");
    until_running(&world, "web", 50, 5 * MINUTE).await;
    assert!(most.get() <= 100, "{} machines at once", most.get());
    assert!(least.get() >= 45, "{} of 50 ran", least.get());
    assert!(created(&process, "default") <= 100, "{} nodes were bought", created(&process, "default"));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_born_together_are_replaced_within_the_budget_before_they_expire_if_that_is_asked_for() {
    let world = World::new().await;
    let mut young = pool(&json!({"expireAfter": "2h"}));
    young["disruption"]["budgets"] = json!([{"nodes": "10%"}]);
    world.pool("default", &young);
    one_per_node(&world, "web", 20, &json!({}));
    let disruption = DisruptionSettings { expiry_lead: 45 * MINUTE, ..DisruptionSettings::default() };
    let process = world.start_deciding(Settings { disruption, ..Settings::default() });
    until_running(&world, "web", 20, 5 * MINUTE).await;
    let old = world.claim_names();
    let left = || world.claims().iter().filter(|claim| old.contains(&claim.name_any())).count();
    every(5 * SECOND, 65 * MINUTE, || assert_eq!(left(), 20, "their time is not nearly up")).await;
    every(5 * SECOND, 45 * MINUTE, || {
        assert!(running(&world, "web") >= 18, "{} of 20 run", running(&world, "web"));
    })
    .await;
    assert_eq!(left(), 0, "all were replaced in time");
    let disrupted = &process.metrics.nodeclaims.disrupted_total;
    assert_eq!(disrupted.value(["expired", "default", "spot", "", "graceful"]), 0);
    assert!(disrupted.value(["drifted", "default", "spot", "", "graceful"]) >= 20);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn six_in_ten_nodes_that_turn_unhealthy_at_once_all_stay() {
    let world = World::with_pool(&pool(&json!({}))).await;
    one_per_node(&world, "web", 10, &json!({}));
    let process = world.start_gated(|gates| gates.node_repair = true);
    until_running(&world, "web", 10, 5 * MINUTE).await;
    let before = world.claim_names();
    for machine in world.account.machines().iter().take(6) {
        world.agent.behave(machine.instance_id.as_str(), Behaviour::NotReady);
    }
    every(10 * SECOND, 60 * MINUTE, || {
        let now = world.claims();
        let staying = now.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
        let staying: BTreeSet<String> = staying.map(ResourceExt::name_any).collect();
        assert!(before.is_subset(&staying), "a node was given up");
    })
    .await;
    assert!(!process.events.messages("NodeRepairBlocked").is_empty(), "an event says so");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn creations_side_by_side_do_not_overrun_a_limit() {
    let world = World::new().await;
    let mut limited = pool(&json!({}));
    limited["limits"] = json!({"nodes": "5"});
    world.pool("default", &limited);
    world.agent.behave_all(Behaviour::NeverJoins);
    let process = world.start();
    for batch in 0..4 {
        one_per_node(&world, &format!("web-{batch}"), 10, &json!({}));
        every(SECOND, MINUTE / 4, || {
            let claims = world.claims().len();
            assert!(claims <= 5, "{claims} claims under a limit of 5");
        })
        .await;
    }
    assert_eq!(world.claims().len(), 5, "and all of it is used");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_promised_to_a_claim_that_fails_are_planned_for_again_at_once() {
    let world = World::with_pool(&pool(&json!({}))).await;
    world.set("web", 3, "1");
    // The claim that all three are promised to is refused; other offerings have capacity.
    world.account.fail(Operation::Launch, Fault::Refused(Kind::NoCapacity));
    let process = world.start();
    let started = tokio::time::Instant::now();
    until_running(&world, "web", 3, 5 * MINUTE).await;
    assert!(started.elapsed() < 2 * MINUTE, "{:?}", started.elapsed());
    assert_eq!(process.disrupted(["insufficient_capacity", "default", "", "", "graceful"]), 1);
    world.one_machine_per_claim().await;
    process.stop().await;
}
