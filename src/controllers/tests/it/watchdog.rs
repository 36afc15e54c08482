//! Liveness follows progress: a pass that hangs is named and has the process restarted, one that only waits
//! does not.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use karpenter_kube_harness::server::probe_routes;
use karpenter_kube_harness::watchdog;
use karpenter_kube_sim::apiserver::{Fault, Rule};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use crate::world::{MINUTE, Process, SECOND, World};

/// The answer to the liveness probe.
async fn live(process: &Process) -> Result<(), String> {
    let routes = probe_routes(process.readiness.clone(), process.metrics.progress.clone());
    let answer = routes.oneshot(Request::get("/healthz").body(Body::empty()).unwrap()).await.unwrap();
    let status = answer.status();
    let text = to_bytes(answer.into_body(), 10_000).await.unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    match status {
        StatusCode::OK => Ok(()),
        StatusCode::INTERNAL_SERVER_ERROR => Err(text),
        other => panic!("{other}: {text}"),
    }
}

async fn stays_live(process: &Process, span: Duration) {
    let until = tokio::time::Instant::now() + span;
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(live(process).await, Ok(()));
    }
}

/// The watchdog of this process, until dropped.
fn watched(process: &Process) -> DropGuard {
    let stop = CancellationToken::new();
    tokio::spawn(watchdog::run(process.metrics.clone(), stop.clone()));
    stop.drop_guard()
}

fn stuck(process: &Process, controller: &str) -> f64 {
    process.metrics.runtime.stuck_work.value([controller])
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_fails_the_probe_with_its_name_and_one_that_ends_does_not() {
    let world = World::with_pool(&json!({})).await;
    let process = world.start();
    let _watchdog = watched(&process);
    world.pod("web", "1");
    let hanging = Rule::on("patch").resource("nodeclaims/status").times(1);
    world.server.faults().inject(hanging, Fault::Delay(20 * MINUTE));
    world.until("there is a claim", MINUTE, || !world.claims().is_empty()).await;
    let claim = world.claims().remove(0).metadata.name.unwrap();
    stays_live(&process, 9 * MINUTE).await;
    tokio::time::sleep(2 * MINUTE).await;
    let told = live(&process).await.unwrap_err();
    assert!(told.starts_with(&format!("nodeclaim.lifecycle `{claim}`: no progress for ")), "{told}");
    assert!((stuck(&process, "nodeclaim.lifecycle") - 1.0).abs() < f64::EPSILON);
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(live(&process).await, Ok(()), "it has ended after all");
    assert!(stuck(&process, "nodeclaim.lifecycle").abs() < f64::EPSILON);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_has_nothing_to_do_or_waits_to_lead_is_live() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    let standby = world.start_waiting(60 * MINUTE);
    stays_live(&standby, 60 * MINUTE).await;
    world.all_running().await;
    stays_live(&standby, 60 * MINUTE).await;
    standby.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_answers_late_or_badly_is_no_reason_to_restart() {
    let world = World::with_pool(&json!({})).await;
    for pod in 0..10 {
        world.pod_with(
            &format!("web-{pod}"),
            "1",
            &json!({"containers": [{
                "name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}},
                "ports": [{"containerPort": 80, "hostPort": 80}],
            }]}),
        );
    }
    let faults = world.server.faults();
    faults.inject(Rule::on("patch"), Fault::Delay(MINUTE));
    faults.inject(Rule::on("patch"), Fault::InternalError);
    faults.inject(Rule::on("create").resource("nodeclaims"), Fault::Delay(MINUTE));
    faults.inject(Rule::on("create").resource("nodeclaims").one_in(2), Fault::InternalError);
    let process = world.start();
    stays_live(&process, 60 * MINUTE).await;
    world.server.faults().clear();
    world.all_running().await;
    process.stop().await;
}
