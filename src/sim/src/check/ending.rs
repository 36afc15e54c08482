//! Liveness: once nothing goes wrong any more, every pod runs, every machine has its claim and every claim its Node, and no
//! node stands empty.

use karpenter_kube_sim::apiserver::object::{self, text};
use karpenter_model::names::{annotation, label};
use serde_json::Value;

use super::{Scene, claim_of};

/// What is missing, in words; nothing when all is well.
pub(crate) type Unfinished = Vec<String>;

/// Looks at everything.
pub(super) fn unfinished(scene: &Scene) -> Unfinished {
    let mut missing = Unfinished::new();
    for pod in scene.pods.values() {
        if text(pod, "/status/phase") != "Running" || object::is_deleting(pod) {
            missing.push(format!("pod {} does not run", object::name(pod)));
        }
    }
    for instance in scene.alive().filter(|instance| scene.claim(claim_of(instance)).is_none()) {
        missing.push(format!("{} has no claim", instance.id));
    }
    for claim in scene.claims.values().filter(|claim| !waits_for_ever(scene, claim)) {
        if object::is_deleting(claim) || object::condition(claim, "Initialized") != Some("True") {
            missing.push(format!("claim {} has not settled", object::name(claim)));
        }
    }
    for node in scene.nodes.values() {
        if object::label(node, label::NODE_POOL).is_some() && is_empty(scene, node) {
            missing.push(format!("node {} is empty", object::name(node)));
        }
    }
    missing
}

/// A claim that another client deletes stays as long as a pod on its Node must not be disrupted.
fn waits_for_ever(scene: &Scene, claim: &Value) -> bool {
    let protected = |pod: &Value| {
        let annotations = pod.pointer("/metadata/annotations");
        annotations.is_some_and(|all| all.get(annotation::DO_NOT_DISRUPT).is_some())
    };
    object::is_deleting(claim) && pods_on(scene, text(claim, "/status/nodeName")).any(protected)
}

fn pods_on<'a>(scene: &'a Scene, node: &'a str) -> impl Iterator<Item = &'a Value> {
    scene.pods.values().map(AsRef::as_ref).filter(move |pod| text(pod, "/spec/nodeName") == node)
}

fn is_empty(scene: &Scene, node: &Value) -> bool {
    pods_on(scene, object::name(node)).next().is_none()
}
