//! Liveness: once nothing goes wrong any more, every pod runs, every machine has its claim and every claim its Node, and no
//! node stands empty.

use std::sync::Arc;

use karpenter_kube_sim::apiserver::object::{self, text};
use karpenter_model::names::{condition, label};
use serde_json::Value;

use super::candidates::stays;
use super::drift::is_outdated;
use super::{Scene, claim_of, pool_of};

/// What is missing, in words; nothing when all is well.
pub(crate) type Unfinished = Vec<String>;

/// Looks at everything.
pub(super) fn unfinished(scene: &Scene) -> Unfinished {
    let mut missing = Unfinished::new();
    for pod in scene.pods.values() {
        if text(pod, "/status/phase") != "Running" || object::is_deleting(pod) {
            missing.push(format!("pod {} does not run{}", object::name(pod), said_of(pod)));
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
    for node in scene.nodes.values() {
        let ours = object::label(node, label::NODE_POOL).is_some();
        if ours && is_empty(scene, node) && !is_blocked(scene, node) {
            missing.push(format!("node {} is empty", object::name(node)));
        }
    }
    missing
}

/// A claim that another client deletes stays as long as a pod on its Node cannot leave.
fn waits_for_ever(scene: &Scene, claim: &Value) -> bool {
    object::is_deleting(claim) && is_held(scene, claim)
}

/// Whether a pod on the Node of a claim cannot leave.
fn is_held(scene: &Scene, claim: &Value) -> bool {
    let budgets: Vec<&Value> = scene.budgets.values().map(AsRef::as_ref).collect();
    scene.pods_on(text(claim, "/status/nodeName")).any(|pod| stays(pod, &budgets).is_some())
}

/// Whether a claim of the same pool as this claim or Node waits for ever, which may use up the budget.
fn is_blocked(scene: &Scene, object: &Value) -> bool {
    let same = |other: &&Arc<Value>| pool_of(other) == pool_of(object);
    scene.claims.values().filter(same).any(|other| waits_for_ever(scene, other))
}

fn is_empty(scene: &Scene, node: &Value) -> bool {
    scene.pods_on(object::name(node)).next().is_none()
}

/// What the scheduler said of a pod that it found no place for.
fn said_of(pod: &Value) -> String {
    let mut conditions = object::list(pod, "/status/conditions").iter();
    let message =
        conditions.find_map(|one| (one["type"] == condition::POD_SCHEDULED).then(|| text(one, "/message")));
    message.filter(|message| !message.is_empty()).map_or_else(String::new, |message| format!(": {message}"))
}
