//! Pools with a fixed number of nodes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_kube_sim::apiserver::{Fault, Rule};
use karpenter_testkit::objects::{one_of, pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{Crash, MINUTE, Process, World, is_running};

async fn world(spec: &Value) -> World {
    let world = World::new().await;
    world.pool("fixed", spec);
    world
}

fn start(world: &World, crash: Crash) -> Process {
    world.start_crashing(crash, |gates| gates.static_capacity = true)
}

/// Waits until there are this number of nodes, all initialized, and as many machines.
async fn settles(world: &World, nodes: usize) {
    world
        .until(&format!("{nodes} nodes"), 10 * MINUTE, || {
            world.has_nodes(nodes) && world.account.machines().len() == nodes
        })
        .await;
}

async fn settled(world: &World, nodes: usize) {
    settles(world, nodes).await;
    tokio::time::sleep(5 * MINUTE).await;
    settles(world, nodes).await;
    world.one_machine_per_claim().await;
}

#[tokio::test(start_paused = true)]
async fn the_number_is_kept_whatever_happens_to_single_nodes() {
    let world = world(&json!({"replicas": 3, "disruption": {"consolidateAfter": "0s"}})).await;
    let process = start(&world, Crash::Never);
    settled(&world, 3).await;
    assert_eq!(process.created(["provisioned", "fixed", "false"]), 3);
    let claim = world.claims().remove(0).name_any();
    world.delete::<NodeClaim>(&claim).await;
    tokio::time::sleep(MINUTE).await;
    settled(&world, 3).await;
    assert!(!world.claims().iter().any(|one| one.name_any() == claim));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_an_error_and_tried_again() {
    let world = world(&json!({"replicas": 2})).await;
    let process = start(&world, Crash::Never);
    settles(&world, 2).await;
    world.server.faults().inject(Rule::on("delete").resource("nodeclaims").times(1), Fault::InternalError);
    world.change_pool("fixed", &json!({"replicas": 1})).await;
    settled(&world, 1).await;
    assert_eq!(process.metrics.runtime.reconcile_errors_total.value(["static.deprovisioning"]), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scaling_up_stops_at_the_node_limit_and_goes_on_when_it_is_raised() {
    let world = world(&json!({"replicas": 5, "limits": {"nodes": "2"}})).await;
    let process = start(&world, Crash::Never);
    settled(&world, 2).await;
    world.change_pool("fixed", &json!({"limits": {"nodes": "4"}})).await;
    settled(&world, 4).await;
    world.change_pool("fixed", &json!({"limits": null})).await;
    settled(&world, 5).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scaling_down_takes_empty_nodes_first_and_protected_ones_last() {
    let world = world(&json!({"replicas": 4})).await;
    let process = start(&world, Crash::Never);
    settles(&world, 4).await;
    let nodes: Vec<String> = world.nodes().iter().map(ResourceExt::name_any).collect();
    let on = |node: &str| json!({"nodeName": node});
    world.pod_with("busy", "1", &on(&nodes[0]));
    world.pod_with("more", "1", &on(&nodes[1]));
    world.pod_with("most", "1", &on(&nodes[1]));
    let protected = json!({"annotations": {"karpenter.sh/do-not-disrupt": "true"}});
    world.load(&pod("protected", "1", &json!({"metadata": protected, "spec": on(&nodes[2])})));
    world.until("the pods run", 2 * MINUTE, || world.pods().iter().all(is_running)).await;
    for (replicas, gone) in [(3, &nodes[3]), (2, &nodes[0]), (1, &nodes[1])] {
        world.change_pool("fixed", &json!({"replicas": replicas})).await;
        settled(&world, replicas).await;
        assert!(!world.nodes().iter().any(|node| node.name_any() == *gone), "{replicas} left");
    }
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn zero_is_a_number_and_without_the_gate_nobody_counts() {
    let world = world(&json!({"replicas": 2})).await;
    let process = world.start();
    tokio::time::sleep(5 * MINUTE).await;
    assert!(world.claims().is_empty(), "the gate is closed");
    process.stop().await;
    let process = start(&world, Crash::Never);
    settles(&world, 2).await;
    world.change_pool("fixed", &json!({"replicas": 0})).await;
    world.all_gone().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_neither_loses_nor_doubles_a_node() {
    for write in 0..14 {
        for crash in [Crash::BeforeWrite(write), Crash::AfterWrite(write)] {
            let world = world(&json!({"replicas": 2})).await;
            let first = start(&world, crash);
            tokio::select! {
                () = first.calls.crashed() => {}
                () = settles(&world, 2) => {}
            }
            first.kill();
            let second = start(&world, Crash::Never);
            settles(&world, 2).await;
            world.one_machine_per_claim().await;
            second.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_carry_what_the_template_says() {
    let template = json!({
        "metadata": {"labels": {"team": "a"}, "annotations": {"example.com/why": "b"}},
        "spec": {
            "taints": [{"key": "example.com/only", "value": "c", "effect": "NoSchedule"}],
            "requirements": [
                one_of("topology.kubernetes.io/zone", &["zone-b"]),
                one_of("example.com/shelf", &["d"]),
            ],
        },
    });
    let world = world(&json!({"replicas": 2, "template": template})).await;
    let process = start(&world, Crash::Never);
    settled(&world, 2).await;
    for node in world.nodes() {
        for (key, value) in [
            ("team", "a"),
            ("example.com/shelf", "d"),
            ("topology.kubernetes.io/zone", "zone-b"),
            ("karpenter.sh/nodepool", "fixed"),
        ] {
            assert_eq!(node.labels().get(key).map(String::as_str), Some(value), "{key}");
        }
        assert_eq!(node.annotations()["example.com/why"], "b");
        let taints = json!(node.spec.unwrap().taints);
        assert_eq!(taints, json!([{"key": "example.com/only", "value": "c", "effect": "NoSchedule"}]));
    }
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_pool_beside_it_grows_and_shrinks_and_changes_nothing_here() {
    let world = world(&json!({"replicas": 2, "disruption": {"consolidateAfter": "0s"}})).await;
    // A pod fits on no node of the fixed pool.
    let small = [one_of("node.kubernetes.io/instance-type", &["small"])];
    world.change_pool("fixed", &json!({"template": {"spec": {"requirements": small}}})).await;
    world.pool("dynamic", &json!({}));
    let process = start(&world, Crash::Never);
    settled(&world, 2).await;
    let of = |pool: &str| -> Vec<String> {
        let claims = world.claims().into_iter();
        claims
            .filter(|claim| claim.labels()["karpenter.sh/nodepool"] == pool)
            .map(|claim| claim.name_any())
            .collect()
    };
    let fixed = of("fixed");
    for number in 0..3 {
        world.pod(&format!("web-{number}"), "3");
    }
    world.all_running().await;
    assert!(!of("dynamic").is_empty());
    // A pod that fits in free room of the fixed pool goes there, and buys nothing.
    let before = of("dynamic");
    world.pod("small", "1");
    world.all_running().await;
    assert_eq!(of("dynamic"), before);
    world.change_pool("fixed", &json!({"replicas": 3})).await;
    world.until("another node of the fixed pool", 5 * MINUTE, || of("fixed").len() == 3).await;
    for number in 0..3 {
        world.delete::<Pod>(&format!("web-{number}")).await;
    }
    world.until("the dynamic pool is empty", 10 * MINUTE, || of("dynamic").is_empty()).await;
    settled(&world, 3).await;
    assert!(fixed.iter().all(|name| of("fixed").contains(name)), "none of them was replaced");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_in_quick_succession_end_at_the_last_one() {
    let world = world(&json!({"replicas": 2})).await;
    let process = start(&world, Crash::Never);
    settles(&world, 2).await;
    for replicas in [6, 1, 8, 3, 0, 4] {
        world.change_pool("fixed", &json!({"replicas": replicas})).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    settled(&world, 4).await;
    // Another template while the number changes: every node is of the last template in the end.
    let labelled = json!({"replicas": 5, "template": {"metadata": {"labels": {"team": "a"}}}});
    world.change_pool("fixed", &labelled).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    world.change_pool("fixed", &json!({"replicas": 3})).await;
    let replaced = || {
        let nodes = world.nodes();
        nodes.len() == 3 && nodes.iter().all(|node| node.labels().contains_key("team"))
    };
    world.until("three nodes of the last template", 30 * MINUTE, replaced).await;
    settled(&world, 3).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_deleted_while_it_grows_takes_every_node_along() {
    for moment in [0, 2, 20, 300] {
        let world = world(&json!({"replicas": 2})).await;
        let process = start(&world, Crash::Never);
        settles(&world, 2).await;
        world.change_pool("fixed", &json!({"replicas": 6})).await;
        tokio::time::sleep(Duration::from_secs(moment)).await;
        world.delete::<NodePool>("fixed").await;
        world.all_gone().await;
        assert!(world.list::<NodePool>().is_empty(), "{moment} s");
        tokio::time::sleep(10 * MINUTE).await;
        world.all_gone().await;
        process.stop().await;
    }
}
