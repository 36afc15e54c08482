//! Conditions that the agents of EKS set on a node, and the time they are tolerated.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_model::settings::FeatureGates;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::workload;
use crate::world::World;

const MINUTE: Duration = Duration::from_mins(1);

/// Says on the Node what the node monitoring agent would say.
async fn report(world: &World, condition: &str, status: &str, reason: &str) {
    let now = world.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({
        "type": condition, "status": status, "reason": reason, "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let nodes: Api<Node> = Api::all(world.client.clone());
    let name = world.all::<Node>()[0].name_any();
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    nodes.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_condition_of_a_broken_node_replaces_it_once_it_was_tolerated_long_enough() {
    for (condition, status, reason, minutes) in [
        ("Ready", "False", "", 30),
        ("Ready", "Unknown", "", 30),
        ("AcceleratedHardwareReady", "False", "NvidiaXID48Error", 10),
        ("AcceleratedHardwareReady", "False", "NvidiaXID79Error", 10),
        ("AcceleratedHardwareReady", "False", "NvidiaXID13Error", 30),
        ("StorageReady", "False", "Test", 30),
        ("NetworkingReady", "False", "Test", 30),
        ("KernelReady", "False", "Test", 30),
        ("ContainerRuntimeReady", "False", "Test", 30),
    ] {
        let what = format!("{condition} {status} {reason}");
        let world = World::gated(FeatureGates { node_repair: true, ..FeatureGates::default() }).await;
        world.class("default", &json!({}));
        workload::run(&world, &["on-demand"]).await;
        let broken = world.account.live_instances().remove(0).id.to_string();
        match (condition, status) {
            ("Ready", "False") => world.agent.behave(&broken, Behaviour::NotReady),
            ("Ready", _) => world.agent.behave(&broken, Behaviour::Silent),
            _ => report(&world, condition, status, reason).await,
        }
        let disrupted = || world.disrupted(["unhealthy", "web", "on-demand", "", "graceful"]);
        tokio::time::sleep((minutes - 1) * MINUTE).await;
        assert_eq!(disrupted(), 0, "{what}: it may recover");
        world.until("it is given up once another one is there", async || disrupted() == 1).await;
        world
            .until("another instance runs the pod", async || {
                let live = world.account.live_instances();
                workload::runs(&world) && live.len() == 1 && live[0].id.as_str() != broken
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_unknown_or_of_no_agent_is_no_reason() {
    let world = World::gated(FeatureGates { node_repair: true, ..FeatureGates::default() }).await;
    world.class("default", &json!({}));
    workload::run(&world, &["on-demand"]).await;
    report(&world, "StorageReady", "Unknown", "Test").await;
    report(&world, "FrequentKubeletRestart", "False", "Test").await;
    tokio::time::sleep(60 * MINUTE).await;
    assert_eq!(workload::claims(&world).len(), 1);
    assert!(workload::claims(&world)[0].metadata.deletion_timestamp.is_none());
}
