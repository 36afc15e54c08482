//! Up from a pending pod, and down to nothing.

use k8s_openapi::api::core::v1::Pod;
use karpenter_telemetry::metrics::Watched;
use serde_json::json;

use crate::world::{MINUTE, World, condition};

#[tokio::test(start_paused = true)]
async fn a_pending_pod_gets_a_machine_and_runs() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    let process = world.start();
    world.all_running().await;
    let claims = world.claims();
    assert_eq!(claims.len(), 1);
    world.until("the claim is ready", MINUTE, || condition(&world.claims()[0], "Ready") == "True").await;
    let nodes = world.nodes();
    assert_eq!(nodes.len(), 1);
    let labels = nodes[0].metadata.labels.clone().unwrap();
    assert_eq!(labels["karpenter.sh/registered"], "true");
    assert_eq!(labels["karpenter.sh/initialized"], "true");
    assert_eq!(labels["karpenter.sh/nodepool"], "default");
    assert!(nodes[0].spec.as_ref().unwrap().taints.iter().flatten().next().is_none());
    assert_eq!(process.events.messages("Nominated").len(), 1);
    assert_eq!(process.created(["provisioned", "default", "false"]), 1);
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_machine_goes_and_leaves_nothing_behind() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    let process = world.start();
    world.all_running().await;
    world.delete::<Pod>("web").await;
    world.all_gone().await;
    assert_eq!(process.metrics.nodeclaims.terminated_total.value(["default", "spot", "zone-a"]), 1);
    assert_eq!(process.events.messages("DisruptionTerminating").len(), 2);
    let finalized = "Finalized karpenter.sh/termination";
    assert_eq!(process.events.messages("Finalized"), [finalized; 2], "Node and claim");
    let launched = "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched";
    assert_eq!(process.events.messages("Launched"), [launched]);
    let transitions = process.metrics.statuses(|_| Vec::new()).of(Watched::NodeClaim);
    let labels = ["default", "default", "Initialized", "True", "Initialized"];
    assert_eq!(transitions.transitions(&labels), 1);
    let pods = &process.metrics.pods;
    assert_eq!(pods.bound_duration_seconds.count([]), 1);
    assert_eq!(pods.provisioning_startup_duration_seconds.count([]), 1);
    assert!((process.metrics.cluster_state.synced.value([]) - 1.0).abs() < f64::EPSILON);
    process.stop().await;
}
