//! A scheduler that does not do what was planned.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::disruption::set;
use crate::world::{World, is_running};

const MINUTE: Duration = Duration::from_mins(1);
/// Taint that a foreign controller puts on nodes of the pool `default`.
const QUARANTINE: &str = "example.com/quarantine";

/// Plays the foreign controller: every node of the pool `default` is tainted as soon as it is there.
async fn quarantine(world: &World) {
    let nodes: Api<Node> = Api::all(world.client.clone());
    for node in world.nodes() {
        let mut taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
        let ours = node.labels().get("karpenter.sh/nodepool").is_some_and(|pool| pool == "default");
        if !ours || taints.iter().any(|taint| taint.key == QUARANTINE) {
            continue;
        }
        taints.push(Taint { key: QUARANTINE.into(), effect: "NoExecute".into(), ..Taint::default() });
        let change = Patch::Merge(json!({
            "metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints},
        }));
        let _conflict = nodes.patch(&node.name_any(), &PatchParams::default(), &change).await;
    }
}

/// A pod of this ReplicaSet, for machines of this pool.
fn pod_of(world: &World, owner: &str, pool: &str) {
    world.load(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": owner, "namespace": "default", "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true,
        }]},
        "spec": {
            "nodeSelector": {"karpenter.sh/nodepool": pool},
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        },
    }));
}

#[tokio::test(start_paused = true)]
async fn a_hold_names_the_node_concerns_its_own_workload_and_ends_with_what_it_rests_on() {
    let world = World::new().await;
    world.pool("default", &json!({"disruption": {"consolidateAfter": "Never"}}));
    pod_of(&world, "web", "default");
    let process = world.start();
    let ask = |question: &str| process.explanations.answer(&question.parse().unwrap());
    let held = || ask("pod/web").reasons.iter().any(|why| why.code == "PromisedNodeNotUsed");
    world
        .until("the pod is held", 15 * MINUTE, || async {
            quarantine(&world).await;
            held()
        })
        .await;

    // The explanation says which node it is, what it has that was not announced, and when the next try is.
    let text = ask("pod/web").reasons[0].text.clone();
    let named = world.nodes().iter().any(|node| text.contains(&node.name_any()));
    assert!(named && text.contains("taint `example.com/quarantine:NoExecute`"), "{text}");
    assert!(text.contains("; next try at 2026-01-0"), "{text}");
    let facts = ask("all").facts;
    assert!(facts.iter().any(|fact| fact.name == "pods without a place" && fact.value == "1"), "{facts:?}");
    let told = process.events.messages("FailedScheduling");
    assert!(told.iter().any(|text| text.contains("quarantine")), "{told:?}");

    // Another workload with the same requests, in a pool made since, has its machine as soon as ever.
    world.pool("other", &json!({}));
    pod_of(&world, "api", "other");
    let runs = |name: &'static str| {
        let world = &world;
        move || async move { world.pods().iter().any(|pod| pod.name_any() == name && is_running(pod)) }
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
    let world = World::new().await;
    world.pool("default", &json!({}));
    // No scheduler of this name runs: the pod is never bound.
    world.pod_with("web", "1", &json!({"schedulerName": "refuses"}));
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let status = json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]}});
    pods.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let process = world.start();
    let bought = || process.metrics.nodeclaims.created_total.value(["provisioned", "default", "false"]);
    world
        .until("the pod is held and its machine gone", Duration::from_mins(15), || async {
            !process.events.messages("PromisedNodeNotUsed").is_empty() && world.account.machines().is_empty()
        })
        .await;
    assert!((process.metrics.scheduler.held_pods_count.value([]) - 1.0).abs() < f64::EPSILON);
    tokio::time::sleep(Duration::from_hours(6)).await;
    assert_eq!(bought(), 3, "each pause is longer than the one before, and after three nodes it is a day");
    // The scheduler comes to its senses.
    world.delete_pod("web").await;
    world.pod("api", "2");
    world.all_running().await;
    process.stop().await;
}

/// Most nodes at once, and how many were bought, while the foreign controller taints every node of a pool of this
/// disruption for five minutes.
async fn tainted_and_disrupted(pods: u32, disruption: &Value) -> (usize, u64) {
    let world = World::new().await;
    world.pool("default", &json!({"disruption": disruption}));
    set(&world, "web", pods, "1", &json!({}));
    let process = world.start();
    let mut most = 0;
    for _ in 0..300 {
        quarantine(&world).await;
        most = most.max(world.nodes().len());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let bought = process.metrics.nodeclaims.created_total.value(["provisioned", "default", "false"]);
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
    set(&world, "web", 1, "1", &json!({}));
    let mut bought = 0;
    // Leaders die after times in which a node is asked for, comes, is found unused, and is removed.
    for seconds in [3, 20, 45, 70, 30, 61, 90, 15, 120, 50, 300, 600] {
        let process = world.start();
        for _ in 0..seconds {
            quarantine(&world).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        bought += process.metrics.nodeclaims.created_total.value(["provisioned", "default", "false"]);
        process.kill();
    }
    assert_eq!(bought, 3);
    // A person who knows better takes the record away.
    let process = world.start();
    tokio::time::sleep(MINUTE).await;
    let pools: Api<karpenter_api::NodePool> = Api::all(world.client.clone());
    let pool = pools.get("default").await.unwrap();
    assert!(pool.annotations().contains_key("karpenter.sh/unserved-workloads"));
    let without = json!({"metadata": {"annotations": {"karpenter.sh/unserved-workloads": null}}});
    pools.patch("default", &PatchParams::default(), &Patch::Merge(without)).await.unwrap();
    world.all_running().await;
    process.stop().await;
}
