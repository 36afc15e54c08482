//! Deletion costs of pods, by their node and workload.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_testkit::snapshot;

use super::*;

/// A type of each size.
const TYPES: &str = "
type  small  cpu=2 mem=4Gi  pods=10 od=0.10 zones=a
type  medium cpu=4 mem=8Gi  pods=20 od=0.20 zones=a
type  large  cpu=8 mem=16Gi pods=40 od=0.40 zones=a
";

/// A machine of each with a pod; the largest saves most for what it disturbs.
const THREE: &str = "
node  one   pool=web type=small  zone=a capacity=on-demand
node  two   pool=web type=medium zone=a capacity=on-demand
node  three pool=web type=large  zone=a capacity=on-demand
pod   p1 cpu=1 on=one
pod   p2 cpu=1 on=two
pod   p3 cpu=1 on=three
";

/// A cluster with one pool of these options.
fn world(pool: &str, rest: &str) -> String {
    format!("{TYPES}pool web types=* {pool}\n{rest}")
}

/// Cost by pod of what would be written.
fn written(text: &str) -> BTreeMap<String, Option<i32>> {
    let snapshot = snapshot(text);
    let nodes = repricings(&snapshot).nodes;
    let pods =
        nodes.iter().flat_map(|node| node.pods.iter().map(|(key, _)| (key.name.to_string(), node.cost)));
    pods.collect()
}

fn costs(pairs: &[(&str, i32)]) -> BTreeMap<String, Option<i32>> {
    pairs.iter().map(|(pod, cost)| ((*pod).to_owned(), Some(*cost))).collect()
}

#[test]
fn ranks_are_consecutive_in_the_order_of_disruption() {
    let all = "budget=100%";
    assert_eq!(written(&world(all, THREE)), costs(&[("p3", -3), ("p2", -2), ("p1", -1)]));
    let drifted =
        THREE.replace("node  one ", "node  one drifted=1m ").replace("node  two ", "node  two drifted=5m ");
    let want = costs(&[("p2", -3), ("p1", -2), ("p3", -1)]);
    assert_eq!(written(&world(all, &drifted)), want, "drifted nodes first, the oldest drift at the head");
}

#[test]
fn only_as_many_nodes_as_budgets_let_go_have_a_rank() {
    let table = [
        ("budget=0", costs(&[])),
        ("budget=1", costs(&[("p3", -1)])),
        ("budget=2", costs(&[("p3", -2), ("p2", -1)])),
        ("consolidate=never budget=100%", costs(&[])),
        ("replicas=3 budget=100%", costs(&[])),
    ];
    for (pool, want) in table {
        assert_eq!(written(&world(pool, THREE)), want, "{pool}");
    }
}

#[test]
fn nodes_that_go_are_lowest_and_use_no_rank() {
    let tainted = THREE.replace("node  one ", "node  one taint=karpenter.sh/disrupted:NoSchedule ");
    let want = costs(&[("p1", i32::MIN), ("p3", -2), ("p2", -1)]);
    assert_eq!(written(&world("budget=100%", &tainted)), want);
}

#[test]
fn nodes_that_stay_whatever_happens_have_none() {
    let table = [
        ("a pod of a stateful set", "pod  x cpu=100m owner=statefulset on=three\n"),
        ("a pod without a controller", "pod  x cpu=100m owner=none on=three\n"),
        ("a pod that must not be disrupted", "pod  x cpu=100m do-not-disrupt on=three\n"),
        (
            "a pod of a budget that lets none go",
            "pod  x cpu=100m label=app=x on=three\npdb x label=app=x allowed=0\n",
        ),
    ];
    for (what, more) in table {
        let written = written(&world("budget=100%", &format!("{THREE}{more}")));
        assert_eq!(written.get("p3"), None, "{what}");
        assert_eq!((written["p2"], written["p1"]), (Some(-2), Some(-1)), "{what}");
    }
    let system = "pod  x cpu=100m owner=statefulset ns=kube-system on=three\n";
    assert_eq!(written(&world("budget=100%", &format!("{THREE}{system}")))["p3"], Some(-3));
    let annotated = THREE.replace("node  three ", "node  three annotation=karpenter.sh/do-not-disrupt=true ");
    assert_eq!(written(&world("budget=100%", &annotated)).get("p3"), None);
}

#[test]
fn what_is_as_it_should_be_is_not_written_and_what_should_not_be_is_removed() {
    let mut snapshot = snapshot(&world("budget=1", THREE));
    for node in &mut snapshot.nodes {
        let node = Arc::make_mut(node);
        for pod in &mut node.pods {
            Arc::make_mut(pod).written_deletion_cost = Some(-1);
        }
    }
    let Repricings { nodes, unchanged } = repricings(&snapshot);
    assert_eq!(unchanged, 1, "the pod of the node that goes first");
    let pods: Vec<_> = nodes.iter().map(|node| (node.node.to_string(), node.cost)).collect();
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|(_, cost)| cost.is_none()), "{pods:?}");
}

#[test]
fn pods_that_no_replica_set_owns_are_left_alone() {
    let daemon = format!("{THREE}pod  d cpu=100m owner=daemonset on=three\n");
    let written = written(&world("budget=100%", &daemon));
    assert!(!written.contains_key("d"));
    assert_eq!(written["p3"], Some(-3));
}
