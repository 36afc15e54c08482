//! Pods with volumes go where their volumes are, and their events say what is wrong with them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::World;

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
    let world = World::new().await;
    world.pool("default", &json!({}));
    for zone in ["zone-a", "zone-b"] {
        world.load(&json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{zone}")},
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": zone},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
                ]}]}},
            },
        }));
        world.load(&claim(zone, &json!({"volumeName": format!("pv-{zone}")})));
        world.pod_with(&format!("db-{zone}"), "1", &mounts(zone));
    }
    let process = world.start();
    world.until("there are two nodes", Duration::from_mins(5), || async { world.nodes().len() == 2 }).await;
    let nodes = world.nodes();
    let mut zones: Vec<_> = nodes
        .iter()
        .map(|node| node.metadata.labels.as_ref().unwrap()["topology.kubernetes.io/zone"].as_str())
        .collect();
    zones.sort_unstable();
    assert_eq!(zones, ["zone-a", "zone-b"]);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_is_missing_is_told_so_and_runs_once_it_exists() {
    let world = World::new().await;
    world.pool("default", &json!({}));
    world.load(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    }));
    world.pod_with("db", "1", &mounts("data"));
    let process = world.start();
    world
        .until("the pod has an event", Duration::from_mins(1), || async {
            !process.events.messages("FailedScheduling").is_empty()
        })
        .await;
    let told = process.events.messages("FailedScheduling").remove(0);
    assert!(told.contains("`data`: it does not exist"), "{told}");
    assert!(world.claims().is_empty());
    world.load(&claim("data", &json!({"storageClassName": "gp3"})));
    world.all_running().await;
    assert_eq!(process.events.messages("FailedScheduling").len(), 1);
    process.stop().await;
}
