//! Machines are for pods: there are never more machines on their way than pods that have needed a place since the first of
//! them was asked for.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_kube_sim::apiserver::object::{self, Key, text};
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind};

use super::candidates::is_ready;
use super::{Found, Scene, is_disrupted, pool_of};

/// How old what a controller sees may be, in seconds.
const OUTDATED: u64 = 180;

/// What is remembered of pods and claims, in seconds.
#[derive(Default)]
pub(super) struct Surplus {
    /// Pods, and when they had no node to stay on last.
    needed: BTreeMap<Key, u64>,
    /// Claims whose Node was not ready yet, and since when.
    coming: BTreeMap<Key, u64>,
}

impl Surplus {
    /// A pod changes.
    pub(super) fn pod(&mut self, change: &Change, now: u64) {
        if text(&change.object, "/spec/nodeName").is_empty() {
            self.needed.insert(Key::of(&change.object), now);
        }
    }

    /// A Node changes: the pods of one that is being disrupted need another.
    pub(super) fn node(&mut self, scene: &Scene, change: &Change, now: u64) {
        if is_disrupted(&change.object) || !is_ready(&change.object) {
            self.needed.extend(scene.pods_on(object::name(&change.object)).map(|pod| (Key::of(pod), now)));
        }
    }

    /// A claim changes.
    pub(super) fn claim(&mut self, scene: &Scene, change: &Change, now: u64, found: &mut Found) {
        let key = Key::of(&change.object);
        if change.kind == ChangeKind::Deleted || object::is_deleting(&change.object) {
            self.coming.remove(&key);
            return;
        }
        let pool = scene.pools.get(&Key::new("", pool_of(&change.object)));
        if change.kind != ChangeKind::Added
            || pool.is_none_or(|pool| pool.pointer("/spec/replicas").is_some())
        {
            return;
        }
        self.coming.insert(key, now);
        let first = self.coming.values().min().copied().unwrap_or(now);
        let pods = self.needed.values().filter(|at| **at + OUTDATED >= first).count();
        if self.coming.len() > pods {
            let names: Vec<&str> = self.coming.keys().map(|key| key.name.as_str()).collect();
            found.push(("machines for pods", format!("{pods} pods need a place, for them come {names:?}")));
        }
    }

    /// Looks at everything.
    pub(super) fn look(&mut self, scene: &Scene, now: u64) {
        let leaving: BTreeSet<&str> = scene
            .claims
            .values()
            .filter(|claim| object::is_deleting(claim))
            .map(|claim| text(claim, "/status/nodeName"))
            .collect();
        let stays = |name: &str| {
            let node = scene.nodes.get(&Key::new("", name));
            node.is_some_and(|node| is_ready(node) && !is_disrupted(node) && !leaving.contains(name))
        };
        for (key, pod) in &scene.pods {
            if !stays(text(pod, "/spec/nodeName")) {
                self.needed.insert(key.clone(), now);
            }
        }
        let up: BTreeSet<&str> = scene
            .nodes
            .values()
            .filter(|node| is_ready(node))
            .map(|node| text(node, "/spec/providerID"))
            .filter(|id| !id.is_empty())
            .collect();
        self.coming.retain(|key, _| {
            let claim = scene.claims.get(key);
            claim.is_some_and(|claim| !up.contains(text(claim, "/status/providerID")))
        });
    }
}
