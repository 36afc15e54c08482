//! No pod waits for the next round when what was missing arrives.

use std::time::Duration;

use karpenter_model::Settings;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::world::{MINUTE, SECOND, World};

/// A batch is one second, the rest is watches and writes.
const SOON: Duration = Duration::from_secs(3);

async fn claimed_soon(world: &World) {
    let since = Instant::now();
    world.until("a claim is there", SOON, || !world.claims().is_empty()).await;
    assert!(since.elapsed() <= SOON, "{:?}", since.elapsed());
}

fn late_class() -> serde_json::Value {
    json!({"template": {"spec": {"nodeClassRef": {"name": "late"}}}})
}

#[tokio::test(start_paused = true)]
async fn pods_are_planned_for_as_soon_as_the_class_of_their_pool_is_ready() {
    let world = World::new().await;
    world.pool("default", &late_class());
    world.pod("web", "1");
    let process = world.start();
    // Just after one of the rounds, which are ten seconds apart.
    sleep(21 * SECOND).await;
    assert!(world.claims().is_empty());
    world.load(&json!({
        "apiVersion": "karpenter.memory/v1", "kind": "MemoryNodeClass", "metadata": {"name": "late"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]},
    }));
    claimed_soon(&world).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_planned_for_as_soon_as_a_pool_is_there() {
    let world = World::new().await;
    world.pod("web", "1");
    let process = world.start();
    sleep(21 * SECOND).await;
    world.pool("default", &json!({}));
    claimed_soon(&world).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_finds_waiting_pods_plans_for_them_at_once() {
    let world = World::with_pool(&json!({})).await;
    let first = world.start();
    sleep(5 * SECOND).await;
    first.stop().await;
    world.pod("web", "1");
    sleep(5 * SECOND).await;
    let second = world.start();
    claimed_soon(&world).await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_watches_while_it_waits_tells_nothing_and_acts_at_once_when_it_leads() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    let process = world.start_waiting(MINUTE);
    sleep(59 * SECOND).await;
    assert!(world.claims().is_empty());
    assert!(!process.metrics.render().contains("karpenter_pods_state{"));
    sleep(2 * SECOND).await;
    claimed_soon(&world).await;
    assert!(process.metrics.render().contains("karpenter_pods_state{"));
    world.all_running().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_backlog_too_large_for_one_pass_is_planned_in_slices_that_follow_at_once() {
    let world = World::with_pool(&json!({})).await;
    let alone = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}},
    ]}}});
    for number in 0..5 {
        world.pod_with(&format!("web-{number}"), "1", &alone);
    }
    let process = world.start_deciding(Settings { pods_per_pass: 2, ..Settings::default() });
    // Three slices, each after the quiet time of a batch; the next round would be later.
    let soon = 8 * SECOND;
    world.until("every pod has a claim", soon, || world.claims().len() == 5).await;
    process.stop().await;
}
