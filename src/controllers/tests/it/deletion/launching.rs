//! Claims that go while their machines are being launched: nothing of them is left, whatever other clients
//! write meanwhile and wherever the process dies.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodeClaim;
use karpenter_cloud::InstanceState;
use karpenter_kube_sim::apiserver::{Fault, Rule};
use kube::ResourceExt;
use serde_json::json;

use super::{Part, take};
use crate::crash::at_every_write;
use crate::world::{Crash, MINUTE, Process, World};

/// Time from the machine to the answer of the launch.
const ANSWER: Duration = Duration::from_secs(5);
/// Enough to start the termination of every known machine; garbage collection comes later.
const SOON: Duration = MINUTE;

/// A cluster whose only pool asks for this number of machines.
async fn wanting(machines: usize, crash: Crash) -> (World, Process) {
    let mut world = World::new().await;
    world.launches_take = ANSWER;
    world.pool("default", &json!({"disruption": {"consolidateAfter": "Never"}}));
    for pod in 0..machines {
        world.pod(&format!("web-{pod}"), "14");
    }
    let process = world.start_with(crash);
    (world, process)
}

/// Deletes the pool as soon as all machines are there, which is before any launch is answered.
async fn delete_during_launch(world: &World, machines: usize) {
    let launched = || world.account.machines().len() == machines;
    world.until("the machines are there", SOON, launched).await;
    take(world, Part::Pool).await;
}

/// Waits until no claim and no machine is left. The Node of a machine that joined while it was being
/// terminated is the business of the cloud's own controller.
async fn nothing_runs(world: &World) {
    let gone = || world.claims().is_empty() && world.account.machines().is_empty();
    world.until("no claim and no machine is left", 20 * MINUTE, gone).await;
}

fn all_end(world: &World) -> bool {
    world.account.machines().iter().all(|machine| machine.state == InstanceState::ShuttingDown)
}

#[tokio::test(start_paused = true)]
async fn machines_of_claims_that_go_together_during_their_launch_are_terminated() {
    for machines in [1, 2, 3] {
        for conflicts in [0, 1, 4] {
            let (world, process) = wanting(machines, Crash::Never).await;
            delete_during_launch(&world, machines).await;
            for resource in ["nodeclaims", "nodeclaims/status"] {
                let rule = Rule::on("patch").resource(resource).times(conflicts);
                world.server.faults().inject(rule, Fault::Conflict);
            }
            world.until("every machine is terminating", SOON, || all_end(&world)).await;
            nothing_runs(&world).await;
            process.stop().await;
        }
    }
}

/// Deletes everything during the launch of `machines`, with a crash at the chosen write; false when there was no such
/// write.
async fn survives(machines: usize, crash: Crash) -> bool {
    let (world, first) = wanting(machines, crash).await;
    let story = async {
        delete_during_launch(&world, machines).await;
        nothing_runs(&world).await;
    };
    let crashed = tokio::select! {
        () = first.calls.crashed() => true,
        () = story => false,
    };
    first.kill();
    if !crashed {
        return false;
    }
    take(&world, Part::Pool).await;
    let second = world.start();
    nothing_runs(&world).await;
    second.stop().await;
    true
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_while_they_go_leaks_nothing() {
    for machines in [2, 3] {
        at_every_write(8, async |crash| survives(machines, crash).await).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_moment_of_the_launch_leaks_nothing() {
    for moment in 0..24 {
        let (world, first) = wanting(3, Crash::Never).await;
        tokio::time::sleep(Duration::from_millis(500) * moment).await;
        first.kill();
        take(&world, Part::Pool).await;
        let second = world.start();
        nothing_runs(&world).await;
        second.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn machines_that_no_claim_is_left_of_are_terminated() {
    let (world, process) = wanting(3, Crash::Never).await;
    world.all_running().await;
    process.kill();
    for pod in world.pods() {
        world.delete::<Pod>(&pod.name_any()).await;
    }
    for claim in world.claims() {
        let name = claim.name_any();
        world.patch::<NodeClaim>(&name, json!({"metadata": {"finalizers": null}})).await;
        world.delete::<NodeClaim>(&name).await;
    }
    assert_eq!((world.claims().len(), world.account.machines().len()), (0, 3));
    let process = world.start();
    let gone = || world.account.machines().is_empty();
    world.until("the machines are gone", 5 * MINUTE, gone).await;
    process.stop().await;
}
