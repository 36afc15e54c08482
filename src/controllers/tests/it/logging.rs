//! Log, at level `info`, of a controller that does its work or cannot.

use std::sync::Arc;

use karpenter_kube_harness::leader::{self, Candidate};
use karpenter_model::Clock;
use karpenter_telemetry::logging::{Level, MemoryLog};
use karpenter_telemetry::metrics::Metrics;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{MINUTE, World};

fn class_ready(status: &str) -> serde_json::Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": status, "reason": "Told", "message": "so"}]}})
}

#[tokio::test(start_paused = true)]
async fn pools_that_become_ready_and_stop_being_so_and_what_waits_for_them() {
    let (log, _guard) = MemoryLog::of_this_thread(Level::Info);
    let world = World::new().await;
    world.change_class(&class_ready("False")).await;
    world.pool("default", &json!({}));
    world.pod("web", "1");
    let process = world.start();
    let said = |text: &str, times: usize| log.lines(text).len() == times;
    let why = || said("could not schedule pod(s)", 1);
    world.until("it is known why nothing happens", MINUTE, why).await;
    let known = log.lines("the cluster is known");
    assert!(known.len() == 1 && known[0].contains("nodepools=1 nodepools-ready=0"), "{known:?}");
    let not_ready = log.lines("nodepool is not ready");
    assert!(not_ready[0].contains("nodepool=default because=\"NodeClassReady: "), "{not_ready:?}");
    tokio::time::sleep(3 * MINUTE).await;
    assert_eq!(log.lines("could not schedule").len(), 1, "the same is not said with every pass");
    world.change_class(&class_ready("True")).await;
    world.all_running().await;
    assert_eq!(log.lines("nodepool is ready").len(), 1);
    let launched = log.lines("computed new nodeclaim(s) to fit pod(s)");
    assert_eq!(launched.len(), 1, "{:?}", log.lines(""));
    assert!(launched[0].contains("pods=1 nodeclaims=1"), "{launched:?}");
    world.change_class(&class_ready("False")).await;
    world.until("the pool is said to have stopped", MINUTE, || said("nodepool is not ready", 2)).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_to_lead_and_who_leads() {
    let (log, _guard) = MemoryLog::of_this_thread(Level::Info);
    let world = World::new().await;
    let clock: Arc<dyn Clock> = world.clock.clone();
    let candidate = Candidate::new("default", "karpenter-leader-election", "me");
    let lead = |_| async {};
    let metrics = Arc::new(Metrics::new());
    leader::run(world.client.clone(), candidate, clock, metrics, CancellationToken::new(), lead)
        .await
        .unwrap();
    for text in ["waiting to lead", "leading", "released lease"] {
        let said = log.lines(text);
        assert!(!said.is_empty() && said[0].contains("karpenter-leader-election"), "{text}: {said:?}");
    }
}
