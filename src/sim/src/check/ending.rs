//! Liveness: once nothing goes wrong any more, every pod runs, every machine has its claim and every claim its Node, no
//! node stands empty or is not ready, what claims and Nodes say of their machines is so, and pools with a fixed number of machines have it.

use std::sync::Arc;

use karpenter_kube_sim::apiserver::object::{self, Key, text};
use karpenter_model::names::{condition, label};
use serde_json::Value;

use super::candidates::stays;
use super::drift::is_outdated;
use super::{Scene, claim_of, fixed, labels, pool_of};

/// Missing things, in words; empty when all is well.
pub(crate) type Unfinished = Vec<String>;

/// Looks at everything.
pub(super) fn unfinished(scene: &Scene) -> Unfinished {
    let mut missing = Unfinished::new();
    for pod in scene.pods.values() {
        let is_well =
            matches!(text(pod, "/status/phase"), "Running" | "Succeeded") && !object::is_deleting(pod);
        if !is_well && !is_stranded(scene, pod) {
            missing.push(format!("pod {} does not run{}", object::name(pod), reason(pod)));
        }
    }
    for instance in scene.alive().filter(|instance| scene.claim(claim_of(instance)).is_none()) {
        missing.push(format!("{} has no claim", instance.id));
    }
    for claim in scene.claims.values().filter(|claim| !waits_for_ever(scene, claim)) {
        if object::is_deleting(claim) || object::condition(claim, "Initialized") != Some("True") {
            missing.push(format!("claim {} has not settled", object::name(claim)));
        } else if is_outdated(scene, claim) && !is_held(scene, claim) && !is_blocked(scene, claim) {
            missing.push(format!("claim {} is not what its pool would make today", object::name(claim)));
        }
    }
    missing.extend(labels::wrong(scene));
    for node in scene.nodes.values() {
        let ours = object::label(node, label::NODE_POOL).is_some();
        if ours && !is_ready(node) && !is_blocked(scene, node) {
            missing.push(format!("node {} is not ready", object::name(node)));
        }
        if ours && !is_of_fixed_pool(scene, node) && is_empty(scene, node) && !is_blocked(scene, node) {
            missing.push(format!("node {} is empty", object::name(node)));
        }
    }
    for pool in scene.pools.values() {
        let Some(wanted) = fixed::replicas(pool) else { continue };
        let there = fixed::machines(scene, object::name(pool)).count();
        if there != wanted {
            missing.push(format!("pool {} has {there} machines, not {wanted}", object::name(pool)));
        }
    }
    missing
}

/// Returns whether the pool of a Node has a fixed number of machines, with or without pods.
fn is_of_fixed_pool(scene: &Scene, node: &Value) -> bool {
    scene.pools.get(&Key::new("", pool_of(node))).is_some_and(|pool| fixed::replicas(pool).is_some())
}

/// A claim that another client deletes stays as long as a pod on its Node cannot leave.
fn waits_for_ever(scene: &Scene, claim: &Value) -> bool {
    object::is_deleting(claim) && is_held(scene, claim)
}

/// Returns whether a pod on the Node of a claim cannot leave.
fn is_held(scene: &Scene, claim: &Value) -> bool {
    let budgets: Vec<&Value> = scene.budgets.values().map(AsRef::as_ref).collect();
    let node = scene.node_of_claim(claim);
    node.is_some_and(|(key, _)| scene.pods_on(&key.name).any(|pod| stays(pod, &budgets).is_some()))
}

/// Returns whether a claim of the same pool as this claim or Node waits for ever, which may use up the budget.
fn is_blocked(scene: &Scene, object: &Value) -> bool {
    let same = |other: &&Arc<Value>| pool_of(other) == pool_of(object);
    scene.claims.values().filter(same).any(|other| waits_for_ever(scene, other))
}

fn is_ready(node: &Value) -> bool {
    object::condition(node, "Ready") == Some("True")
}

/// Returns whether a pod is on a node that does not run it and that repair leaves alone, because it keeps to the budget of the
/// pool.
fn is_stranded(scene: &Scene, pod: &Value) -> bool {
    let node = scene.nodes.get(&Key::new("", text(pod, "/spec/nodeName")));
    node.is_some_and(|node| !is_ready(node) && is_blocked(scene, node))
}

fn is_empty(scene: &Scene, node: &Value) -> bool {
    scene.pods_on(object::name(node)).next().is_none()
}

/// Returns the node of a pod, or the message of the scheduler that found none for it.
fn reason(pod: &Value) -> String {
    match text(pod, "/spec/nodeName") {
        "" => {
            let message = object::condition_text(pod, condition::POD_SCHEDULED, "/message");
            message
                .filter(|message| !message.is_empty())
                .map_or_else(String::new, |message| format!(": {message}"))
        }
        node => format!(" on node {node}"),
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::names::annotation;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_that_never_heard_of_its_node_is_held_by_the_pods_there() {
        let id = "aws:///us-west-2a/i-0123456789abcdef0";
        let deleted = "2026-01-01T00:00:00Z";
        let claim =
            json!({"metadata": {"name": "c", "deletionTimestamp": deleted}, "status": {"providerID": id}});
        let node =
            json!({"metadata": {"name": "n", "deletionTimestamp": deleted}, "spec": {"providerID": id}});
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "default", "annotations": {annotation::DO_NOT_DISRUPT: "true"}},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
        });
        let unfinished_with = |pod: &Value| {
            let mut scene = Scene::default();
            scene.claims.insert(Key::new("", "c"), Arc::new(claim.clone()));
            scene.nodes.insert(Key::new("", "n"), Arc::new(node.clone()));
            scene.pods.insert(Key::new("default", "p"), Arc::new(pod.clone()));
            scene.by_node.insert("n".to_owned(), scene.pods.clone());
            unfinished(&scene)
        };
        assert_eq!(unfinished_with(&pod), Unfinished::new());
        pod["metadata"]["annotations"] = json!({});
        assert_eq!(unfinished_with(&pod), ["claim c has not settled"]);
    }
}
