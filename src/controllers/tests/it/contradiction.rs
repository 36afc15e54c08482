//! A scheduler that does not do what was planned.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn nodes_the_scheduler_refuses_to_use_are_not_bought_for_ever() {
    let world = World::new().await;
    world.pool("default", &json!({}));
    // Nobody plays this scheduler: the pod is never bound.
    world.pod_with("web", "1", &json!({"schedulerName": "refuses"}));
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let status = json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]}});
    pods.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let process = world.start();
    let bought = || process.metrics.nodeclaims.created_total.value(["provisioned", "default", "false"]);
    world
        .until("the pod is held and its machine gone", Duration::from_mins(15), || async {
            !process.events.messages("PromisedNodeNotUsed").is_empty() && world.account.machines().is_empty()
        })
        .await;
    let by_then = bought();
    assert!((1..=3).contains(&by_then), "{by_then} machines were bought");
    assert!((process.metrics.scheduler.held_pods_count.value([]) - 1.0).abs() < f64::EPSILON);
    tokio::time::sleep(Duration::from_hours(3)).await;
    let in_three_hours = bought() - by_then;
    assert!((1..=12).contains(&in_three_hours), "{in_three_hours} machines were bought in three hours");
    // The scheduler comes to its senses.
    world.delete_pod("web").await;
    world.pod("api", "2");
    world.all_running().await;
    process.stop().await;
}
