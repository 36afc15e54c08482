//! Drift of a claim whose pool, node class or cloud would make another machine today.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use karpenter_cloud::memory::{Fault, Operation};
use karpenter_cloud::{DriftReason, Kind};
use karpenter_testkit::objects::one_of;
use kube::ResourceExt;
use serde_json::json;

use crate::world::{MINUTE, Process, SECOND, World};

/// A running machine of a pool whose budget forbids every disruption.
async fn running() -> (World, Process) {
    let world = World::with_pool(&json!({"disruption": {"budgets": [{"nodes": "0"}]}})).await;
    world.pod("web", "1");
    let process = world.start();
    world.all_running().await;
    (world, process)
}

/// Status, reason and message of the condition of the only claim.
fn drifted(world: &World) -> Option<(String, String, String)> {
    let claim = world.claims().remove(0);
    let condition = claim.status?.conditions.into_iter().find(|condition| condition.kind == "Drifted")?;
    Some((condition.status.as_str().to_owned(), condition.reason, condition.message))
}

async fn becomes(world: &World, reason: Option<&str>, limit: Duration) {
    let expected = reason.map(|reason| ("True".to_owned(), reason.to_owned(), reason.to_owned()));
    world.until(&format!("drifted is {reason:?}"), limit, || drifted(world) == expected).await;
}

#[tokio::test(start_paused = true)]
async fn another_template_is_drift_at_once_and_the_old_one_is_not() {
    let (world, process) = running().await;
    becomes(&world, None, MINUTE).await;
    world.change_pool("default", &json!({"template": {"metadata": {"labels": {"team": "a"}}}})).await;
    becomes(&world, Some("NodePoolDrifted"), MINUTE).await;
    world.change_pool("default", &json!({"template": {"metadata": {"labels": null}}})).await;
    becomes(&world, None, MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_part_of_the_template_makes_machines_drift_and_they_are_replaced() {
    let taint = json!([{"key": "example.com/late", "effect": "NoSchedule"}]);
    for (part, template) in [
        ("labels", json!({"metadata": {"labels": {"team": "a"}}})),
        ("annotations", json!({"metadata": {"annotations": {"example.com/why": "a"}}})),
        ("taints", json!({"spec": {"taints": [{"key": "example.com/shy", "effect": "PreferNoSchedule"}]}})),
        ("startup taints", json!({"spec": {"startupTaints": taint}})),
        ("expiration", json!({"spec": {"expireAfter": "100h"}})),
        ("grace period", json!({"spec": {"terminationGracePeriod": "1h"}})),
    ] {
        let (world, process) = running().await;
        let old = world.claims()[0].name_any();
        world.change_pool("default", &json!({"template": template})).await;
        becomes(&world, Some("NodePoolDrifted"), MINUTE).await;
        world.change_pool("default", &json!({"disruption": {"budgets": [{"nodes": "100%"}]}})).await;
        let replaced = || {
            let claims = world.claims();
            claims.len() == 1 && claims[0].name_any() != old
        };
        let started = tokio::time::Instant::now();
        while !replaced() {
            assert!(started.elapsed() < 10 * MINUTE, "no other machine by its {part}");
            if part == "startup taints" {
                take_taints(&world).await;
            }
            tokio::time::sleep(SECOND).await;
        }
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn behaviour_of_the_pool_is_no_drift_and_its_requirements_are() {
    let (world, process) = running().await;
    world.change_pool("default", &json!({"weight": 7, "disruption": {"consolidateAfter": "5m"}})).await;
    tokio::time::sleep(11 * MINUTE).await;
    assert_eq!(drifted(&world), None);
    let elsewhere = json!([one_of("topology.kubernetes.io/zone", &["zone-z"])]);
    world.change_pool("default", &json!({"template": {"spec": {"requirements": elsewhere}}})).await;
    becomes(&world, Some("RequirementsDrifted"), MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_provider_says_is_written_within_five_minutes() {
    let (world, process) = running().await;
    let id = world.account.machines()[0].provider_id.clone();
    world.account.drift(&id, DriftReason::new("ImageDrift"));
    becomes(&world, Some("ImageDrift"), 6 * MINUTE).await;
    world.account.drift(&id, None);
    becomes(&world, None, 6 * MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_tell_changes_nothing() {
    let (world, process) = running().await;
    let id = world.account.machines()[0].provider_id.clone();
    world.account.drift(&id, DriftReason::new("ImageDrift"));
    becomes(&world, Some("ImageDrift"), 6 * MINUTE).await;
    world.account.drift(&id, None);
    for _ in 0..30 {
        world.account.fail(Operation::Drift, Fault::Refused(Kind::Throttled));
    }
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(drifted(&world).map(|drifted| drifted.1).as_deref(), Some("ImageDrift"));
    becomes(&world, None, 40 * MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn types_that_cannot_be_listed_are_not_gone() {
    let (world, process) = running().await;
    for _ in 0..1000 {
        world.account.fail(Operation::InstanceTypes, Fault::Refused(Kind::Transient));
    }
    // Older than the age from which the type is looked for.
    tokio::time::sleep(75 * MINUTE).await;
    assert_eq!(drifted(&world), None);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_node_class_is_looked_at_without_waiting() {
    let (world, process) = running().await;
    let id = world.account.machines()[0].provider_id.clone();
    // Between two looks by the clock.
    tokio::time::sleep(5 * SECOND).await;
    world.account.drift(&id, DriftReason::new("NodeClassDrift"));
    world.change_class(&json!({"spec": {"image": "other"}})).await;
    becomes(&world, Some("NodeClassDrift"), 10 * SECOND).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_neither_loses_nor_invents_drift() {
    let (world, process) = running().await;
    world.change_pool("default", &json!({"template": {"metadata": {"labels": {"team": "a"}}}})).await;
    becomes(&world, Some("NodePoolDrifted"), MINUTE).await;
    let since = transition(&world);
    process.kill();
    let process = world.start();
    tokio::time::sleep(6 * MINUTE).await;
    assert_eq!(drifted(&world).map(|drifted| drifted.1).as_deref(), Some("NodePoolDrifted"));
    assert_eq!(transition(&world), since);
    process.stop().await;
}

/// Removes the startup taint from every registered node, as its component does once it has started.
async fn take_taints(world: &World) {
    let started = |node: &Node, taints: &mut Vec<Taint>| {
        if node.labels().contains_key("karpenter.sh/registered") {
            taints.retain(|taint| taint.key != "example.com/late");
        }
    };
    world.change_taints(started).await;
}

fn transition(world: &World) -> Option<jiff::Timestamp> {
    let conditions = world.claims().remove(0).status?.conditions;
    let condition = conditions.into_iter().find(|condition| condition.kind == "Drifted")?;
    Some(condition.last_transition_time.0)
}
