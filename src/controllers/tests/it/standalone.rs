//! Claims that a person or a tool creates: there is no pool, and everything else is as for the claims of one.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_testkit::objects::{merge, one_of};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, Process, SECOND, World, condition};

/// A claim called `alone`, changed by `change`.
fn claim(world: &World, change: &Value) {
    let mut object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "alone"},
        "spec": {
            "nodeClassRef": {"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"},
            "requirements": [one_of("karpenter.sh/capacity-type", &["on-demand"])],
        },
    });
    merge(&mut object, change);
    world.load(&object);
}

async fn is_ready(world: &World) {
    let ready = || world.claims().iter().any(|claim| condition(claim, "Ready") == "True");
    world.until("the claim is ready", 5 * MINUTE, ready).await;
}

/// A world with one claim that is ready, and no pool.
async fn ready(change: &Value) -> (World, Process) {
    let world = World::new().await;
    claim(&world, change);
    let process = world.start();
    is_ready(&world).await;
    assert_eq!((world.nodes().len(), world.account.machines().len()), (1, 1));
    (world, process)
}

#[tokio::test(start_paused = true)]
async fn requirements_and_resources_decide_the_machine() {
    let resources = |cpu: &str| json!({"spec": {"resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}});
    let only = |key: &str, value: &str| json!({"spec": {"requirements": [one_of(key, &[value])]}});
    for (change, key, expected) in [
        (json!({}), "node.kubernetes.io/instance-type", "small"),
        (json!({}), "karpenter.sh/capacity-type", "on-demand"),
        (resources("3"), "node.kubernetes.io/instance-type", "medium"),
        (resources("5"), "node.kubernetes.io/instance-type", "large"),
        (only("node.kubernetes.io/instance-type", "medium"), "node.kubernetes.io/instance-type", "medium"),
        (only("topology.kubernetes.io/zone", "zone-b"), "topology.kubernetes.io/zone", "zone-b"),
    ] {
        let (world, process) = ready(&change).await;
        for labels in [world.nodes()[0].labels(), world.claims()[0].labels()] {
            assert_eq!(labels[key], expected, "{change}");
            assert!(!labels.contains_key("karpenter.sh/nodepool"), "{labels:?}");
        }
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_field_is_on_the_node_and_the_node_belongs_to_the_claim() {
    let world = World::new().await;
    claim(
        &world,
        &json!({
            "metadata": {"labels": {"team": "a"}, "annotations": {"example.com/why": "b"}},
            "spec": {
                "taints": [{"key": "example.com/custom", "value": "c", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "example.com/startup", "value": "d", "effect": "NoExecute"}],
                "requirements": [
                    one_of("karpenter.sh/capacity-type", &["spot"]),
                ],
                "resources": {"requests": {"cpu": "1"}},
                "expireAfter": "40m",
                "terminationGracePeriod": "10m",
            },
        }),
    );
    let process = world.start();
    let registered = || world.claims().iter().any(|claim| condition(claim, "Registered") == "True");
    world.until("the claim is registered", 5 * MINUTE, registered).await;
    tokio::time::sleep(2 * MINUTE).await;
    let (node, alone) = (world.nodes().remove(0), world.claims().remove(0));
    assert_eq!(condition(&alone, "Initialized"), "Unknown", "its startup taint is there");
    for (key, value) in
        [("team", "a"), ("karpenter.sh/capacity-type", "spot"), ("karpenter.sh/registered", "true")]
    {
        assert_eq!(node.labels().get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(node.annotations()["example.com/why"], "b");
    assert_eq!(node.owner_references()[0].uid, alone.uid().unwrap());
    assert_eq!(node.owner_references()[0].block_owner_deletion, Some(true));
    let mut taints = node.spec.unwrap().taints.unwrap();
    taints.sort_by(|one, other| one.key.cmp(&other.key));
    let keys: Vec<&str> = taints.iter().map(|taint| taint.key.as_str()).collect();
    assert_eq!(keys, ["example.com/custom", "example.com/startup"]);

    // The workload that the taint waits for has started.
    let started = json!({"spec": {"taints": [taints[0]]}});
    world.patch::<Node>(node.metadata.name.as_deref().unwrap(), started).await;
    is_ready(&world).await;
    // It expires as claims of a pool do, and no controller makes up for it.
    world.until("the claim has expired", 40 * MINUTE, || world.claims().is_empty()).await;
    world.all_gone().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_stays_although_it_is_empty_and_a_pod_uses_it() {
    let (world, process) = ready(&json!({"spec": {"resources": {"requests": {"cpu": "1"}}}})).await;
    // Longer than collectors of what belongs to none, drift and consolidation would take.
    tokio::time::sleep(90 * MINUTE).await;
    assert_eq!((world.claims().len(), world.account.machines().len()), (1, 1));
    world.pod("web", "1");
    world.all_running().await;
    assert_eq!(world.pods()[0].spec.clone().unwrap().node_name, world.nodes()[0].metadata.name);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_way_out_leaves_nothing() {
    // A person deletes the claim; a person deletes the Node; the machine is terminated in the cloud.
    for way in ["claim", "node", "machine"] {
        let (world, process) = ready(&json!({})).await;
        match way {
            "claim" => world.delete::<NodeClaim>("alone").await,
            "node" => world.delete::<Node>(&world.nodes()[0].name_any()).await,
            _ => world.account.vanish(&world.account.machines()[0].provider_id.clone()),
        }
        world.all_gone().await;
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_become_a_node_is_deleted() {
    let world = World::new().await;
    world.agent.behave_all(Behaviour::NeverJoins);
    claim(&world, &json!({}));
    let process = world.start();
    world.until("there is a machine", MINUTE, || !world.account.machines().is_empty()).await;
    world.until("it is given up", 17 * MINUTE, || world.claims().is_empty()).await;
    world.all_gone().await;
    assert_eq!(process.disrupted(["registration_timeout", "", "on-demand", "", "graceful"]), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_one_is_repaired_by_the_share_of_the_cluster_where_repair_is_that_of_v1_14() {
    let world = World::new().await;
    claim(&world, &json!({}));
    let process = world.start_legacy_repair();
    is_ready(&world).await;
    let id = world.account.machines()[0].instance_id.to_string();
    world.agent.behave(&id, Behaviour::NotReady);
    tokio::time::sleep(29 * MINUTE).await;
    assert_eq!(world.claims().len(), 1, "it may recover");
    world.until("it is given up", 10 * MINUTE, || world.claims().is_empty()).await;
    process.stop().await;
}

/// A label that no type defines is what the claim requires; one that the cloud decides is what was launched.
#[tokio::test(start_paused = true)]
async fn a_single_value_of_a_key_of_its_own_is_a_label_of_the_node() {
    let (world, process) = ready(&json!({"spec": {"requirements": [
        one_of("example.com/shelf", &["e"]),
        one_of("example.com/either", &["f", "g"]),
        one_of("topology.kubernetes.io/zone", &["zone-b", "zone-a"]),
    ]}}))
    .await;
    let zone = world.account.machines()[0].zone.to_string();
    for labels in [world.nodes()[0].labels(), world.claims()[0].labels()] {
        assert_eq!(labels.get("example.com/shelf").map(String::as_str), Some("e"));
        assert_eq!(labels.get("example.com/either"), None, "it is not known which");
        assert_eq!(labels["topology.kubernetes.io/zone"], zone);
    }
    process.stop().await;
    world.pod_with("web", "1", &json!({"nodeSelector": {"example.com/shelf": "e"}}));
    world.all_running().await;
}

/// The reference counts such a claim for ever unless another controller cleans up, and plans nothing meanwhile
/// (<https://github.com/kubernetes-sigs/karpenter/pull/3190>).
#[tokio::test(start_paused = true)]
async fn a_claim_that_goes_before_its_node_registers_is_forgotten_within_twenty_seconds() {
    for lifetime in [Duration::ZERO, SECOND, 5 * SECOND] {
        let world = World::with_pool(&json!({})).await;
        let process = world.start();
        tokio::time::sleep(MINUTE).await;
        claim(&world, &json!({"metadata": {"labels": {"karpenter.sh/nodepool": "default"}}}));
        tokio::time::sleep(lifetime).await;
        world.delete::<NodeClaim>("alone").await;
        // With its finalizer it stays until its machine is gone; then the state has twenty seconds.
        world.until("the claim is gone", 5 * MINUTE, || world.claims().is_empty()).await;
        let state = &process.metrics.cluster_state;
        let forgotten = || state.node_count.value([]).abs() < f64::EPSILON;
        world.until(&format!("nothing is known after {lifetime:?}"), 20 * SECOND, forgotten).await;
        tokio::time::sleep(MINUTE).await;
        assert!(forgotten(), "it does not come back after {lifetime:?}");
        assert!(state.unsynced_time_seconds.value([]).abs() < f64::EPSILON);
        world.pod("web", "1");
        world.all_running().await;
        let counted = || state.node_count.value([]) > 0.0;
        world.until("what is there counts", MINUTE, counted).await;
        process.stop().await;
    }
}
