//! Pods: no controller of ours takes one away that must not be disrupted, or that its budget does not let go. On a
//! node with a termination grace period, which ends both, it may.

use std::sync::Arc;

use karpenter_kube_sim::apiserver::object::{self, Key};
use karpenter_kube_sim::apiserver::store::{ListQuery, Store, allowed_disruptions};
use karpenter_kube_sim::apiserver::{Resource, label_selector_matches};
use karpenter_model::names::annotation;
use serde_json::Value;

use super::Found;
use crate::target::Target;

/// A controller asks for a pod to leave: by deletion, or by eviction, which the API server refuses by itself where a budget
/// says so.
pub(super) fn leaving(store: &Store, target: &Target, deletes: bool) -> Found {
    let mut found = Found::new();
    let pods = resource(store, "", "pods");
    let Ok(pod) = store.get(&pods, &Key::new(&target.namespace, &target.name)) else { return found };
    if object::is_deleting(&pod) || is_patience_limited(store, object::text(&pod, "/spec/nodeName")) {
        return found;
    }
    if is_protected(&pod) {
        found.push(("do-not-disrupt", format!("{} is made to leave", target.name)));
    }
    if deletes && object::condition(&pod, "Ready") == Some("True") {
        for budget in objects(store, "policy", "poddisruptionbudgets") {
            if !covers(&budget, &pod) {
                continue;
            }
            let pods = objects(store, "", "pods").into_iter();
            let covered: Vec<_> = pods.filter(|pod| covers(&budget, pod)).collect();
            let allowed = allowed_disruptions(&budget, covered.iter().map(Arc::as_ref), |_| None);
            if allowed.disruptions < 1 {
                found.push(("budget of pods", format!("{} is deleted, none may go", target.name)));
            }
        }
    }
    found
}

/// Returns whether a pod has the annotation that it must not be disrupted.
pub(super) fn is_protected(pod: &Value) -> bool {
    object::annotation(pod, annotation::DO_NOT_DISRUPT) == Some("true")
}

/// Returns whether a disruption budget selects a pod.
pub(super) fn covers(budget: &Value, pod: &Value) -> bool {
    object::namespace(budget) == object::namespace(pod)
        && label_selector_matches(&budget["spec"]["selector"], &pod["metadata"]["labels"])
}

/// Returns whether the claim of a node limits the time its pods may keep it. The claim is found by its instance.
fn is_patience_limited(store: &Store, node: &str) -> bool {
    let Ok(node) = store.get(&resource(store, "", "nodes"), &Key::new("", node)) else { return false };
    let id = object::text(&node, "/spec/providerID");
    objects(store, "karpenter.sh", "nodeclaims").iter().any(|claim| {
        object::text(claim, "/status/providerID") == id
            && claim.pointer("/spec/terminationGracePeriod").is_some()
    })
}

fn objects(store: &Store, group: &str, plural: &str) -> Vec<Arc<Value>> {
    let page = store.list(&resource(store, group, plural), &ListQuery::default());
    page.map(|page| page.items).unwrap_or_default()
}

fn resource(store: &Store, group: &str, plural: &str) -> Arc<Resource> {
    store.registry().get(group, "v1", plural).expect("invariant: the kind is built in")
}
