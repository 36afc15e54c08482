//! A scheduler that does not do what was planned.

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use karpenter_api::NodePool;
use karpenter_kube_sim::apiserver::{Fault, Rule};
use karpenter_testkit::objects::{on_port_80, pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, SECOND, World, is_running};

/// Taint that a foreign controller puts on nodes of the pool `default`.
const QUARANTINE: &str = "example.com/quarantine";

/// Plays the foreign controller: every node of the pool `default` is tainted as soon as it is there.
async fn quarantine(world: &World) {
    let quarantine = |node: &Node, taints: &mut Vec<Taint>| {
        let ours = node.labels().get("karpenter.sh/nodepool").is_some_and(|pool| pool == "default");
        if ours && taints.iter().all(|taint| taint.key != QUARANTINE) {
            taints.push(Taint { key: QUARANTINE.into(), effect: "NoExecute".into(), ..Taint::default() });
        }
    };
    world.change_taints(quarantine).await;
}

/// A pod of this ReplicaSet, for machines of this pool.
fn pod_of(world: &World, owner: &str, pool: &str) {
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true});
    let spec = json!({"nodeSelector": {"karpenter.sh/nodepool": pool}});
    world.load(&pod(owner, "1", &json!({"metadata": {"ownerReferences": [set]}, "spec": spec})));
}

#[tokio::test(start_paused = true)]
async fn a_hold_names_the_node_concerns_its_own_workload_and_ends_with_what_it_rests_on() {
    let world = World::with_pool(&json!({"disruption": {"consolidateAfter": "Never"}})).await;
    pod_of(&world, "web", "default");
    let process = world.start();
    let held = || process.explain("pod/web").reasons.iter().any(|why| why.code == "PromisedNodeNotUsed");
    let started = tokio::time::Instant::now();
    while !held() {
        assert!(started.elapsed() < 15 * MINUTE, "the pod is not held");
        quarantine(&world).await;
        tokio::time::sleep(SECOND).await;
    }

    // The explanation says which node it is, what it has that was not announced, and when the next try is.
    let text = process.explain("pod/web").reasons[0].text.clone();
    let named = world.nodes().iter().any(|node| text.contains(&node.name_any()));
    assert!(named && text.contains("taint `example.com/quarantine:NoExecute`"), "{text}");
    assert!(text.contains("; next try at 2026-01-0"), "{text}");
    let facts = process.explain("all").facts;
    assert!(facts.iter().any(|fact| fact.name == "pods without a place" && fact.value == "1"), "{facts:?}");
    let told = process.events.messages("FailedScheduling");
    assert!(told.iter().any(|text| text.contains("quarantine")), "{told:?}");

    // Another workload with the same requests, in a pool made since, has its machine as soon as ever.
    world.pool("other", &json!({}));
    pod_of(&world, "api", "other");
    let runs = |name: &'static str| {
        let world = &world;
        move || world.pods().iter().any(|pod| pod.name_any() == name && is_running(pod))
    };
    world.until("the other workload runs", MINUTE, runs("api")).await;
    assert!(held(), "that settles nothing about the first");

    // The foreign controller leaves nodes of another template alone.
    world.change_pool("default", &json!({"template": {"metadata": {"labels": {"vetted": "true"}}}})).await;
    world.until("the first workload runs", 2 * MINUTE, runs("web")).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_the_scheduler_refuses_to_use_are_not_bought_for_ever() {
    let world = World::with_pool(&json!({})).await;
    // No scheduler of this name runs: the pod is never bound.
    world.pod_with("web", "1", &json!({"schedulerName": "refuses"}));
    world.unschedulable("web").await;
    let process = world.start();
    let bought = || process.created(["provisioned", "default", "false"]);
    world
        .until("the pod is held and its machine gone", 15 * MINUTE, || {
            !process.events.messages("PromisedNodeNotUsed").is_empty() && world.account.machines().is_empty()
        })
        .await;
    assert!((process.metrics.scheduler.held_pods_count.value([]) - 1.0).abs() < f64::EPSILON);
    tokio::time::sleep(360 * MINUTE).await;
    assert_eq!(bought(), 3, "each pause is longer than the one before, and after three nodes it is a day");
    // The scheduler comes to its senses.
    world.delete::<Pod>("web").await;
    world.pod("api", "2");
    world.all_running().await;
    process.stop().await;
}

/// Most nodes at once, and how many were bought, while the foreign controller taints every node of a pool of this
/// disruption for five minutes.
async fn tainted_and_disrupted(pods: usize, disruption: &Value) -> (usize, u64) {
    let world = World::with_pool(&json!({"disruption": disruption})).await;
    world.set("web", pods, "1");
    let process = world.start();
    let mut most = 0;
    for _ in 0..300 {
        quarantine(&world).await;
        most = most.max(world.nodes().len());
        tokio::time::sleep(SECOND).await;
    }
    let bought = process.created(["provisioned", "default", "false"]);
    process.stop().await;
    (most, bought)
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_tainted_and_removed_are_not_bought_for_ever() {
    for disruption in [
        json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}),
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"}),
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}),
    ] {
        for pods in [1, 10] {
            let (most, bought) = tainted_and_disrupted(pods, &disruption).await;
            // All pods fit on one node. Three are bought until it is clear that nodes are no help.
            assert!(most <= 3 && bought <= 3, "{disruption}: {most} at once, {bought} in all");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_leader_buys_no_further_node() {
    let world = World::new().await;
    let disruption = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"});
    world.pool("default", &json!({"disruption": disruption}));
    world.set("web", 1, "1");
    let mut bought = 0;
    // Leaders die after times in which a node is asked for, comes, is found unused, and is removed.
    for seconds in [3, 20, 45, 70, 30, 61, 90, 15, 120, 50, 300, 600] {
        let process = world.start();
        for _ in 0..seconds {
            quarantine(&world).await;
            tokio::time::sleep(SECOND).await;
        }
        bought += process.created(["provisioned", "default", "false"]);
        process.kill();
    }
    assert_eq!(bought, 3);
    // A person who knows better takes the record away.
    let process = world.start();
    tokio::time::sleep(MINUTE).await;
    let pool = world.list::<NodePool>().remove(0);
    assert!(pool.annotations().contains_key("karpenter.sh/unserved-workloads"));
    let without = json!({"metadata": {"annotations": {"karpenter.sh/unserved-workloads": null}}});
    world.patch::<NodePool>("default", without).await;
    world.all_running().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_could_not_be_taken_away_goes_later() {
    let world = World::new().await;
    world.pool(
        "default",
        &json!({"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"}}),
    );
    world.set("web", 1, "1");
    let process = world.start();
    let recorded =
        || world.list::<NodePool>().remove(0).annotations().contains_key("karpenter.sh/unserved-workloads");
    while !recorded() {
        quarantine(&world).await;
        tokio::time::sleep(SECOND).await;
    }
    world.server.faults().inject(Rule::on("patch").resource("nodepools").times(1), Fault::InternalError);
    world.all_running().await;
    // Records are written with plans, so each pod needs a node of its own.
    for number in 1..4 {
        world.set_with(&format!("other-{number}"), 1, "1", &on_port_80("1"));
        world.until("the pod has a node", 5 * MINUTE, || world.nodes().len() > number).await;
    }
    assert!(!recorded());
    process.stop().await;
}
