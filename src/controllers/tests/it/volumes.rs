//! Pods with volumes go where their volumes are, and their events say what is wrong with them.

use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_api::NodeClaim;
use karpenter_testkit::objects::{attachment, pod, volume, with};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, Process, SECOND, World, is_running};

fn mounts(claim: &str) -> Value {
    json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]})
}

fn claim(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": spec,
    })
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_bought_in_the_zone_of_the_volume() {
    let world = World::with_pool(&json!({})).await;
    for zone in ["zone-a", "zone-b"] {
        world.load(&volume(&format!("pv-{zone}"), zone));
        world.load(&claim(zone, &json!({"volumeName": format!("pv-{zone}")})));
        world.pod_with(&format!("db-{zone}"), "1", &mounts(zone));
    }
    let process = world.start();
    world.until("there are two nodes", 5 * MINUTE, || world.nodes().len() == 2).await;
    let nodes = world.nodes();
    let mut zones: Vec<_> =
        nodes.iter().map(|node| node.labels()["topology.kubernetes.io/zone"].as_str()).collect();
    zones.sort_unstable();
    assert_eq!(zones, ["zone-a", "zone-b"]);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_is_missing_is_told_so_and_runs_once_it_exists() {
    let world = World::with_pool(&json!({})).await;
    world.load(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    }));
    world.pod_with("db", "1", &mounts("data"));
    let process = world.start();
    world
        .until("the pod has an event", MINUTE, || !process.events.messages("FailedScheduling").is_empty())
        .await;
    let told = process.events.messages("FailedScheduling").remove(0);
    assert!(told.contains("`data`: it does not exist"), "{told}");
    assert!(world.claims().is_empty());
    world.load(&claim("data", &json!({"storageClassName": "gp3"})));
    world.all_running().await;
    assert_eq!(process.events.messages("FailedScheduling").len(), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_bought_for_an_ephemeral_volume_where_it_is_or_may_be() {
    // The volume exists already, or its class waits for the pod and allows one zone.
    for exists in [true, false] {
        let world = World::with_pool(&json!({})).await;
        world.load(&json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "zonal"},
            "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [
                {"key": "topology.kubernetes.io/zone", "values": ["zone-b"]},
            ]}],
        }));
        world.load(&volume("pv", "zone-b"));
        let ephemeral = json!({"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "zonal",
            "resources": {"requests": {"storage": "1Gi"}},
        }}});
        world.pod_with("db", "1", &json!({"volumes": [{"name": "scratch", "ephemeral": ephemeral}]}));
        if exists {
            let mut own = claim("db-scratch", &json!({"storageClassName": "zonal", "volumeName": "pv"}));
            own["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "v1", "kind": "Pod", "name": "db", "uid": world.pods()[0].metadata.uid,
                "controller": true,
            }]);
            world.load(&own);
        }
        let process = world.start();
        world.all_running().await;
        let nodes = world.nodes();
        assert_eq!(nodes.len(), 1);
        assert_eq!(nodes[0].labels()["topology.kubernetes.io/zone"], "zone-b");
        process.stop().await;
    }
}

/// The pod `db-0` of a StatefulSet with its volume, which is in `zone-a`.
fn replica(world: &World, tolerations: &Value) {
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": true});
    let spec = with(mounts("data-db-0"), &json!({"tolerations": tolerations}));
    world.load(&pod("db-0", "1", &json!({"metadata": {"ownerReferences": [owner]}, "spec": spec})));
}

/// A StatefulSet of one replica that runs, and the name of its node.
async fn stateful(tolerations: &Value) -> (World, Process, String) {
    let world = World::with_pool(&json!({"disruption": {"consolidateAfter": "Never"}})).await;
    world.load(&volume("pv", "zone-a"));
    world.load(&claim("data-db-0", &json!({"volumeName": "pv"})));
    replica(&world, tolerations);
    let process = world.start();
    world.all_running().await;
    let node = world.nodes()[0].name_any();
    world.load(&attachment(&format!("to-{node}"), &node));
    (world, process, node)
}

async fn delete_claim(world: &World) {
    world.delete::<NodeClaim>(&world.claims()[0].name_any()).await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_moves_with_its_volume_before_the_machine_is_terminated() {
    let (world, process, old) = stateful(&json!([])).await;
    let machine = world.account.machines()[0].provider_id.clone();
    delete_claim(&world).await;
    let deleted = tokio::time::Instant::now();
    world.until("the replica is gone", MINUTE, || world.pods().is_empty()).await;
    // The controller of the set creates it again at once; the volume is let go six seconds after the pod.
    replica(&world, &json!([]));
    for _ in 0..6 {
        let there = world.account.machines().iter().any(|one| one.provider_id == machine);
        assert!(there, "terminated under the volume");
        tokio::time::sleep(SECOND).await;
    }
    world.delete::<VolumeAttachment>(&format!("to-{old}")).await;
    world
        .until("the replica runs on another node", 2 * MINUTE, || {
            let pods = world.pods();
            let on = pods[0].spec.as_ref().and_then(|spec| spec.node_name.clone());
            is_running(&pods[0]) && on.is_some_and(|node| node != old)
        })
        .await;
    assert!(deleted.elapsed() < 3 * MINUTE, "{:?}", deleted.elapsed());
    let gone = || world.nodes().iter().all(|node| node.name_any() != old);
    world.until("the old node is gone", 2 * MINUTE, gone).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_tolerates_the_disruption_holds_nothing_up_although_its_volume_is_attached() {
    let tolerations = json!([{"key": "karpenter.sh/disrupted", "operator": "Exists"}]);
    let (world, process, old) = stateful(&tolerations).await;
    let (claim, machine) = (world.claims().remove(0).uid(), world.account.machines().remove(0).provider_id);
    delete_claim(&world).await;
    let gone = || {
        world.nodes().iter().all(|node| node.name_any() != old)
            && world.claims().iter().all(|one| one.uid() != claim)
            && world.account.machines().iter().all(|one| one.provider_id != machine)
    };
    world.until("claim, Node and machine are gone", 3 * MINUTE, gone).await;
    assert!(process.events.messages("Evicted").is_empty(), "it was not asked to leave");
    process.stop().await;
}
