//! Whatever goes first, everything goes.

mod launching;
mod orders;

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_kube_sim::apiserver::{Fault, Rule};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{Process, World};

/// Part of a machine: one of its three objects, or the pool it was made from.
#[derive(Clone, Copy, Debug)]
enum Part {
    Node,
    Claim,
    Instance,
    Pool,
}

async fn running() -> (World, Process) {
    let world = World::new().await;
    world.pool("default", &json!({"disruption": {"consolidateAfter": "Never"}}));
    world.pod("web", "1");
    let process = world.start();
    world.all_running().await;
    world
        .until("the node is initialized", Duration::from_mins(2), || async {
            world.nodes()[0].labels().contains_key("karpenter.sh/initialized")
        })
        .await;
    (world, process)
}

async fn take(world: &World, part: Part) {
    match part {
        Part::Node => {
            for node in world.nodes() {
                let nodes: Api<Node> = Api::all(world.client.clone());
                let _gone = nodes.delete(&node.name_any(), &DeleteParams::default()).await;
            }
        }
        Part::Claim => {
            for claim in world.claims() {
                let claims: Api<NodeClaim> = Api::all(world.client.clone());
                let _gone = claims.delete(&claim.name_any(), &DeleteParams::default()).await;
            }
        }
        Part::Instance => {
            for machine in world.account.machines() {
                world.account.vanish(&machine.provider_id);
            }
        }
        Part::Pool => {
            let pools: Api<NodePool> = Api::all(world.client.clone());
            let _gone = pools.delete("default", &DeleteParams::default()).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deleting_one_part_is_enough() {
    for part in [Part::Node, Part::Claim, Part::Instance, Part::Pool] {
        let (world, process) = running().await;
        // Nothing is bought again.
        world.delete_pod("web").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
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
        .until("the claim and its node are gone", Duration::from_mins(10), || async {
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
    let (claims, status) = (Api::<NodeClaim>::all(world.client.clone()), json!({"status": twin["status"]}));
    claims.patch_status("twin", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let process = world.start();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let uid = world.nodes()[0].uid();
    take(&world, Part::Node).await;
    // Its machine runs on and registers again at once.
    let gone = || async { world.nodes().iter().all(|node| node.uid() != uid) };
    world.until("the node is gone", Duration::from_mins(5), gone).await;
    assert_eq!(process.events.messages("Evicted").len(), 1, "it was drained");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drained_pod_moves_to_a_new_machine() {
    let world = World::new().await;
    world.pool("default", &json!({}));
    world.load(&json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                },
            },
        },
    }));
    let process = world.start();
    world.until("there is a pod", Duration::from_mins(1), || async { !world.pods().is_empty() }).await;
    world.all_running().await;
    let old = world.nodes().remove(0).name_any();
    take(&world, Part::Claim).await;
    world
        .until("the old node is gone and the pod runs elsewhere", Duration::from_mins(10), || async {
            let nodes = world.nodes();
            nodes.len() == 1
                && nodes[0].name_any() != old
                && world.pods().iter().all(crate::world::is_running)
                && !world.pods().is_empty()
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
        .until("the claim without machine is replaced", Duration::from_mins(10), || async {
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
    world.load(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "attached"},
        "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    }));
    take(&world, Part::Node).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.account.machines().len(), 1, "terminated under its volume");
    assert!(!process.events.messages("AwaitingVolumeDetachment").is_empty());
    let attachments: Api<VolumeAttachment> = Api::all(world.client.clone());
    attachments.delete("attached", &DeleteParams::default()).await.unwrap();
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
        world
            .server
            .faults()
            .inject(Rule::on("watch").resource(unknown).times(1), Fault::Delay(Duration::from_secs(20)));
        let process = world.start();
        world
            .until("the machine to be gone, and so is what it stood for", Duration::from_mins(3), || async {
                let machines = world.account.machines();
                !machines.iter().any(|there| there.provider_id == machine)
            })
            .await;
        world.all_running().await;
        world.one_machine_per_claim().await;
        process.stop().await;
    }
}
