//! A plan that placed no pod stands as long as nothing has changed, and what has changed is planned for at once.

use std::time::Duration;

use karpenter_testkit::objects::daemon_set;
use serde_json::json;

use crate::world::{MINUTE, Process, World};

/// Pods that wait are looked at every ten seconds, and what they wait for is collected for one more.
const PROMPTLY: Duration = Duration::from_secs(12);

fn plans(process: &Process) -> u64 {
    process.metrics.scheduler.scheduling_duration_seconds.count(["provisioner"])
}

async fn waiting(world: &World) -> Process {
    world.pool("default", &json!({"disruption": {"consolidateAfter": "Never"}}));
    world.pod_with("web", "1", &json!({"nodeSelector": {"team": "a"}}));
    let process = world.start();
    tokio::time::sleep(5 * MINUTE).await;
    process
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_is_not_planned_for_again_and_again() {
    let world = World::new().await;
    let process = waiting(&world).await;
    let (before, said) = (plans(&process), process.events.messages("FailedScheduling").len());
    assert!((1..=3).contains(&before), "{before} plans in five minutes");
    tokio::time::sleep(60 * MINUTE).await;
    assert_eq!(plans(&process), before, "nothing has changed for an hour");
    assert!(process.events.messages("FailedScheduling").len() > said, "events are repeated");
    let scheduler = &process.metrics.scheduler;
    assert_eq!(scheduler.unschedulable_pods_count.value(["provisioner"]).to_string(), "1");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whatever_may_help_a_pod_that_waits_is_planned_for_at_once() {
    let world = World::new().await;
    let process = waiting(&world).await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"},
        "status": {"allocatable": {"cpu": "4", "pods": "10"}, "capacity": {"cpu": "4", "pods": "10"}},
    });
    let containers = json!([{"name": "c", "image": "i"}]);
    let agent = json!({"nodeSelector": {"team": "none"}, "containers": containers});
    for change in [daemon_set("agent", &agent), node] {
        let before = plans(&process);
        world.load(&change);
        tokio::time::sleep(PROMPTLY).await;
        assert!(plans(&process) > before, "{change}");
        tokio::time::sleep(MINUTE).await;
    }
    let before = plans(&process);
    world.pod_with("another", "1", &json!({"nodeSelector": {"team": "b"}}));
    tokio::time::sleep(PROMPTLY).await;
    assert!(plans(&process) > before, "another pod");
    world.change_pool("default", &json!({"template": {"metadata": {"labels": {"team": "a"}}}})).await;
    let launched = || !world.claims().is_empty();
    world.until("there is a claim for the pod", PROMPTLY, launched).await;
    process.stop().await;
}
