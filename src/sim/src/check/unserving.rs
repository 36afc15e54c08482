//! Nodes that come up and do not serve the pods they were launched for: a few of them are how it is learnt that the world is
//! not as foreseen, more are money for nothing.
//!
//! A node is for the pods that wait when its claim is made, if they have one owner, no other node is being replaced
//! and no buffer wants room.
//! Otherwise it is for those of which the controller said so in `Nominated` events, of which it writes few about one pod. A node does not serve them when it
//! has been ready and registered for a while, no other pod has taken its room, and none of those pods that have one owner runs
//! there while one of them still waits. Once a pod of the owner is bound anywhere, counting begins again, and so it does when
//! the template of the pool or its node class changes: later nodes are others, and earlier ones drift.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_kube_sim::apiserver::object::{self, Key, text};
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind};
use karpenter_model::names::label;
use serde_json::Value;

use super::candidates::is_ready;
use super::{Found, Scene, is_disrupted, pool_of};

/// Largest number of nodes launched for the pods of one owner before it is learnt that they do not serve them. Each pod may get
/// a node of its own before any of them has come up.
const AT_MOST: usize = 3;
/// Time for which a node has to be up, in seconds: the scheduler looks at pods twice a second, and again when taints have gone.
const UP: u64 = 10;

/// Memory about promises and nodes.
#[derive(Default)]
pub(super) struct Unserving {
    /// Promises by claim.
    open: BTreeMap<String, Promise>,
    /// Counts by owner of pods.
    counted: BTreeMap<String, Count>,
}

/// Pods that a node was launched for.
#[derive(Default)]
struct Promise {
    /// Pods that have no node yet, by their owner.
    pods: BTreeMap<String, BTreeSet<Key>>,
    /// Pods that were named, whatever their state.
    named: BTreeSet<Key>,
    up_since: Option<u64>,
}

/// Nodes that did not serve the pods of an owner.
#[derive(Default)]
struct Count {
    /// Claims, and the pool of each.
    claims: BTreeMap<String, String>,
    /// Largest number of its pods that waited at once.
    waiting: usize,
}

impl Unserving {
    /// A pod changes.
    pub(super) fn pod(&mut self, change: &Change) {
        let pod = &*change.object;
        let bound = !text(pod, "/spec/nodeName").is_empty();
        if !bound && change.kind != ChangeKind::Deleted && !object::is_deleting(pod) {
            return;
        }
        let (key, owner) = (Key::of(pod), owner(pod));
        if bound {
            self.counted.remove(&owner);
        }
        for promise in self.open.values_mut() {
            if let Some(pods) = promise.pods.get_mut(&owner) {
                pods.remove(&key);
            }
        }
    }

    /// A pool changes.
    pub(super) fn pool(&mut self, scene: &Scene, change: &Change) {
        let pool = &*change.object;
        let before = scene.pools.get(&Key::of(pool));
        if before.is_some_and(|before| before.pointer("/spec/template") != pool.pointer("/spec/template")) {
            self.begin_again(scene, |name| name == object::name(pool));
        }
    }

    /// A node class changes.
    pub(super) fn class(&mut self, scene: &Scene, change: &Change) {
        let class = &*change.object;
        if scene.classes.get(&Key::of(class)).is_some_and(|before| before["spec"] != class["spec"]) {
            let uses = |pool: &Arc<Value>| {
                text(pool, "/spec/template/spec/nodeClassRef/name") == object::name(class)
            };
            self.begin_again(scene, |name| scene.pools.get(&Key::new("", name)).is_some_and(uses));
        }
    }

    /// Forgets nodes of these pools, and owners that were counted on one of them.
    fn begin_again(&mut self, scene: &Scene, is_other: impl Fn(&str) -> bool) {
        self.counted.retain(|_, count| !count.claims.values().any(|pool| is_other(pool)));
        self.open.retain(|claim, _| !scene.claim(claim).is_some_and(|claim| is_other(pool_of(claim))));
    }

    /// A claim is made.
    pub(super) fn claim(&mut self, scene: &Scene, change: &Change) {
        let claim = &*change.object;
        let pool = scene.pools.get(&Key::new("", pool_of(claim)));
        let fixed = pool.is_none_or(|pool| pool.pointer("/spec/replicas").is_some());
        let others = !scene.buffers.is_empty() || scene.nodes.values().any(|node| is_disrupted(node));
        if change.kind != ChangeKind::Added || fixed || others {
            return;
        }
        let pods = scene.pods.values().filter(|pod| waits(pod));
        let mut by_owner: BTreeMap<String, BTreeSet<Key>> = BTreeMap::new();
        for pod in pods {
            by_owner.entry(owner(pod)).or_default().insert(Key::of(pod));
        }
        if by_owner.len() == 1 {
            let named = by_owner.values().flatten().cloned().collect();
            let promise = Promise { pods: by_owner, named, up_since: None };
            self.open.insert(object::name(claim).to_owned(), promise);
        }
    }

    /// An event is written.
    pub(super) fn event(&mut self, scene: &Scene, event: &Value) {
        let Some((_, claim)) = text(event, "/message").split_once("nodeclaim/") else { return };
        if text(event, "/reason") != "Nominated" {
            return;
        }
        let of = |field: &str| text(&event["involvedObject"], field);
        let key = Key::new(of("/namespace"), of("/name"));
        let Some(pod) = scene.pods.get(&key) else { return };
        if text(pod, "/spec/nodeName").is_empty() && scene.claim(claim).is_some() {
            let promise = self.open.entry(claim.to_owned()).or_default();
            promise.pods.entry(owner(pod)).or_default().insert(key.clone());
            promise.named.insert(key);
        }
    }

    /// Looks at every promise that is open.
    pub(super) fn look(&mut self, scene: &Scene, now: u64, found: &mut Found) {
        let mut unserved = Vec::new();
        self.open.retain(|claim, promise| {
            let there = scene.claim(claim);
            let node = there.and_then(|claim| scene.node_of_claim(claim)).map(|(_, node)| &**node);
            let up = node.is_some_and(is_up);
            promise.up_since = up.then(|| promise.up_since.unwrap_or(now));
            let on = node.map(|node| scene.pods_on(object::name(node)));
            let runs: Vec<&Value> = on.into_iter().flatten().collect();
            let taken = runs.iter().any(|pod| !promise.named.contains(&Key::of(pod)));
            if taken || there.is_none() {
                return false;
            }
            // A claim may be for all pods that waited: the node serves those of an owner when one of them runs there.
            promise
                .pods
                .retain(|owner, pods| !pods.is_empty() && !runs.iter().any(|pod| self::owner(pod) == *owner));
            if promise.up_since.is_none_or(|since| now - since < UP) {
                return !promise.pods.is_empty();
            }
            unserved
                .extend(std::mem::take(&mut promise.pods).into_keys().map(|owner| (owner, claim.clone())));
            false
        });
        for (owner, claim) in unserved {
            let waiting = scene.pods.values().filter(|pod| waits(pod) && self::owner(pod) == owner).count();
            let count = self.counted.entry(owner.clone()).or_default();
            let pool = scene.claim(&claim).map_or("", |claim| pool_of(claim)).to_owned();
            count.claims.insert(claim, pool);
            count.waiting = count.waiting.max(waiting);
            if count.claims.len() > AT_MOST - 1 + count.waiting.max(1) {
                let claims: Vec<&String> = count.claims.keys().collect();
                found.push(("nodes that do not serve", format!("pods of {owner} wait beside {claims:?}")));
            }
        }
    }

    /// Returns whether a promise is open.
    pub(super) fn any_open(&self) -> bool {
        !self.open.is_empty()
    }
}

/// Returns whether a Node takes the pods it was launched for, as far as its controller and its kubelet are concerned.
fn is_up(node: &Value) -> bool {
    is_ready(node)
        && object::label(node, label::REGISTERED) == Some("true")
        && !is_disrupted(node)
        && !object::is_deleting(node)
}

fn waits(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty() && !object::is_deleting(pod)
}

/// The owner of a pod, or the pod where it has none: pods of one owner are alike.
fn owner(pod: &Value) -> String {
    let owner = object::controller(pod).unwrap_or(pod);
    let name = if owner["metadata"].is_object() { object::name(owner) } else { text(owner, "/name") };
    format!("{}/{name}", object::namespace(pod))
}
