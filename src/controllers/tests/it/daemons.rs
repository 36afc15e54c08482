//! Daemons take their part of every node, before the first of their pods exists.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::disruption::set_of;
use crate::world::{World, is_running};

const MINUTE: Duration = Duration::from_mins(1);

/// A daemon in the namespace of the other pods whose container has these resources.
fn daemon(world: &World, resources: &Value) {
    world.load(&json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
            },
        },
    }));
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
        let world = World::new().await;
        world.pool("default", &json!({"disruption": {"consolidateAfter": "Never"}}));
        daemon(&world, &json!({}));
        if !range.is_null() {
            world.load(&json!({
                "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r", "namespace": "default"},
                "spec": {"limits": [range]},
            }));
        }
        world.pod("web", "1");
        let process = world.start();
        world
            .until("pod and daemon run", 5 * MINUTE, || async {
                let pods = world.pods();
                pods.len() == 2 && pods.iter().all(is_running)
            })
            .await;
        let nodes = world.nodes();
        assert_eq!(nodes.iter().map(type_of).collect::<Vec<_>>(), [expected], "{range}");
        assert!(process.events.messages("FailedScheduling").is_empty(), "{range}");
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_pods_that_fill_what_daemons_leave_get_a_hundred_nodes() {
    let world = World::new().await;
    let small = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small"]}]);
    world.pool("default", &json!({"template": {"spec": {"requirements": small}}}));
    daemon(&world, &json!({"requests": {"cpu": "120m"}}));
    // To the last millicore of 2 CPU, of which the node keeps 80m.
    let spec = json!({
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1800m"}}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}},
        ]}},
    });
    set_of(&world, "web", 100, &spec);
    let process = world.start();
    let of_web = |pod: &Pod| pod.labels().get("app").is_some_and(|app| app == "web");
    world
        .until("a hundred pods run", 10 * MINUTE, || async {
            world.pods().iter().filter(|pod| of_web(pod) && is_running(pod)).count() == 100
        })
        .await;
    assert_eq!(process.metrics.nodeclaims.created_total.value(["provisioned", "default", "false"]), 100);
    world.until("every daemon runs", 5 * MINUTE, || async { world.pods().iter().all(is_running) }).await;
    assert_eq!((world.pods().len(), world.nodes().len()), (200, 100));
    process.stop().await;
}
