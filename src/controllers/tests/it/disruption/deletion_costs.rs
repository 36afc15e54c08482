//! Deletion costs of pods: who reads which annotation, and what the controller writes with its gate open.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use karpenter_controllers::deletion_cost_rbac;
use karpenter_kube_sim::apiserver::{Fault, Rule};
use karpenter_testkit::objects::{replica_set, with};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{pool, settled};
use crate::world::{MINUTE, Process, World};

const OLD: &str = "controller.kubernetes.io/pod-deletion-cost";
const OWN: &str = "karpenter.sh/disruption-cost";

/// A pod that comes back on the node with the same annotations.
fn annotated(world: &World, annotations: &Value) {
    let annotated = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    world.load(&with(replica_set("web", 1, "1", &json!({})), &annotated));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_pods_cost_nothing_is_empty_by_the_annotation_that_counts() {
    let (least, most) = ("-2147483648", "2147483647");
    // Columns: the gate is open; annotations of the only pod; its node is empty.
    let table = [
        (false, json!({OLD: least}), true),
        (false, json!({OLD: least, OWN: "0"}), false),
        (false, json!({OLD: most, OWN: least}), true),
        (false, json!({OLD: least, OWN: "little"}), false),
        (true, json!({OLD: least}), false),
        (true, json!({OWN: least}), true),
    ];
    for (managed, annotations, empty) in table {
        let world = World::new().await;
        let when_empty = json!({"consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty"});
        world.pool("default", &pool(&["small"], &when_empty));
        annotated(&world, &annotations);
        let process = world.start_gated(|gates| gates.pod_deletion_cost_management = managed);
        settled(&world, 1, 1).await;
        let first = world.claim_names();
        tokio::time::sleep(4 * MINUTE).await;
        let gone = world.claim_names().is_disjoint(&first);
        assert_eq!(gone, empty, "gate {managed}, {annotations}");
        process.stop().await;
    }
}

/// Returns the deletion cost in each pod's annotation, by its node.
fn costs(world: &World) -> BTreeMap<String, Vec<Option<String>>> {
    let mut costs: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for pod in world.pods() {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        costs.entry(node).or_default().push(pod.annotations().get(OLD).cloned());
    }
    costs
}

/// Three machines, each with two pods of one set, which consolidation may not touch for an hour.
async fn three(budget: &str) -> (World, Process) {
    let world = World::new().await;
    let disruption = json!({"consolidateAfter": "1h", "budgets": [{"nodes": budget}]});
    world.pool("default", &pool(&["small"], &disruption));
    world.set("web", 6, "800m");
    let process = world.start_gated(|gates| gates.pod_deletion_cost_management = true);
    settled(&world, 6, 3).await;
    (world, process)
}

/// The ranks that nodes have, the lowest first; those of one node are the same.
fn ranks(world: &World) -> Vec<String> {
    let all = costs(world);
    assert!(all.values().all(|pods| pods.windows(2).all(|two| two[0] == two[1])), "{all:?}");
    let mut ranks: Vec<String> = all.into_values().filter_map(|pods| pods[0].clone()).collect();
    ranks.sort_by_key(|rank| rank.parse::<i64>().unwrap());
    ranks
}

#[tokio::test(start_paused = true)]
async fn a_scale_in_deletes_the_pods_of_the_node_that_goes_next() {
    let (world, process) = three("100%").await;
    world.until("every node has a rank", 7 * MINUTE, || ranks(&world) == ["-3", "-2", "-1"]).await;
    let first = costs(&world).into_iter().find(|(_, pods)| pods[0].as_deref() == Some("-3")).unwrap().0;
    world.scale("web", 4).await;
    world.until("four pods are left", MINUTE, || world.pods().len() == 4).await;
    let left = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(first.as_str());
    assert!(!world.pods().iter().any(left), "both pods of `{first}` were deleted");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_for_them_pods_lose_their_costs() {
    let (world, process) = three("2").await;
    world.until("two nodes have a rank", 7 * MINUTE, || ranks(&world) == ["-2", "-1"]).await;
    world.change_pool("default", &json!({"disruption": {"budgets": [{"nodes": "0"}]}})).await;
    world.until("none has", 7 * MINUTE, || ranks(&world).is_empty()).await;
    let pending = &process.metrics.pods.nodes_with_pending_deletion_costs;
    assert!(pending.value(["default"]).abs() < f64::EPSILON);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_written_by_the_next_look() {
    let world = World::new().await;
    world.pool(
        "default",
        &pool(&["small"], &json!({"consolidateAfter": "1h", "budgets": [{"nodes": "100%"}]})),
    );
    world.set("web", 2, "800m");
    world.server.faults().inject(Rule::on("patch").resource("pods").times(1), Fault::Conflict);
    let process = world.start_gated(|gates| gates.pod_deletion_cost_management = true);
    settled(&world, 2, 1).await;
    let both = || world.pods().iter().all(|pod| pod.annotations().get(OLD).is_some_and(|cost| cost == "-1"));
    world.until("both pods have the rank", 8 * MINUTE, both).await;
    let writes = &process.metrics.pods.deletion_cost_writes_total;
    assert_eq!((writes.value(["skipped_conflict"]), writes.value(["updated"])), (1, 2));
    tokio::time::sleep(6 * MINUTE).await;
    assert_eq!(writes.value(["updated"]), 2, "nothing is written twice");
    assert!(writes.value(["skipped_unchanged"]) > 0);
    let patched = |(verb, path): &(String, String)| verb == "PATCH" && path.contains("/pods/web");
    assert!(
        process.calls.seen().iter().any(patched),
        "with the right that `{:?}` gives",
        deletion_cost_rbac()
    );
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_the_gate_closed_no_pod_is_written() {
    let world = World::with_pool(&pool(&["small"], &json!({"consolidateAfter": "1h"}))).await;
    world.set("web", 2, "800m");
    let process = world.start();
    settled(&world, 2, 1).await;
    tokio::time::sleep(10 * MINUTE).await;
    let patched = |(verb, path): &(String, String)| {
        verb == "PATCH" && path.contains("/pods/") && !path.ends_with("/status")
    };
    assert!(!process.calls.seen().iter().any(patched));
    process.stop().await;
}
