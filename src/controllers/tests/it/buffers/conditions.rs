//! Status of a buffer, and the times of its changes.

use karpenter_kube_sim::apiserver::{Fault, Refusal, Rule};

use super::*;

/// A world with a pool that can buy nothing, so that only the buffers change.
async fn world() -> World {
    let world = World::new().await;
    world.pool("default", &json!({"limits": {"nodes": "0"}}));
    world
}

fn deployment(world: &World, name: &str, replicas: u32) {
    world.load(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
            },
        },
    }));
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
    says(&world, "template", "ReadyForProvisioning", "Resolved", Duration::from_secs(3)).await;
    deployment(&world, "late", 0);
    says(&world, "workload", "ReadyForProvisioning", "Resolved", Duration::from_secs(3)).await;
    change(&world, "nothing", &json!({"podTemplateRef": {"name": "late"}})).await;
    says(&world, "nothing", "ReadyForProvisioning", "Resolved", Duration::from_secs(3)).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_share_of_a_workload_follows_it_at_once() {
    let world = World::new().await;
    world.pool("default", &json!({}));
    deployment(&world, "web", 10);
    let like = json!({"apiGroup": "", "kind": "Deployment", "name": "web"});
    buffer(&world, "share", &json!({"scalableRef": like, "percentage": 20}));
    let process = start(&world);
    let replicas = |wanted: i32, limit: Duration| {
        let world = &world;
        async move {
            let what = format!("{wanted} replicas");
            world.until(&what, limit, || async { status(world, "share").replicas == Some(wanted) }).await;
        }
    };
    replicas(2, MINUTE).await;
    let share = status(&world, "share");
    assert_eq!((share.pod_template_ref, share.pod_template_generation), (None, None));
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(world.client.clone(), "default");
    let scaled = Patch::Merge(json!({"spec": {"replicas": 5}}));
    api.patch("web", &PatchParams::default(), &scaled).await.unwrap();
    replicas(1, Duration::from_secs(3)).await;
    let scaled = Patch::Merge(json!({"spec": {"replicas": 20}}));
    api.patch("web", &PatchParams::default(), &scaled).await.unwrap();
    replicas(4, Duration::from_secs(3)).await;
    change(&world, "share", &json!({"limits": {"cpu": "250m"}})).await;
    replicas(2, Duration::from_secs(3)).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_template_is_read_at_once_and_room_for_it_is_bought() {
    let (world, process) = with_room(1, &json!({})).await;
    template_takes(&world, "spare", "12").await;
    world
        .until("the status shows it", Duration::from_secs(3), || async {
            status(&world, "spare").pod_template_generation == Some(2)
        })
        .await;
    world
        .until("a large node holds the room and the small one is gone", 10 * MINUTE, || async {
            let nodes = world.nodes();
            nodes.len() == 1 && cores(&nodes[0]) >= 12
        })
        .await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_stops_leading_anywhere_gives_the_room_back() {
    let (world, process) = with_room(1, &json!({})).await;
    let api: Api<PodTemplate> = Api::namespaced(world.client.clone(), "default");
    api.delete("spare", &DeleteParams::default()).await.unwrap();
    says(&world, "spare", "ReadyForProvisioning", "PodTemplateNotFound", Duration::from_secs(3)).await;
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
    says(&world, "spare", "ReadyForProvisioning", "Resolved", Duration::from_secs(5)).await;
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
    let may_not = Refusal {
        code: 403,
        reason: "Forbidden",
        message: "deployments.apps is forbidden".to_owned(),
        subject: None,
        causes: Vec::new(),
        retry_after_seconds: None,
    };
    for verb in ["list", "watch"] {
        let rule = Rule::on(verb).resource("deployments");
        world.server.faults().inject(rule, Fault::Refuse(Box::new(may_not.clone())));
    }
    let like = json!({"kind": "Deployment", "name": "late"});
    buffer(&world, "workload", &json!({"scalableRef": like, "replicas": 1}));
    let process = start(&world);
    says(&world, "workload", "ReadyForProvisioning", "ScalableRefNotFound", MINUTE).await;
    deployment(&world, "late", 0);
    says(&world, "workload", "ReadyForProvisioning", "Resolved", Duration::from_secs(31)).await;
    assert_eq!(process.metrics.runtime.reconcile_errors_total.value(["capacitybuffer"]), 0);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_buffer_that_names_another_workload_follows_that_one() {
    let world = world().await;
    let like = |name: &str| json!({"scalableRef": {"kind": "Deployment", "name": name}, "percentage": 100});
    deployment(&world, "a", 2);
    deployment(&world, "b", 3);
    buffer(&world, "share", &like("a"));
    let process = start(&world);
    let replicas = |wanted: i32| {
        let world = &world;
        async move {
            let what = format!("{wanted} replicas");
            let reached = || async { status(world, "share").replicas == Some(wanted) };
            world.until(&what, Duration::from_secs(3), reached).await;
        }
    };
    says(&world, "share", "ReadyForProvisioning", "Resolved", MINUTE).await;
    change(&world, "share", &like("b")).await;
    replicas(3).await;
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(world.client.clone(), "default");
    let scaled = Patch::Merge(json!({"spec": {"replicas": 7}}));
    api.patch("b", &PatchParams::default(), &scaled).await.unwrap();
    replicas(7).await;
    process.stop().await;
}
