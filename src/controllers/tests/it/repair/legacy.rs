//! Nodes that have been broken for too long are given up as v1.14 gave them up, with the setting for it: at once, whatever
//! budgets say, unless too many are.

use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_testkit::objects::{disruption_budget, on_port_80, pod};
use serde_json::{Value, json};

use super::{break_machines, is_there};
use crate::world::{MINUTE, Process, World};

/// So many nodes with one pod each, that nothing may be taken from voluntarily.
async fn running(nodes: usize) -> (World, Process) {
    let world = World::new().await;
    // A drain of a day: only the deadline that the repair sets can end it sooner.
    let spec = json!({
        "disruption": {"consolidateAfter": "Never"},
        "template": {"spec": {"terminationGracePeriod": "24h"}},
    });
    world.pool("default", &spec);
    for number in 0..nodes {
        world.pod_with(&format!("web-{number}"), "1", &on_port_80("1"));
    }
    let process = world.start_legacy_repair();
    world.all_running().await;
    assert_eq!(world.nodes().len(), nodes);
    (world, process)
}

#[tokio::test(start_paused = true)]
async fn a_broken_node_goes_after_its_toleration_whatever_protects_it() {
    let (world, process) = running(5).await;
    let broken = break_machines(&world, 1).remove(0);
    tokio::time::sleep(29 * MINUTE).await;
    assert!(is_there(&world, &broken), "it may recover");
    world.until("the broken node is gone", 10 * MINUTE, || !is_there(&world, &broken)).await;
    let metrics = &process.metrics.nodeclaims;
    assert_eq!(metrics.disrupted_total.value(["unhealthy", "default", "spot", "", "eventual"]), 1);
    assert_eq!(
        metrics.unhealthy_disrupted_total.value(["ready", "default", "spot", "image-1", "eventual"]),
        1
    );
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn more_than_a_fifth_is_not_the_fault_of_the_machines() {
    let (world, process) = running(5).await;
    let broken = break_machines(&world, 2);
    tokio::time::sleep(120 * MINUTE).await;
    for one in &broken {
        assert!(is_there(&world, one), "{one}");
    }
    let told = process.events.messages("NodeRepairBlocked");
    assert!(told.iter().all(|text| text.contains("2 of 5")) && told.len() >= 3, "{told:?}");
    // One of them recovers by itself: the other is one of five.
    world.agent.behave(&broken[0], Behaviour::Healthy);
    world.until("the other is gone", 15 * MINUTE, || !is_there(&world, &broken[1])).await;
    assert!(is_there(&world, &broken[0]));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_in_a_zone_the_cluster_is_shifted_away_from_are_left_alone_until_it_is_over() {
    let (world, process) = running(5).await;
    let zone = world.account.machines().remove(0).zone;
    world.account.shift_away([zone]);
    let broken = break_machines(&world, 1).remove(0);
    tokio::time::sleep(120 * MINUTE).await;
    assert!(is_there(&world, &broken));
    world.account.shift_away([]);
    world.until("the broken node is gone", 15 * MINUTE, || !is_there(&world, &broken)).await;
    process.stop().await;
}

/// A node with one pod that resists a drain: `protect` are annotations of the pod. Both stay where they are when the
/// node breaks, because the pod tolerates every taint.
async fn resisting(pool: &Value, protect: &Value) -> (World, Process) {
    let world = World::new().await;
    world.pool("default", pool);
    let change = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": protect},
        "spec": {"terminationGracePeriodSeconds": 3600, "tolerations": [{"operator": "Exists"}]},
    });
    world.load(&pod("web", "1", &change));
    world.load(&disruption_budget("web", "web", &json!({"maxUnavailable": 0})));
    let process = world.start_legacy_repair();
    world.all_running().await;
    (world, process)
}

#[tokio::test(start_paused = true)]
async fn budgets_protected_pods_and_grace_periods_hold_no_repair_up() {
    let protected = json!({"karpenter.sh/do-not-disrupt": "true"});
    let frozen = json!({"disruption": {"budgets": [{"nodes": "0"}]}});
    let graceful = json!({"template": {"spec": {"terminationGracePeriod": "24h"}}});
    for (what, pool, pod, mode) in [
        ("a budget of zero and one of pods", &frozen, &json!({}), "graceful"),
        ("a pod that must not be disrupted", &json!({}), &protected, "graceful"),
        ("the same with a grace period of a day", &graceful, &protected, "eventual"),
    ] {
        // The kubelet says that it is not ready, or says nothing more.
        for broken in [Behaviour::NotReady, Behaviour::Silent] {
            let (world, process) = resisting(pool, pod).await;
            let machine = world.account.machines()[0].clone();
            world.agent.behave(machine.instance_id.as_str(), broken);
            tokio::time::sleep(29 * MINUTE).await;
            assert!(is_there(&world, machine.instance_id.as_str()), "{what}: it may recover");
            // Half an hour from the transition, which a silent kubelet's leases delay; then the end of the machine.
            let gone = || !is_there(&world, machine.instance_id.as_str());
            world.until(&format!("{what}: the node is gone"), 5 * MINUTE, gone).await;
            let disrupted = &process.metrics.nodeclaims.disrupted_total;
            assert_eq!(disrupted.value(["unhealthy", "default", "spot", "", mode]), 1, "{what}");
            process.stop().await;
        }
    }
}
