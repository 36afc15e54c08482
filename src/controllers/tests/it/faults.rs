//! A bad day of the API server.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_kube_sim::apiserver::{Fault, Rule};
use serde_json::json;

use crate::world::{MINUTE, SECOND, World};

#[tokio::test(start_paused = true)]
async fn conflicts_refusals_and_slow_answers_only_delay() {
    let world = World::with_pool(&json!({})).await;
    let faults = world.server.faults();
    let turn_bad = || {
        faults.inject(Rule::on("patch").one_in(3), Fault::Conflict);
        faults.inject(Rule::any().resource("nodeclaims").one_in(5), Fault::InternalError);
        faults.inject(Rule::on("create").resource("nodeclaims").times(1), Fault::TooManyRequests(1));
        faults.inject(Rule::any().one_in(4), Fault::Delay(Duration::from_millis(700)));
    };
    turn_bad();
    for pod in 0..5 {
        world.pod(&format!("web-{pod}"), "1");
    }
    let process = world.start();
    world.all_running().await;
    // Calls that were refused often are tried again within a minute.
    faults.clear();
    world.one_machine_per_claim().await;
    turn_bad();
    for pod in 0..5 {
        world.delete::<Pod>(&format!("web-{pod}")).await;
    }
    world.all_gone().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn broken_watches_lose_nothing() {
    let world = World::with_pool(&json!({})).await;
    let process = world.start();
    for pod in 0..4 {
        world.pod(&format!("web-{pod}"), "1");
        world.server.faults().break_watches("");
        tokio::time::sleep(7 * SECOND).await;
    }
    world.all_running().await;
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_claim_that_cannot_be_written_delays_no_other() {
    let world = World::with_pool(&json!({})).await;
    world.pod("stuck", "1");
    let process = world.start();
    world.until("there is a claim", MINUTE, || !world.claims().is_empty()).await;
    let stuck = world.claims().remove(0).metadata.name.unwrap();
    let faults = world.server.faults();
    faults.inject(Rule::on("patch").resource("nodeclaims").name(&stuck), Fault::InternalError);
    faults.inject(Rule::on("patch").resource("nodeclaims/status").name(&stuck), Fault::InternalError);
    for pod in 0..3 {
        world.pod(&format!("web-{pod}"), "14");
    }
    let others_run = || {
        let pods = world.pods();
        let others = pods.iter().filter(|pod| pod.metadata.name.as_deref() != Some("stuck"));
        others.filter(|pod| crate::world::is_running(pod)).count() == 3
    };
    world.until("the other pods run", 3 * MINUTE, others_run).await;
    process.stop().await;
}
