//! Status of a buffer, and the times of its changes.

use k8s_openapi::api::apps::v1::Deployment;
use karpenter_kube_sim::apiserver::{Fault, Rule};

use super::*;

/// A world with a pool that can buy nothing, so that only the buffers change.
async fn world() -> World {
    World::with_pool(&json!({"limits": {"nodes": "0"}})).await
}

#[tokio::test(start_paused = true)]
async fn references_that_lead_nowhere_are_named_and_followed_once_they_lead_somewhere() {
    let world = world().await;
    buffer(&world, "nothing", &json!({"replicas": 1}));
    buffer(&world, "template", &json!({"podTemplateRef": {"name": "late"}, "replicas": 1}));
    buffer(
        &world,
        "workload",
        &json!({"scalableRef": {"kind": "Deployment", "name": "late"}, "replicas": 1}),
    );
    buffer(
        &world,
        "job",
        &json!({"scalableRef": {"apiGroup": "batch", "kind": "Job", "name": "late"}, "replicas": 1}),
    );
    let process = start(&world);
    for (name, wanted) in [
        ("nothing", "ResolutionFailed"),
        ("template", "PodTemplateNotFound"),
        ("workload", "ScalableRefNotFound"),
        ("job", "ResolutionFailed"),
    ] {
        says(&world, name, "ReadyForProvisioning", wanted, MINUTE).await;
        assert_eq!(status(&world, name).replicas, None, "{name}");
    }
    tokio::time::sleep(2 * MINUTE).await;
    let errors = process.metrics.runtime.reconcile_errors_total.value(["capacitybuffer"]);
    assert_eq!(errors, 0, "a reference that leads nowhere is no failure of ours");
    template(&world, "late", "1", &json!({}));
    says(&world, "template", "ReadyForProvisioning", "Resolved", 3 * SECOND).await;
    world.load(&deployment("late", 0, "100m", &json!({})));
    says(&world, "workload", "ReadyForProvisioning", "Resolved", 3 * SECOND).await;
    change(&world, "nothing", &json!({"podTemplateRef": {"name": "late"}})).await;
    says(&world, "nothing", "ReadyForProvisioning", "Resolved", 3 * SECOND).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_share_of_a_workload_follows_it_at_once() {
    let world = World::with_pool(&json!({})).await;
    world.load(&deployment("web", 10, "100m", &json!({})));
    let like = json!({"apiGroup": "", "kind": "Deployment", "name": "web"});
    buffer(&world, "share", &json!({"scalableRef": like, "percentage": 20}));
    let process = start(&world);
    let replicas = async |wanted: i32, limit: Duration| {
        let reached = || status(&world, "share").replicas == Some(wanted);
        world.until(&format!("{wanted} replicas"), limit, reached).await;
    };
    replicas(2, MINUTE).await;
    let share = status(&world, "share");
    assert_eq!((share.pod_template_ref, share.pod_template_generation), (None, None));
    world.patch::<Deployment>("web", json!({"spec": {"replicas": 5}})).await;
    replicas(1, 3 * SECOND).await;
    world.patch::<Deployment>("web", json!({"spec": {"replicas": 20}})).await;
    replicas(4, 3 * SECOND).await;
    change(&world, "share", &json!({"limits": {"cpu": "250m"}})).await;
    replicas(2, 3 * SECOND).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_template_is_read_at_once_and_room_for_it_is_bought() {
    let (world, process) = with_room(1, &json!({})).await;
    template_takes(&world, "spare", "12").await;
    world
        .until("the status shows it", 3 * SECOND, || {
            status(&world, "spare").pod_template_generation == Some(2)
        })
        .await;
    world
        .until("a large node holds the room and the small one is gone", 10 * MINUTE, || {
            let nodes = world.nodes();
            nodes.len() == 1 && cores(&nodes[0]) >= 12
        })
        .await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_stops_leading_anywhere_gives_the_room_back() {
    let (world, process) = with_room(1, &json!({})).await;
    world.delete::<PodTemplate>("spare").await;
    says(&world, "spare", "ReadyForProvisioning", "PodTemplateNotFound", 3 * SECOND).await;
    says(&world, "spare", "Provisioning", "NotReadyForProvisioning", MINUTE).await;
    world.all_gone().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again_after_a_second_and_is_no_error() {
    let world = world().await;
    spare(&world, 1, "1500m");
    world.server.faults().inject(Rule::on("patch").resource("capacitybuffers").times(1), Fault::Conflict);
    let process = start(&world);
    says(&world, "spare", "ReadyForProvisioning", "Resolved", 5 * SECOND).await;
    assert_eq!(process.metrics.runtime.reconcile_errors_total.value(["capacitybuffer"]), 0);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_never_answered_is_told_about() {
    let world = world().await;
    spare(&world, 1, "1500m");
    world.server.faults().inject(Rule::on("get").resource("podtemplates"), Fault::InternalError);
    let process = start(&world);
    says(&world, "spare", "ReadyForProvisioning", "ResolutionFailed", MINUTE).await;
    world.server.faults().clear();
    says(&world, "spare", "ReadyForProvisioning", "Resolved", 2 * MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_of_conditions_are_told_and_counted() {
    let world = world().await;
    let process = start(&world);
    buffer(&world, "spare", &json!({"podTemplateRef": {"name": "spare"}, "replicas": 1}));
    says(&world, "spare", "ReadyForProvisioning", "PodTemplateNotFound", MINUTE).await;
    template(&world, "spare", "1", &json!({}));
    says(&world, "spare", "ReadyForProvisioning", "Resolved", MINUTE).await;
    tokio::time::sleep(MINUTE).await;
    let told = process.events.messages("ReadyForProvisioning");
    assert!(told.iter().any(|text| text.contains("False -> True")), "{told:?}");
    let text = process.metrics.render();
    let series = "operator_capacitybuffer_status_condition_count{";
    assert!(text.lines().any(|line| line.starts_with(series) && line.contains("name=\"spare\"")), "{text}");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_watch_workloads_they_are_asked_for_every_half_minute() {
    let world = world().await;
    for verb in ["list", "watch"] {
        let may_not = Fault::refuse(403, "Forbidden", "deployments.apps is forbidden");
        world.server.faults().inject(Rule::on(verb).resource("deployments"), may_not);
    }
    let like = json!({"kind": "Deployment", "name": "late"});
    buffer(&world, "workload", &json!({"scalableRef": like, "replicas": 1}));
    let process = start(&world);
    says(&world, "workload", "ReadyForProvisioning", "ScalableRefNotFound", MINUTE).await;
    world.load(&deployment("late", 0, "100m", &json!({})));
    says(&world, "workload", "ReadyForProvisioning", "Resolved", 31 * SECOND).await;
    assert_eq!(process.metrics.runtime.reconcile_errors_total.value(["capacitybuffer"]), 0);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_buffer_that_names_another_workload_follows_that_one() {
    let world = world().await;
    let like = |name: &str| json!({"scalableRef": {"kind": "Deployment", "name": name}, "percentage": 100});
    world.load(&deployment("a", 2, "100m", &json!({})));
    world.load(&deployment("b", 3, "100m", &json!({})));
    buffer(&world, "share", &like("a"));
    let process = start(&world);
    let replicas = async |wanted: i32| {
        let reached = || status(&world, "share").replicas == Some(wanted);
        world.until(&format!("{wanted} replicas"), 3 * SECOND, reached).await;
    };
    says(&world, "share", "ReadyForProvisioning", "Resolved", MINUTE).await;
    change(&world, "share", &like("b")).await;
    replicas(3).await;
    world.patch::<Deployment>("b", json!({"spec": {"replicas": 7}})).await;
    replicas(7).await;
    process.stop().await;
}
