//! Pods with claims for devices, where those are not ignored.

use std::time::Duration;

use karpenter_api::NodeClaim;
use serde_json::{Value, json};

use crate::world::{Process, World};

fn start(world: &World) -> Process {
    let defaults = karpenter_model::Settings::default();
    world.start_deciding(karpenter_model::Settings { ignore_dra_requests: false, ..defaults })
}

fn slice(name: &str, more: &Value) -> Value {
    let mut spec = json!({
        "driver": "gpu.example.com",
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "a100"}}}],
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec})
}

fn claim(name: &str) -> Value {
    let model = "device.attributes['gpu.example.com'].model == 'a100'";
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {
            "deviceClassName": "gpu", "selectors": [{"cel": {"expression": model}}]}}]}},
    })
}

fn class() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
    })
}

fn uses(claim: &str) -> Value {
    json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]})
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_bought_where_the_devices_of_a_claim_are() {
    let world = World::new().await;
    world.pool("default", &json!({}));
    world.load(&class());
    world.load(&slice(
        "shelf",
        &json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"]}]}]}}),
    ));
    world.load(&claim("one"));
    world.pod_with("first", "1", &uses("one"));
    world.pod_with("second", "1", &uses("two"));
    let process = start(&world);
    world
        .until("there is a node and an event on the other pod", Duration::from_mins(5), || async {
            world.nodes().len() == 1 && !process.events.messages("FailedScheduling").is_empty()
        })
        .await;
    let nodes = world.nodes();
    assert_eq!(nodes[0].metadata.labels.as_ref().unwrap()["topology.kubernetes.io/zone"], "zone-b");
    let told = process.events.messages("FailedScheduling").remove(0);
    assert!(told.contains("resource claim `default/two` does not exist"), "{told}");
    process.stop().await;
}

fn initialized(claim: &NodeClaim) -> Option<(String, String)> {
    let conditions = claim.status.as_ref()?.conditions.iter();
    let found = conditions.into_iter().find(|condition| condition.kind == "Initialized")?;
    Some((found.status.as_str().to_owned(), found.reason.clone()))
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_complete_once_the_drivers_it_waits_for_have_published_their_devices() {
    let world = World::new().await;
    let waits = json!({"karpenter.sh/requested-dra-drivers": "gpu.example.com"});
    world.pool("default", &json!({"template": {"metadata": {"annotations": waits}}}));
    world.pod("plain", "1");
    let process = start(&world);
    let shown = || async { world.claims().first().and_then(initialized) };
    world
        .until("it waits for the driver", Duration::from_mins(5), || async {
            shown().await.is_some_and(|(_, reason)| reason == "DRADriverPoolsNotPublished")
        })
        .await;
    let node = world.nodes()[0].metadata.name.clone().unwrap();
    world.load(&slice("elsewhere", &json!({"allNodes": true})));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(
        shown().await.unwrap().1,
        "DRADriverPoolsNotPublished",
        "devices of the whole cluster do not count"
    );
    world.load(&slice("local", &json!({"nodeName": node})));
    world
        .until("it is complete", Duration::from_mins(1), || async {
            shown().await.is_some_and(|(status, _)| status == "True")
        })
        .await;
    process.stop().await;
}
