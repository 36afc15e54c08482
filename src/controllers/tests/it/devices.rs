//! Pods with claims for devices, where those are not ignored.

use std::sync::Arc;

use karpenter_api::NodeClaim;
use karpenter_cloud::memory::Catalogue;
use karpenter_model::device::{AttributeValue, Device, DeviceTemplates, SliceTemplate};
use karpenter_model::names::{annotation, label};
use karpenter_model::settings::FeatureGates;
use karpenter_testkit::objects::one_of;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, Process, World};

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
    let world = World::with_pool(&json!({})).await;
    world.load(&class());
    world.load(&slice(
        "shelf",
        &json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
        one_of("topology.kubernetes.io/zone", &["zone-b"])]}]}}),
    ));
    world.load(&claim("one"));
    world.pod_with("first", "1", &uses("one"));
    world.pod_with("second", "1", &uses("two"));
    let process = start(&world);
    world
        .until("there is a node and an event on the other pod", 5 * MINUTE, || {
            world.nodes().len() == 1 && !process.events.messages("FailedScheduling").is_empty()
        })
        .await;
    let nodes = world.nodes();
    assert_eq!(nodes[0].labels()["topology.kubernetes.io/zone"], "zone-b");
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
    let shown = || world.claims().first().and_then(initialized);
    world
        .until("it waits for the driver", 5 * MINUTE, || {
            shown().is_some_and(|(_, reason)| reason == "DRADriverPoolsNotPublished")
        })
        .await;
    let node = world.nodes()[0].metadata.name.clone().unwrap();
    world.load(&slice("elsewhere", &json!({"allNodes": true})));
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(shown().unwrap().1, "DRADriverPoolsNotPublished", "devices of the whole cluster do not count");
    world.load(&slice("local", &json!({"nodeName": node})));
    world.until("it is complete", MINUTE, || shown().is_some_and(|(status, _)| status == "True")).await;
    process.stop().await;
}

/// One device `gpu-0` of the driver, as a type brings it along.
fn described() -> Arc<DeviceTemplates> {
    let model = AttributeValue::Text("a100".to_owned());
    let device = Device {
        name: "gpu-0".into(),
        attributes: [("gpu.example.com/model".into(), model)].into(),
        capacity: [].into(),
        draws: Vec::new(),
        shareable: false,
        taints: Vec::new(),
        unsupported: None,
    };
    let slice = SliceTemplate {
        driver: "gpu.example.com".into(),
        pool: "gpus".into(),
        counters: Vec::new(),
        devices: vec![device],
    };
    Arc::new(DeviceTemplates { slices: vec![slice], bindings: Vec::new() })
}

/// The type of a claim's machine, and the drivers that it waits for.
fn bought(claim: &NodeClaim) -> (String, String) {
    let drivers = claim.annotations().get(annotation::REQUESTED_DRIVERS).cloned().unwrap_or_default();
    (claim.labels().get(label::INSTANCE_TYPE).cloned().unwrap_or_default(), drivers)
}

/// A world whose large type is described with devices.
async fn with_large_type_described() -> World {
    let mut world = World::new().await;
    let catalogue = Catalogue::small(&["zone-a", "zone-b"]);
    world.catalogue = Arc::new(catalogue.bringing("large", &described()));
    world.pool("default", &json!({}));
    world
}

/// Waits for two machines, and checks that each is to bring one device.
async fn two_machines_with_devices(world: &World) {
    let told = || world.claims().iter().map(bought).collect::<Vec<_>>();
    world
        .until("two machines have been bought", 5 * MINUTE, || {
            let told = told();
            told.len() == 2 && told.iter().all(|(kind, _)| !kind.is_empty())
        })
        .await;
    let wanted = ("large".to_owned(), "gpu.example.com".to_owned());
    assert_eq!(told(), [wanted.clone(), wanted], "each has one device");
}

/// As [`with_large_type_described`], and a pod that waits for a device.
async fn with_described_devices() -> World {
    let world = with_large_type_described().await;
    world.load(&class());
    world.load(&claim("one"));
    world.pod_with("wants", "1", &uses("one"));
    world
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_bought_that_brings_the_devices_of_a_claim_along() {
    let world = with_described_devices().await;
    world.load(&claim("two"));
    world.pod_with("also", "1", &uses("two"));
    let process = start(&world);
    two_machines_with_devices(&world).await;
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(world.claims().len(), 2, "the devices of machines that come up are held");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_a_class_stands_for_is_served_by_the_devices_of_new_machines() {
    let world = with_large_type_described().await;
    let mut class = class();
    class["spec"]["extendedResourceName"] = "example.com/gpu".into();
    world.load(&class);
    for (pod, resource) in
        [("named", "example.com/gpu"), ("implied", "deviceclass.resource.kubernetes.io/gpu")]
    {
        let amounts = json!({"cpu": "1", resource: "1"});
        let resources = json!({"requests": amounts, "limits": amounts});
        world.pod_with(
            pod,
            "1",
            &json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}),
        );
    }
    let process = start(&world);
    two_machines_with_devices(&world).await;
    for claim in world.claims() {
        let requests = serde_json::to_value(&claim.spec.resources).unwrap()["requests"].to_string();
        assert!(!requests.contains('/'), "no machine counts the resource: {requests}");
    }
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn room_of_a_buffer_has_the_devices_that_its_pods_would_claim() {
    let world = with_large_type_described().await;
    world.load(&class());
    let asks = json!([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]);
    world.load(&json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "spare", "namespace": "default"},
        "template": {"spec": {"resourceClaims": asks, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}},
    }));
    world.load(&json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"},
        "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 2},
    }));
    let gates = FeatureGates { capacity_buffer: true, ..FeatureGates::default() };
    let defaults = karpenter_model::Settings::default();
    let process =
        world.start_deciding(karpenter_model::Settings { ignore_dra_requests: false, gates, ..defaults });
    let ready = || {
        let buffer = world.list::<karpenter_api::CapacityBuffer>().remove(0);
        let conditions = buffer.status.map(|status| status.conditions).unwrap_or_default();
        conditions.into_iter().find(|one| one.kind == "ReadyForProvisioning").map(|one| one.message)
    };
    let missing = "ResourceClaimTemplate `one-gpu` does not exist in the namespace of the buffer";
    world
        .until("the template is missing", 2 * MINUTE, || ready().is_some_and(|message| message == missing))
        .await;
    assert_eq!(world.claims().len(), 0);
    world.load(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": "default"},
        "spec": {"spec": claim("one")["spec"]},
    }));
    two_machines_with_devices(&world).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_type_that_brings_something_else_is_named_and_not_bought_again() {
    let world = with_described_devices().await;
    let process = start(&world);
    world.until("a node has come up", 5 * MINUTE, || world.nodes().len() == 1).await;
    let node = world.nodes()[0].metadata.name.clone().unwrap();
    let other = json!([{"name": "gpu-0", "attributes": {"model": {"string": "h100"}}}]);
    world.load(&slice(&node, &json!({"nodeName": node, "devices": other})));
    world.load(&claim("two"));
    world.pod_with("also", "1", &uses("two"));
    world
        .until("there is an event about the difference", 5 * MINUTE, || {
            !process.events.messages("DevicesNotAsDescribed").is_empty()
        })
        .await;
    assert_eq!(
        process.events.messages("DevicesNotAsDescribed")[0],
        "Driver gpu.example.com has published device `gpu-0` with another `gpu.example.com/model` instead of \
         `gpu-0`; nodes of this type are expected to have the same from now on"
    );
    tokio::time::sleep(10 * MINUTE).await;
    let large = world.claims().iter().filter(|claim| bought(claim).0 == "large").count();
    assert!(large <= 2, "one for each pod, none of them again: {large}");
    let told = process.events.messages("FailedScheduling");
    assert!(
        told.iter().any(|text| text.contains("no devices are left for resource claim `default/two`")),
        "{told:?}"
    );
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_drivers_have_published_on_a_node_is_foreseen_of_the_next_one_of_its_type() {
    let world = World::with_pool(&json!({})).await;
    world.load(&class());
    world.pod("plain", "1");
    let process = start(&world);
    world.all_running().await;
    let first = world.claims().remove(0);
    world.load(&claim("one"));
    world.pod_with("wants", "1.5", &uses("one"));
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(world.claims().len(), 1, "nothing is known to bring such a device");
    let node = world.nodes()[0].metadata.name.clone().unwrap();
    world.load(&slice(&node, &json!({"nodeName": node})));
    world
        .until("another machine has been bought", 5 * MINUTE, || {
            world.claims().iter().filter(|claim| !bought(claim).0.is_empty()).count() == 2
        })
        .await;
    let second = world.claims().into_iter().find(|claim| claim.metadata.name != first.metadata.name).unwrap();
    assert_eq!(bought(&second), (bought(&first).0, "gpu.example.com".to_owned()));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn devices_that_a_rule_taints_are_left_alone_until_it_goes() {
    let world = World::with_pool(&json!({})).await;
    world.load(&class());
    world.load(&slice("shelf", &json!({"allNodes": true})));
    world.load(&json!({
        "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "sick"},
        "spec": {"deviceSelector": {"pool": "shelf"}, "taint": {"key": "sick", "effect": "NoSchedule"}},
    }));
    world.load(&claim("one"));
    world.pod_with("wants", "1", &uses("one"));
    let process = start(&world);
    world
        .until("there is an event on the pod", 5 * MINUTE, || {
            !process.events.messages("FailedScheduling").is_empty()
        })
        .await;
    let told = process.events.messages("FailedScheduling").remove(0);
    assert!(told.contains("cannot have device `gpu-0`: taint `sick:NoSchedule` is not tolerated"), "{told}");
    let rule = kube::api::GroupVersionKind::gvk("resource.k8s.io", "v1beta2", "DeviceTaintRule");
    let rule = kube::api::ApiResource::from_gvk(&rule);
    let rules = kube::Api::<kube::api::DynamicObject>::all_with(world.client.clone(), &rule);
    // The last form of a rule need not be readable for its end to count.
    let unreadable = kube::api::Patch::Merge(json!({"spec": {"taint": 5}}));
    rules.patch("sick", &kube::api::PatchParams::default(), &unreadable).await.unwrap();
    rules.delete("sick", &kube::api::DeleteParams::default()).await.unwrap();
    world.until("a machine is bought", 5 * MINUTE, || world.claims().len() == 1).await;
    process.stop().await;
}
