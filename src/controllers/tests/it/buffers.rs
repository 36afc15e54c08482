//! Capacity buffers: room is launched for pods that do not exist, kept, given away and taken back.

mod conditions;
mod stability;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, PodTemplate};
use karpenter_api::{CapacityBuffer, CapacityBufferStatus, NodeClaim};
use karpenter_testkit::objects::{apart, deployment, pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{Crash, MINUTE, Process, SECOND, World};

fn start(world: &World) -> Process {
    start_with(world, Crash::Never)
}

fn start_with(world: &World, crash: Crash) -> Process {
    world.start_crashing(crash, |gates| gates.capacity_buffer = true)
}

/// A pod template whose pods want this much CPU and have the label `app: <name>`, changed by `spec`.
fn template(world: &World, name: &str, cpu: &str, spec: &Value) {
    let pod = pod(name, cpu, &json!({"spec": spec}));
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": pod["spec"]});
    let metadata = json!({"name": name, "namespace": "default"});
    world.load(
        &json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}),
    );
}

/// Changes what the pods of a template want.
async fn template_takes(world: &World, name: &str, cpu: &str) {
    let containers = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
    world.patch::<PodTemplate>(name, json!({"template": {"spec": {"containers": containers}}})).await;
}

fn buffer(world: &World, name: &str, spec: &Value) {
    world.load(&json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }));
}

/// A buffer called `spare` of `replicas` pods that want `cpu` each.
fn spare(world: &World, replicas: u32, cpu: &str) {
    template(world, "spare", cpu, &json!({}));
    buffer(world, "spare", &json!({"podTemplateRef": {"name": "spare"}, "replicas": replicas}));
}

fn status(world: &World, name: &str) -> CapacityBufferStatus {
    let buffers = world.list::<CapacityBuffer>();
    let found = buffers.into_iter().find(|buffer| buffer.name_any() == name);
    found.and_then(|buffer| buffer.status).unwrap_or_default()
}

/// The reason of a condition, empty while there is none.
fn reason(world: &World, name: &str, kind: &str) -> String {
    let conditions = status(world, name).conditions;
    conditions.into_iter().find(|one| one.kind == kind).map(|one| one.reason).unwrap_or_default()
}

/// Waits until a condition has this reason.
async fn says(world: &World, name: &str, kind: &str, wanted: &str, limit: Duration) {
    let what = format!("{kind} of {name} says {wanted}");
    world.until(&what, limit, || reason(world, name, kind) == wanted).await;
}

/// Waits until every node is initialized and the room of the buffer is there.
async fn has_room(world: &World, name: &str) {
    says(world, name, "Provisioning", "FitsExistingCapacity", 5 * MINUTE).await;
    world.until("every node is initialized", 5 * MINUTE, || world.has_nodes(world.claims().len())).await;
}

/// A world with a pool of this spec and the room of a buffer called `spare`: `pods` pods that fill most of a machine each.
async fn with_room(pods: u32, pool: &Value) -> (World, Process) {
    let world = World::new().await;
    world.pool("default", pool);
    spare(&world, pods, "1500m");
    let process = start(&world);
    has_room(&world, "spare").await;
    (world, process)
}

async fn change(world: &World, name: &str, spec: &Value) {
    world.patch::<CapacityBuffer>(name, json!({"spec": spec})).await;
}

fn launched(process: &Process) -> u64 {
    process.created(["provisioned", "default", "false"])
}

#[tokio::test(start_paused = true)]
async fn room_is_launched_for_pods_that_do_not_exist_and_nobody_is_sent_there() {
    let world = World::with_pool(&json!({})).await;
    spare(&world, 3, "1500m");
    let process = start(&world);
    says(&world, "spare", "Provisioning", "RequiresNewCapacity", MINUTE).await;
    has_room(&world, "spare").await;
    let status = status(&world, "spare");
    assert_eq!(status.replicas, Some(3));
    assert_eq!(status.pod_template_ref.unwrap().name, "spare");
    assert_eq!(status.pod_template_generation, Some(1));
    assert_eq!(status.provisioning_strategy.as_deref(), Some("buffer.x-k8s.io/active-capacity"));
    assert!(status.conditions.iter().all(|one| one.kind != "Ready"), "the kind has no root condition");
    assert!(world.pods().is_empty(), "virtual pods exist nowhere");
    assert!(process.events.messages("Nominated").is_empty());
    assert!(process.events.messages("FailedScheduling").is_empty());
    let cpu: u64 = world.nodes().iter().map(cores).sum();
    assert!(cpu >= 5, "three times 1.5 cores fit: {cpu}");
    process.stop().await;
}

fn cores(node: &Node) -> u64 {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let cpu = allocatable.and_then(|allocatable| allocatable.get("cpu")).map(|cpu| cpu.0.clone());
    let cpu: karpenter_model::Quantity = cpu.unwrap_or_default().parse().unwrap();
    u64::try_from(cpu.as_units_ceil()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn room_that_is_there_is_not_launched() {
    let world = World::with_pool(&json!({"disruption": {"consolidateAfter": "Never"}})).await;
    world.pod("web", "3");
    let process = start(&world);
    world.all_running().await;
    let before = world.claim_names();
    spare(&world, 2, "100m");
    says(&world, "spare", "Provisioning", "FitsExistingCapacity", MINUTE).await;
    assert_eq!(world.claim_names(), before);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_exist_take_the_room_and_it_is_bought_again() {
    let (world, process) = with_room(1, &json!({})).await;
    let first = world.claim_names();
    assert_eq!(first.len(), 1);
    world.pod("web", "1500m");
    world.until("the pod runs at once", 10 * SECOND, || world.runs(1)).await;
    world.until("another node holds the room", 2 * MINUTE, || world.nodes().len() == 2).await;
    has_room(&world, "spare").await;
    // Room that was taken is not needed twice once it is given back.
    world.delete::<Pod>("web").await;
    world.until("one node is left", 5 * MINUTE, || world.claims().len() == 1).await;
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(world.claims().len(), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_exist_come_before_those_that_do_not() {
    let world = World::with_pool(&json!({"limits": {"nodes": "1"}})).await;
    // Larger pods are placed first among their like, and there is one node for one of the zones.
    let zone = |zone: &str| json!({"nodeSelector": {"topology.kubernetes.io/zone": zone}});
    template(&world, "spare", "3500m", &zone("zone-a"));
    buffer(&world, "spare", &json!({"podTemplateRef": {"name": "spare"}, "replicas": 1}));
    world.pod_with("web", "500m", &zone("zone-b"));
    let process = start(&world);
    world.all_running().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_buffer_that_is_deleted_leaves_nothing() {
    let (world, process) = with_room(3, &json!({})).await;
    world.delete::<CapacityBuffer>("spare").await;
    let deleted = tokio::time::Instant::now();
    world.all_gone().await;
    assert!(deleted.elapsed() < 2 * MINUTE, "{:?}", deleted.elapsed());
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn buffers_that_come_and_go_leave_nothing() {
    let world = World::with_pool(&json!({})).await;
    template(&world, "spare", "1500m", &json!({}));
    let process = start(&world);
    for round in 0..5 {
        let name = format!("b{round}");
        buffer(&world, &name, &json!({"podTemplateRef": {"name": "spare"}, "replicas": 2}));
        tokio::time::sleep(Duration::from_millis(1500)).await;
        world.delete::<CapacityBuffer>(&name).await;
    }
    world.all_gone().await;
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_is_watched_and_nothing_happens() {
    let world = World::with_pool(&json!({})).await;
    spare(&world, 3, "1500m");
    let closed = world.start();
    tokio::time::sleep(5 * MINUTE).await;
    let about_buffers = |process: &Process| {
        let seen = process.calls.seen();
        seen.iter()
            .filter(|(_, path)| path.contains("capacitybuffers") || path.contains("podtemplates"))
            .count()
    };
    assert_eq!(about_buffers(&closed), 0);
    assert!(world.claims().is_empty());
    assert_eq!(status(&world, "spare"), CapacityBufferStatus::default());
    closed.stop().await;
    let open = start(&world);
    has_room(&world, "spare").await;
    assert!(about_buffers(&open) > 0);
    open.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_buffers_have_room_each_and_pods_of_one_keep_their_distance() {
    let world = World::with_pool(&json!({})).await;
    spare(&world, 1, "1500m");
    template(&world, "apart", "100m", &apart("apart"));
    buffer(&world, "apart", &json!({"podTemplateRef": {"name": "apart"}, "replicas": 3}));
    let process = start(&world);
    has_room(&world, "spare").await;
    has_room(&world, "apart").await;
    assert!(world.nodes().len() >= 3);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn room_is_where_the_template_wants_it() {
    let world = World::with_pool(&json!({})).await;
    template(&world, "spare", "1", &json!({"nodeSelector": {"topology.kubernetes.io/zone": "zone-b"}}));
    buffer(&world, "spare", &json!({"podTemplateRef": {"name": "spare"}, "replicas": 1}));
    let process = start(&world);
    has_room(&world, "spare").await;
    for node in world.nodes() {
        assert_eq!(node.labels()["topology.kubernetes.io/zone"], "zone-b");
    }
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn limits_of_the_pool_hold_and_pods_without_room_are_told_and_counted() {
    let world = World::with_pool(&json!({"limits": {"cpu": "4"}})).await;
    spare(&world, 10, "1500m");
    let process = start(&world);
    let unschedulable = || process.metrics.scheduler.unschedulable_pods_count.value(["provisioner"]);
    world.until("some have no room", 2 * MINUTE, || unschedulable() > 0.0).await;
    tokio::time::sleep(10 * MINUTE).await;
    let cpu: u64 = world.nodes().iter().map(cores).sum();
    assert!((1..=4).contains(&cpu), "{cpu} cores");
    let failed = process.events.events();
    let failed = failed.iter().find(|event| event.reason.name() == "FailedScheduling").unwrap();
    assert!(failed.object.name.starts_with("capacity-buffer-spare-"), "{failed:?}");
    assert_eq!(failed.object.namespace.as_deref(), Some("default"));
    assert_eq!(reason(&world, "spare", "Provisioning"), "RequiresNewCapacity");
    assert!(
        (process.metrics.scheduler.held_pods_count.value([])).abs() < f64::EPSILON,
        "nothing was learned"
    );
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_drifts_or_is_deleted_is_made_up_for() {
    let (world, process) = with_room(1, &json!({})).await;
    let first = world.claim_names();
    world.change_pool("default", &json!({"template": {"metadata": {"labels": {"team": "a"}}}})).await;
    world
        .until("another node took its place", 10 * MINUTE, || {
            world.claims().len() == 1 && world.claim_names() != first
        })
        .await;
    has_room(&world, "spare").await;
    let second = world.claim_names();
    world.delete::<NodeClaim>(second.first().unwrap()).await;
    world
        .until("another node again", 10 * MINUTE, || {
            world.claims().len() == 1 && world.claim_names() != second
        })
        .await;
    has_room(&world, "spare").await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fewer_replicas_need_less_room_and_wider_limits_more() {
    let world = World::with_pool(&json!({})).await;
    template(&world, "spare", "1", &json!({}));
    buffer(
        &world,
        "spare",
        &json!({"podTemplateRef": {"name": "spare"}, "replicas": 6, "limits": {"cpu": "2"}}),
    );
    let process = start(&world);
    // Changes of the buffer, and the number of its pods, each with at least one core.
    for (spec, replicas) in [
        (json!({}), 2),
        (json!({"limits": {"cpu": "5"}}), 5),
        (json!({"limits": null}), 6),
        (json!({"replicas": 1}), 1),
    ] {
        change(&world, "spare", &spec).await;
        world
            .until(&format!("{replicas} replicas"), 3 * SECOND, || {
                status(&world, "spare").replicas == Some(replicas)
            })
            .await;
        world
            .until(&format!("room for {replicas}, and not much more"), 10 * MINUTE, || {
                let cpu: u64 = world.nodes().iter().map(cores).sum();
                // Every machine keeps some of a core for itself.
                let wanted = u64::try_from(replicas).unwrap();
                cpu > wanted && cpu <= 2 * wanted + 2
            })
            .await;
        has_room(&world, "spare").await;
    }
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_expire_are_made_up_for() {
    let (world, process) = with_room(2, &json!({"template": {"spec": {"expireAfter": "5m"}}})).await;
    let first = world.claim_names();
    world
        .until("none of the first nodes is left", 15 * MINUTE, || {
            world.claim_names().iter().all(|name| !first.contains(name))
        })
        .await;
    has_room(&world, "spare").await;
    assert_eq!(
        process.disrupted(["expired", "default", "spot", "", "graceful"]),
        u64::try_from(first.len()).unwrap()
    );
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_like_those_of_a_workload_keep_their_distance_from_them() {
    let world = World::with_pool(&json!({"disruption": {"consolidateAfter": "Never"}})).await;
    world.load(&deployment("web", 2, "100m", &apart("web")));
    let like = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    buffer(&world, "spare", &json!({"scalableRef": like, "replicas": 2}));
    let process = start(&world);
    world.until("both pods run", 5 * MINUTE, || world.runs(2)).await;
    has_room(&world, "spare").await;
    assert_eq!(world.nodes().len(), 4, "two with a pod each, two with room for one each");
    process.stop().await;
}
