//! Daemons take their part of every node, before the first of their pods exists.

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_testkit::objects::{apart, daemon_set, one_of};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, World, is_running};

/// A daemon in the namespace of the other pods whose container has these resources.
fn daemon(world: &World, resources: &Value) {
    let containers = json!([{"name": "c", "image": "i", "resources": resources}]);
    world.load(&daemon_set("agent", &json!({"containers": containers})));
}

fn type_of(node: &Node) -> &str {
    &node.labels()["node.kubernetes.io/instance-type"]
}

#[tokio::test(start_paused = true)]
async fn what_a_limit_range_gives_a_daemon_has_room_on_the_node() {
    // Requests of a container that has none are its limits, those of the range included.
    for (range, expected) in [
        (json!(null), "small"),
        (json!({"type": "Container", "default": {"cpu": "1"}}), "medium"),
        (json!({"type": "Container", "defaultRequest": {"cpu": "1"}}), "medium"),
        (json!({"type": "Container", "default": {"cpu": "8"}, "defaultRequest": {"cpu": "500m"}}), "small"),
        (json!({"type": "Container", "defaultRequest": {"cpu": "3500m"}}), "large"),
    ] {
        let world = World::with_pool(&json!({"disruption": {"consolidateAfter": "Never"}})).await;
        daemon(&world, &json!({}));
        if !range.is_null() {
            world.load(&json!({
                "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r", "namespace": "default"},
                "spec": {"limits": [range]},
            }));
        }
        world.pod("web", "1");
        let process = world.start();
        world.until("pod and daemon run", 5 * MINUTE, || world.runs(2)).await;
        let nodes = world.nodes();
        assert_eq!(nodes.iter().map(type_of).collect::<Vec<_>>(), [expected], "{range}");
        assert!(process.events.messages("FailedScheduling").is_empty(), "{range}");
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_pods_that_fill_what_daemons_leave_get_a_hundred_nodes() {
    let world = World::new().await;
    let small = [one_of("node.kubernetes.io/instance-type", &["small"])];
    world.pool("default", &json!({"template": {"spec": {"requirements": small}}}));
    daemon(&world, &json!({"requests": {"cpu": "120m"}}));
    // To the last millicore of 2 CPU, of which the node keeps 80m.
    world.set_with("web", 100, "1800m", &apart("web"));
    let process = world.start();
    let of_web = |pod: &Pod| pod.labels().get("app").is_some_and(|app| app == "web");
    world
        .until("a hundred pods run", 10 * MINUTE, || {
            world.pods().iter().filter(|pod| of_web(pod) && is_running(pod)).count() == 100
        })
        .await;
    assert_eq!(process.created(["provisioned", "default", "false"]), 100);
    world.until("every daemon runs", 5 * MINUTE, || world.pods().iter().all(is_running)).await;
    assert_eq!((world.pods().len(), world.nodes().len()), (200, 100));
    process.stop().await;
}
