//! Launches that go wrong: no capacity, lost answers, machines that never join.

use std::time::Duration;

use karpenter_testkit::objects::one_of;
use tokio::time::Instant;

use karpenter_cloud::Kind;
use karpenter_cloud::memory::{Fault, Operation};
use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_model::{CapacityType, Settings};
use kube::ResourceExt;
use serde_json::json;

use crate::world::{MINUTE, SECOND, World, condition};

#[tokio::test(start_paused = true)]
async fn without_capacity_for_one_type_the_claim_goes_and_another_type_is_bought() {
    let world = World::new().await;
    let only_small = json!({"template": {"spec": {"requirements": [
        one_of("node.kubernetes.io/instance-type", &["small"]),
    ]}}, "weight": 10});
    world.pool("first", &only_small);
    world.pool("second", &json!({}));
    world.exhaust("small", &[CapacityType::Spot, CapacityType::OnDemand]);
    world.pod("web", "500m");
    world.pod("app", "500m");
    let process = world.start();
    world.all_running().await;
    let events: Vec<_> = process
        .events
        .events()
        .into_iter()
        .filter(|one| one.reason.name() == "InsufficientCapacityError")
        .collect();
    let about: Vec<_> =
        events.iter().map(|one| (one.object.kind.as_str(), one.object.name.as_str())).collect();
    let claim = events[0].object.name.as_str();
    assert_eq!(about, [("NodeClaim", claim), ("Pod", "app"), ("Pod", "web")]);
    let told = format!("NodeClaim {claim} nominated for this pod failed to launch: ");
    assert!(events[1..].iter().all(|one| one.message.starts_with(&told)), "{events:?}");
    assert_eq!(process.disrupted(["insufficient_capacity", "first", "", "", "graceful"]), 1);
    world.until("the first claim is gone", MINUTE, || world.claims().len() == 1).await;
    assert_ne!(world.account.machines()[0].instance_type.as_str(), "small");
    world.one_machine_per_claim().await;
    process.stop().await;
}

/// Boot and join of the machine take most of the time; the first second is that of the batch.
#[tokio::test(start_paused = true)]
async fn the_way_of_a_launch_is_told_step_by_step_in_milliseconds() {
    let mut world = World::new().await;
    world.launches_take = Duration::from_millis(850);
    world.pool("default", &json!({}));
    world.pod("web", "1");
    let process = world.start();
    world.all_running().await;
    let claim = world.claims().remove(0).name_any();
    let answer = process.explain(&format!("nodeclaim/{claim}"));
    let steps = [
        "batch opened",
        "batch closed",
        "planned",
        "nodeclaim created",
        "launch requested",
        "launch answered",
        "launched",
        "registered",
        "initialized",
    ];
    let told: Vec<_> = answer.facts.iter().filter(|fact| steps.contains(&fact.name.as_str())).collect();
    assert_eq!(told.iter().map(|fact| fact.name.as_str()).collect::<Vec<_>>(), steps);
    assert!(told[1].value.starts_with("1000 ms later"), "{told:?}");
    assert!(told[5].value.starts_with("850 ms later"), "{told:?}");
    process.stop().await;
}

/// Pods that arrive for five seconds keep the batch open. Nodes that the first of them fill do not wait for the last.
#[tokio::test(start_paused = true)]
async fn full_nodes_are_launched_while_pods_still_arrive() {
    for early in [true, false] {
        let world = World::with_pool(&json!({})).await;
        let process = world.start_deciding(Settings { batch_early_launch: early, ..Settings::default() });
        tokio::time::sleep(5 * SECOND).await;
        let began = Instant::now();
        let mut first = None;
        for number in 0..100 {
            world.pod(&format!("web-{number:03}"), "1");
            tokio::time::sleep(Duration::from_millis(50)).await;
            if first.is_none() && !world.claims().is_empty() {
                first = Some(began.elapsed());
            }
        }
        world.all_running().await;
        let arrived = 5 * SECOND;
        assert_eq!(first.is_some_and(|first| first < arrived / 2), early, "the first node after {first:?}");
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_does_not_buy_a_second_machine() {
    let world = World::with_pool(&json!({})).await;
    world.account.fail(Operation::Launch, Fault::AnswerLost);
    world.account.fail(Operation::Launch, Fault::Refused(Kind::Throttled));
    world.account.fail(Operation::Launch, Fault::AnswerLost);
    world.pod("web", "1");
    let process = world.start();
    world.all_running().await;
    assert_eq!(world.claims().len(), 1);
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_keeps_failing_is_given_up_after_five_minutes() {
    let world = World::with_pool(&json!({})).await;
    for _ in 0..200 {
        world.account.fail(Operation::Launch, Fault::Refused(Kind::Transient));
    }
    world.pod("web", "1");
    let process = world.start();
    let given_up = || process.disrupted(["launch_timeout", "default", "", "", "graceful"]) > 0;
    world.until("the claim is given up", 330 * SECOND, given_up).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_joins_is_given_up_after_fifteen_minutes_and_replaced() {
    a_machine_is_given_up_after(15, Settings::default()).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_has_as_long_to_join_as_the_settings_say() {
    for minutes in [3, 40] {
        let registration_timeout = Duration::from_mins(minutes);
        a_machine_is_given_up_after(minutes, Settings { registration_timeout, ..Settings::default() }).await;
    }
}

async fn a_machine_is_given_up_after(minutes: u64, settings: Settings) {
    let world = World::with_pool(&json!({})).await;
    world.agent.behave_all(Behaviour::NeverJoins);
    world.pod("web", "1");
    let process = world.start_deciding(settings);
    world
        .until("the claim is launched", MINUTE, || {
            world.claims().first().is_some_and(|claim| condition(claim, "Launched") == "True")
        })
        .await;
    let first = world.claims().remove(0).metadata.name.unwrap();
    let lives = || world.claims().iter().any(|claim| claim.metadata.name.as_ref() == Some(&first));
    world.agent.behave_all(Behaviour::Healthy);
    world.agent.behave(world.account.machines()[0].instance_id.as_str(), Behaviour::NeverJoins);
    tokio::time::sleep(Duration::from_mins(minutes - 1)).await;
    assert!(lives(), "{minutes} minutes are not over");
    world.until("the first claim is gone", 3 * MINUTE, || !lives()).await;
    world.all_running().await;
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_foreign_node_class_is_not_touched() {
    let world = World::new().await;
    world.load(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "foreign"},
        "spec": {
            "nodeClassRef": {"group": "example.com", "kind": "OtherClass", "name": "default"},
            "requirements": [],
        },
    }));
    let process = world.start();
    tokio::time::sleep(20 * MINUTE).await;
    let claim = world.claims().remove(0);
    assert_eq!(claim.metadata.finalizers, None);
    assert!(claim.status.is_none());
    assert!(world.account.machines().is_empty());
    process.stop().await;
}
