//! Steps that wait for what a provider learns about a machine after its launch.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_cloud::{Error, HookState, Kind, RegistrationHook};
use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_testkit::objects::{apart, one_of};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, SECOND, World, condition, is_running};

fn hook(name: &'static str, state: HookState) -> RegistrationHook {
    RegistrationHook { name, state, labels: [("cloud/partition".into(), "3".into())].into() }
}

fn failed() -> HookState {
    HookState::Failed(Error::new(Kind::Transient, "read partition of", "web", "no answer"))
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_pods_only_when_every_hook_is_ready() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    let pending = HookState::Pending(Some(5 * SECOND));
    world.account.answer_hooks(vec![
        hook("partition", pending),
        hook("rack", failed()),
        hook("zone", HookState::Ready),
    ]);
    let process = world.start();
    world
        .until("the hooks are waited for", 5 * MINUTE, || {
            let claims = world.claims();
            let conditions =
                claims.iter().flat_map(|claim| &claim.status).flat_map(|status| &status.conditions);
            conditions
                .clone()
                .any(|one| one.reason == "RegistrationHookPending" && one.message == "partition, rack")
        })
        .await;
    tokio::time::sleep(2 * MINUTE).await;
    assert!(!world.pods().iter().any(is_running), "the taint is still there");
    world.account.answer_hooks(vec![hook("partition", HookState::Ready)]);
    world.all_running().await;
    let (claim, node) = (world.claims().remove(0), world.nodes().remove(0));
    assert_eq!(condition(&claim, "Registered"), "True");
    assert_eq!(claim.labels().get("cloud/partition").map(String::as_str), Some("3"));
    assert_eq!(node.labels().get("cloud/partition").map(String::as_str), Some("3"));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_although_its_pool_cannot_be_told() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    let process = world.start();
    world.until("a claim is created", 5 * MINUTE, || !world.claims().is_empty()).await;
    world.forbidden.add("nodepools/status");
    world
        .until("it is registered", 5 * MINUTE, || condition(&world.claims()[0], "Registered") == "True")
        .await;
    process.stop().await;
}

/// Two small pods that came first and two large ones, for which two machines are enough: each with one of both.
async fn machines_for_small_and_large_pods(named: bool) -> usize {
    let world = World::new().await;
    let types = json!([one_of("node.kubernetes.io/instance-type", &["small"])]);
    world.pool("default", &json!({"template": {"spec": {"requirements": types}}}));
    for (name, cpu) in [("a", "500m"), ("b", "500m"), ("c", "1100m"), ("d", "1100m")] {
        world.pod(name, cpu);
    }
    if !named {
        world.forbidden.add("pods/status");
    }
    let process = world.start();
    let mut machines = std::collections::BTreeSet::new();
    for _ in 0..120 {
        tokio::time::sleep(5 * SECOND).await;
        machines.extend(world.claims().iter().map(ResourceExt::name_any));
    }
    world.all_running().await;
    process.stop().await;
    machines.len()
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_is_told_who_a_machine_was_launched_for() {
    assert_eq!(machines_for_small_and_large_pods(true).await, 2);
    assert!(machines_for_small_and_large_pods(false).await > 2, "small pods take the room of the large ones");
}

/// A world with one pod, and a pool of machines with this template.
async fn one_pod(template: &Value) -> World {
    let world = World::with_pool(&json!({"template": template})).await;
    world.pod("web", "1");
    world
}

fn is_named(world: &World) -> bool {
    let name = |pod: &Pod| pod.status.as_ref()?.nominated_node_name.clone();
    world.pods().iter().any(|pod| name(pod).is_some())
}

fn is_waiting(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none())
}

/// Takes the name away whenever there is one, for 20 s, as the scheduler does; returns how many times.
async fn take_names_away(world: &World) -> usize {
    let mut taken_away = 0;
    for _ in 0..2_000 {
        if is_named(world) {
            world.patch_status::<Pod>("web", json!({"nominatedNodeName": null})).await;
            taken_away += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    taken_away
}

#[tokio::test(start_paused = true)]
async fn a_name_that_was_taken_away_comes_back_when_the_node_is_ready_and_not_before() {
    let world = one_pod(&json!({})).await;
    world.agent.behave_all(Behaviour::NotReady);
    let process = world.start();
    let is_registered = || world.claims().iter().any(|one| condition(one, "Registered") == "True");
    world.until("the node has registered", 5 * MINUTE, is_registered).await;
    assert!(take_names_away(&world).await <= 1, "nothing but the name of the registration");
    world.agent.behave_all(Behaviour::Healthy);
    while !is_named(&world) {
        assert!(world.pods().iter().all(is_waiting), "the scheduler could use the node before it was named");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.all_running().await;
    process.stop().await;
}

/// A scheduler that tries a pod again and again, as the real one does when it takes the names of several pods away in turn.
#[tokio::test(start_paused = true)]
async fn a_ready_node_is_named_again_ever_more_slowly_while_its_name_is_taken_away() {
    let taint = json!([{"key": "agent/not-ready", "effect": "NoSchedule"}]);
    let world = one_pod(&json!({"spec": {"startupTaints": taint}})).await;
    let process = world.start();
    let is_ready = |node: &Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
    };
    world.until("the node is ready", 5 * MINUTE, || world.nodes().iter().any(is_ready)).await;
    let taken_away = take_names_away(&world).await;
    // Times: at readiness and at the loss of the not-ready taint, each four times at once, and 1, 3, 7 and 15 s later; the
    // scheduler of the world may have taken it away before.
    assert!((5..=12).contains(&taken_away), "{taken_away} times in 20 s");
    process.stop().await;
}

/// Two nodes of one plan, the second of which is ready this much `later`, with a process that has nodes wait `longest` for each
/// other. Returns whether a pod runs before both are ready.
async fn a_pod_runs_before_both_are_ready(longest: Duration, later: Duration) -> bool {
    let world = World::with_pool(&json!({})).await;
    world.agent.behave_all(Behaviour::NotReady);
    world.set_with("web", 2, "1", &apart("web"));
    let process = world.start_ready_together(longest);
    let both = || world.claims().iter().filter(|claim| condition(claim, "Registered") == "True").count() == 2;
    world.until("both nodes have registered", 5 * MINUTE, both).await;
    world.agent.behave(world.account.machines()[0].instance_id.as_str(), Behaviour::Healthy);
    tokio::time::sleep(later).await;
    let runs = world.pods().iter().any(is_running);
    world.agent.behave_all(Behaviour::Healthy);
    world.all_running().await;
    process.stop().await;
    runs
}

#[tokio::test(start_paused = true)]
async fn nodes_of_one_plan_wait_for_each_other_as_long_as_the_setting_has_it() {
    for (longest, later, runs) in
        [(Duration::ZERO, 30 * SECOND, true), (MINUTE, 30 * SECOND, false), (20 * SECOND, MINUTE, true)]
    {
        assert_eq!(a_pod_runs_before_both_are_ready(longest, later).await, runs, "{longest:?}, {later:?}");
    }
}
