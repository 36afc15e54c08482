//! Whatever goes first, everything goes.

mod launching;
mod orders;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_kube_sim::apiserver::{Fault, Rule};
use karpenter_testkit::objects::attachment;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, Process, SECOND, World};

/// Part of a machine: one of its three objects, or the pool it was made from.
#[derive(Clone, Copy, Debug)]
enum Part {
    Node,
    Claim,
    Instance,
    Pool,
}

async fn running() -> (World, Process) {
    let world = World::with_pool(&json!({"disruption": {"consolidateAfter": "Never"}})).await;
    world.pod("web", "1");
    let process = world.start();
    world.all_running().await;
    world.until("the node is initialized", 2 * MINUTE, || world.has_nodes(1)).await;
    (world, process)
}

async fn take(world: &World, part: Part) {
    match part {
        Part::Node => {
            for node in world.nodes() {
                world.delete_if_there::<Node>(&node.name_any()).await;
            }
        }
        Part::Claim => {
            for claim in world.claims() {
                world.delete_if_there::<NodeClaim>(&claim.name_any()).await;
            }
        }
        Part::Instance => {
            for machine in world.account.machines() {
                world.account.vanish(&machine.provider_id);
            }
        }
        Part::Pool => world.delete_if_there::<NodePool>("default").await,
    }
}

#[tokio::test(start_paused = true)]
async fn deleting_one_part_is_enough() {
    for part in [Part::Node, Part::Claim, Part::Instance, Part::Pool] {
        let (world, process) = running().await;
        // Nothing is bought again.
        world.delete::<Pod>("web").await;
        tokio::time::sleep(10 * SECOND).await;
        take(&world, part).await;
        world.all_gone().await;
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_others_stay() {
    let (world, process) = running().await;
    let others = ["of-nobody", "of-another-machine"];
    for (name, machine) in others.into_iter().zip([Value::Null, json!("memory:///another")]) {
        world.load(&json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": machine},
        }));
    }
    take(&world, Part::Claim).await;
    world
        .until("the claim and its node are gone", 10 * MINUTE, || {
            world.claims().is_empty() && world.nodes().len() == others.len()
        })
        .await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_of_two_claims_still_goes() {
    let (world, process) = running().await;
    process.kill();
    let mut twin = json!(world.claims().remove(0));
    twin["metadata"] = json!({
        "name": "twin", "labels": twin["metadata"]["labels"], "finalizers": twin["metadata"]["finalizers"],
    });
    world.load(&twin);
    // The status is a resource of its own.
    world.patch_status::<NodeClaim>("twin", twin["status"].clone()).await;
    let process = world.start();
    tokio::time::sleep(5 * SECOND).await;
    let uid = world.nodes()[0].uid();
    take(&world, Part::Node).await;
    // Its machine runs on and registers again at once.
    let gone = || world.nodes().iter().all(|node| node.uid() != uid);
    world.until("the node is gone", 5 * MINUTE, gone).await;
    assert_eq!(process.events.messages("Evicted").len(), 1, "it was drained");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drained_pod_moves_to_a_new_machine() {
    let world = World::with_pool(&json!({})).await;
    world.set("web", 1, "1");
    let process = world.start();
    world.until("there is a pod", MINUTE, || !world.pods().is_empty()).await;
    world.all_running().await;
    let old = world.nodes().remove(0).name_any();
    take(&world, Part::Claim).await;
    world
        .until("the old node is gone and the pod runs elsewhere", 10 * MINUTE, || {
            let nodes = world.nodes();
            nodes.len() == 1 && nodes[0].name_any() != old && world.runs(1)
        })
        .await;
    assert_eq!(process.metrics.pods.eviction_requests_total.value(["200"]), 1);
    assert_eq!(process.events.messages("Evicted"), ["Evicted pod: Forceful Termination"]);
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_nobody_claims_is_terminated_and_a_claim_without_machine_is_deleted() {
    let (world, process) = running().await;
    let id = world.account.machines()[0].provider_id.clone();
    world.account.vanish(&id);
    world
        .until("the claim without machine is replaced", 10 * MINUTE, || {
            let machines = world.account.machines();
            machines.len() == 1 && machines[0].provider_id != id || world.claims().is_empty()
        })
        .await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_stays_until_its_volumes_are_detached() {
    let (world, process) = running().await;
    let node = world.nodes().remove(0).name_any();
    world.load(&attachment("attached", &node));
    take(&world, Part::Node).await;
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(world.account.machines().len(), 1, "terminated under its volume");
    assert!(!process.events.messages("AwaitingVolumeDetachment").is_empty());
    world.delete::<VolumeAttachment>("attached").await;
    world.all_gone().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_starts_decides_nothing_before_it_knows_claims_and_pods() {
    for unknown in ["nodeclaims", "pods"] {
        let (world, process) = running().await;
        process.kill();
        take(&world, Part::Node).await;
        let machine = world.account.machines()[0].provider_id.clone();
        // The node being deleted is known long before its claim or its pods.
        world.server.faults().inject(Rule::on("watch").resource(unknown).times(1), Fault::Delay(20 * SECOND));
        let process = world.start();
        world
            .until("the machine to be gone, and so is what it stood for", 3 * MINUTE, || {
                let machines = world.account.machines();
                !machines.iter().any(|there| there.provider_id == machine)
            })
            .await;
        world.all_running().await;
        world.one_machine_per_claim().await;
        process.stop().await;
    }
}
