//! Candidates for disruption: no node with a pod that cannot leave, and none before its replacement has come up.
//!
//! Both begin with the taint of disruption on a node whose claim is not being deleted. A pod counts once it has been on its
//! node long enough for every controller to know. That something takes the place of a node cannot be seen in the
//! truth; that its pods have nowhere to go can: when its claim is deleted, the nodes that stay have less room than its
//! pods need. Pods that came meanwhile may have taken that room, so it is asked only if none was waiting since the taint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_kube_sim::apiserver::object::{self, Key, list, text};
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind};
use karpenter_model::Quantity;
use serde_json::Value;

use super::pods::{covers, is_protected};
use super::{Found, OUTDATED, Scene, is_disrupted, pool_of};
use crate::target::Target;

/// Memory about nodes and pods; times in seconds.
#[derive(Default)]
pub(super) struct Candidates {
    /// Pods on nodes, and since when.
    bound: BTreeMap<Key, u64>,
    /// Disruption budgets, and since when.
    budgets: BTreeMap<Key, u64>,
    /// Nodes being disrupted, and since when.
    tainted: BTreeMap<Key, u64>,
    /// Time at which a pod last had no node.
    waiting: Option<u64>,
    /// Instances that something has happened to: their nodes need not be replaced first.
    struck: BTreeSet<String>,
}

impl Candidates {
    /// Something has happened to an instance.
    pub(super) fn struck(&mut self, instance: &str) {
        self.struck.insert(instance.to_owned());
    }

    /// A pod changes.
    pub(super) fn pod(&mut self, change: &Change, now: u64) {
        let key = Key::of(&change.object);
        if change.kind == ChangeKind::Deleted {
            self.bound.remove(&key);
        } else if text(&change.object, "/spec/nodeName").is_empty() {
            self.waiting = Some(now);
        } else {
            self.bound.entry(key).or_insert(now);
        }
    }

    /// A disruption budget changes.
    pub(super) fn budget(&mut self, change: &Change, now: u64) {
        let key = Key::of(&change.object);
        if change.kind == ChangeKind::Deleted {
            self.budgets.remove(&key);
        } else {
            self.budgets.entry(key).or_insert(now);
        }
    }

    /// A node changes.
    pub(super) fn node(&mut self, scene: &Scene, change: &Change, now: u64, found: &mut Found) {
        let key = Key::of(&change.object);
        if change.kind == ChangeKind::Deleted || !is_disrupted(&change.object) {
            self.tainted.remove(&key);
            return;
        }
        let before = change.previous.as_ref().is_some_and(|node| is_disrupted(node));
        let Some(claim) = scene.claim_of_node(&change.object).filter(|_| !before) else { return };
        if object::is_deleting(claim) {
            return;
        }
        self.tainted.insert(key.clone(), now);
        if claim.pointer("/spec/terminationGracePeriod").is_some() {
            return;
        }
        let long = |since: Option<&u64>| since.is_some_and(|since| since + OUTDATED < now);
        let budgets: Vec<&Value> = scene
            .budgets
            .iter()
            .filter(|(key, _)| long(self.budgets.get(key)))
            .map(|(_, budget)| budget.as_ref())
            .collect();
        for pod in scene.pods_on(&key.name).filter(|pod| long(self.bound.get(&Key::of(pod)))) {
            if let Some(why) = stays(pod, &budgets).filter(|_| !object::is_deleting(pod)) {
                let what = format!("{} is chosen, where {} {why}", key.name, object::name(pod));
                found.push(("node that cannot drain", what));
            }
        }
    }

    /// A controller requests the deletion of a claim.
    pub(super) fn deleting(&self, scene: &Scene, target: &Target) -> Found {
        let none = Found::new();
        let Some(claim) = scene.claim(&target.name).filter(|claim| !object::is_deleting(claim)) else {
            return none;
        };
        let id = text(claim, "/status/providerID");
        let instance = id.rsplit('/').next().unwrap_or_default();
        let Some((key, node)) = scene.node_of_claim(claim) else { return none };
        let Some(since) = self.tainted.get(key) else { return none };
        let unrest = self.waiting.is_some_and(|at| at >= *since);
        // The replacement for a machine of a fixed number comes from the template, whatever runs on it (spec disruption 3.7):
        // its pods are planned for as it drains. That the number is kept is a rule of its own.
        let pool = scene.pools.get(&Key::new("", pool_of(node)));
        if pool.is_some_and(|pool| pool.pointer("/spec/replicas").is_some()) {
            return none;
        }
        let expires = text(claim, "/spec/expireAfter") != "Never";
        let others_do = self.struck.contains(instance) || object::is_deleting(node) || !is_ready(node);
        if unrest || expires || others_do {
            return none;
        }
        // It may not have seen those that came just before.
        let known = |pod: &&Value| {
            self.bound.get(&Key::of(pod)).is_some_and(|bound| bound.saturating_add(OUTDATED) < *since)
        };
        // Nothing is made ready for pods that stay until the grace period ends.
        let limited = claim.pointer("/spec/terminationGracePeriod").is_some();
        let waited_for = |pod: &&Value| !(limited && is_guarded(pod, scene.budgets.values()));
        let needed: i64 = scene.pods_on(&key.name).filter(known).filter(waited_for).map(cores).sum();
        let room: i64 = scene
            .nodes
            .values()
            .filter(|node| is_ready(node) && !is_kept_free(node))
            .map(|node| {
                let all = millis(text(node, "/status/allocatable/cpu"));
                (all - scene.pods_on(object::name(node)).map(cores).sum::<i64>()).max(0)
            })
            .sum();
        if needed <= room {
            return none;
        }
        let what = format!("{} is deleted, its pods need {needed}m CPU, others have {room}m", target.name);
        vec![("replacement first", what)]
    }
}

/// Returns whether a pod might be kept from leaving, by its annotation or by a budget.
fn is_guarded<'b>(pod: &Value, budgets: impl IntoIterator<Item = &'b Arc<Value>>) -> bool {
    is_protected(pod) || budgets.into_iter().any(|budget| covers(budget, pod))
}

/// Returns the reason why a pod cannot leave, if there is one.
pub(super) fn stays(pod: &Value, budgets: &[&Value]) -> Option<&'static str> {
    if is_protected(pod) {
        return Some("must not be disrupted");
    }
    let covering = budgets.iter().filter(|budget| covers(budget, pod));
    (covering.count() > 1).then_some("has two budgets, which the API server evicts no pod with")
}

/// Returns whether a Node has the condition `Ready`.
pub(super) fn is_ready(node: &Value) -> bool {
    object::condition(node, "Ready") == Some("True")
}

/// Returns whether a Node takes no new pods.
fn is_kept_free(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true
        || object::is_deleting(node)
        || !list(node, "/spec/taints").is_empty()
}

/// Thousandths of a core that a pod requests; one that leaves requests none.
fn cores(pod: &Value) -> i64 {
    if object::is_deleting(pod) {
        return 0;
    }
    let of = |container: &Value| millis(text(container, "/resources/requests/cpu"));
    list(pod, "/spec/containers").iter().map(of).sum()
}

/// Thousandths; 0 for what cannot be read.
fn millis(text: &str) -> i64 {
    text.parse::<Quantity>().map_or(0, Quantity::as_millis_ceil)
}
