//! Events and lists, and which machines they touch.

use std::collections::BTreeSet;

use karpenter_model::{Claim, ClaimName, NodeId, NodeName, NodeObject, Pod, PodKey};

use super::Cluster;
use crate::event::{Event, Listed, Seen};
use crate::machine;
use crate::store::{Change, Epoch, Store, Version};

/// Kinds that must have been listed once before a plan means anything.
const NEEDED: [&str; 7] =
    ["Pod", "Node", "NodeClaim", "NodePool", "DaemonSet", "PodDisruptionBudget", "Namespace"];

impl Cluster {
    /// Takes in one event; true when it changed something visible. Late, repeated and reordered events are
    /// harmless.
    pub fn apply(&mut self, event: Event) -> bool {
        let epoch = self.epoch;
        let changed = match event {
            Event::Pod(seen) => {
                let key = key_of(&seen).clone();
                accept(&mut self.facts.pods, seen, epoch)
                    .map(|change| self.pod_changed(&key, &change))
                    .is_some()
            }
            Event::Node(seen) => {
                let name = key_of(&seen).clone();
                accept(&mut self.facts.nodes, seen, epoch)
                    .map(|change| self.node_changed(&name, &change))
                    .is_some()
            }
            Event::Claim(seen) => {
                let name = key_of(&seen).clone();
                let change = accept(&mut self.facts.claims, seen, epoch);
                change.map(|change| self.claim_changed(&name, &change)).is_some()
            }
            Event::Pool(seen) => {
                let name = key_of(&seen).clone();
                let change = accept(&mut self.facts.pools, seen, epoch);
                self.derived.disturbances += u64::from(change.is_some());
                if change.as_ref().is_some_and(|change| change.new.is_none()) {
                    self.set_instance_types(&name, None);
                }
                change.is_some()
            }
            Event::Daemon(seen) => accept(&mut self.facts.daemons, seen, epoch).is_some(),
            Event::Budget(seen) => accept(&mut self.facts.budgets, seen, epoch).is_some(),
            Event::Namespace(seen) => accept(&mut self.facts.namespaces, seen, epoch).is_some(),
            Event::Volume(seen) => accept(&mut self.facts.volumes, seen, epoch).is_some(),
        };
        self.revision += u64::from(changed);
        changed
    }

    /// To be called before a complete, consistent list is asked for; its objects are then applied as they come.
    pub fn begin_list(&mut self) -> Epoch {
        self.epoch = Epoch(self.epoch.0 + 1);
        self.epoch
    }

    /// Ends a list: objects of the kind that were known when it began and are not in it are gone. Those that came
    /// after it began, by watch or because we created them, stay.
    pub fn finish_list(&mut self, listed: &Listed, began: Epoch) {
        match listed {
            Listed::Pods(keys) => {
                self.drop_missing("Pod", |cluster| cluster.facts.pods.missing(keys, began), Event::Pod);
            }
            Listed::Nodes(keys) => {
                self.drop_missing("Node", |cluster| cluster.facts.nodes.missing(keys, began), Event::Node);
            }
            Listed::Claims(keys) => {
                self.drop_missing(
                    "NodeClaim",
                    |cluster| cluster.facts.claims.missing(keys, began),
                    Event::Claim,
                );
            }
            Listed::Pools(keys) => {
                self.drop_missing(
                    "NodePool",
                    |cluster| cluster.facts.pools.missing(keys, began),
                    Event::Pool,
                );
            }
            Listed::Daemons(keys) => {
                self.drop_missing(
                    "DaemonSet",
                    |cluster| cluster.facts.daemons.missing(keys, began),
                    Event::Daemon,
                );
            }
            Listed::Budgets(keys) => {
                self.drop_missing(
                    "PodDisruptionBudget",
                    |cluster| cluster.facts.budgets.missing(keys, began),
                    Event::Budget,
                );
            }
            Listed::Namespaces(keys) => self.drop_missing(
                "Namespace",
                |cluster| cluster.facts.namespaces.missing(keys, began),
                Event::Namespace,
            ),
            Listed::Volumes(keys) => {
                self.drop_missing(
                    "PersistentVolumeClaim",
                    |cluster| cluster.facts.volumes.missing(keys, began),
                    Event::Volume,
                );
            }
        }
    }

    /// The kinds that have never been listed and are needed for a plan; empty once the index is primed.
    pub fn unlisted(&self) -> Vec<&'static str> {
        NEEDED.into_iter().filter(|kind| !self.listed.contains(kind)).collect()
    }

    fn drop_missing<K, T>(
        &mut self,
        kind: &'static str,
        missing: impl FnOnce(&Self) -> Vec<(K, Version)>,
        event: impl Fn(Seen<K, T>) -> Event,
    ) {
        self.listed.insert(kind);
        for (key, version) in missing(self) {
            self.apply(event(Seen::Gone { key, version }));
        }
    }

    fn pod_changed(&mut self, key: &PodKey, change: &Change<Pod>) {
        for (pod, there) in [(&change.old, false), (&change.new, true)] {
            let Some(pod) = pod else { continue };
            let Some(node) = pod.node_name.as_ref().filter(|_| !pod.is_terminal()) else { continue };
            let pods = self.derived.bound.entry(node.clone()).or_default();
            if there {
                pods.insert(key.clone());
            } else {
                pods.remove(key);
            }
            if pods.is_empty() {
                self.derived.bound.remove(node);
            }
            self.touch_node(node);
        }
        if change.new.as_ref().is_some_and(|pod| pod.is_provisionable() && pod.is_active()) {
            self.derived.pending.insert(key.clone());
        } else {
            self.derived.pending.remove(key);
            self.own.expected.remove(key);
        }
        if let Some(claim) = self.own.promises.claim_of(key).cloned() {
            self.touch_claim(&claim);
        }
    }

    fn node_changed(&mut self, name: &NodeName, change: &Change<NodeObject>) {
        let old = change.old.as_deref().and_then(machine::id_of_node);
        let new = change.new.as_deref().and_then(machine::id_of_node);
        self.move_member(old, new, |members, there| toggle(&mut members.nodes, name, there));
    }

    fn claim_changed(&mut self, name: &ClaimName, change: &Change<Claim>) {
        let old = change.old.as_deref().map(machine::id_of_claim);
        let new = change.new.as_deref().map(machine::id_of_claim);
        self.move_member(old, new, |members, there| toggle(&mut members.claims, name, there));
        let unlaunched = change.new.as_ref().is_some_and(|claim| claim.provider_id.is_none());
        toggle(&mut self.derived.unlaunched, name, unlaunched);
        let uid = |claim: &Option<std::sync::Arc<Claim>>| claim.as_ref().map(|claim| claim.uid.clone());
        let replaced = change.old.is_some() && uid(&change.old) != uid(&change.new);
        if replaced {
            self.own.marked.remove(name);
        }
        if replaced || !unlaunched {
            self.own.promises.keep(name);
        }
    }

    /// Moves an object from the machine it belonged to, to the one it belongs to; touches both.
    fn move_member(
        &mut self,
        old: Option<NodeId>,
        new: Option<NodeId>,
        set: impl Fn(&mut machine::Members, bool),
    ) {
        if let Some(old) = old {
            if let Some(members) = self.derived.members.get_mut(&old) {
                set(members, false);
                if members.is_empty() {
                    self.derived.members.remove(&old);
                }
            }
            self.derived.dirty.insert(old);
        }
        if let Some(new) = new {
            set(self.derived.members.entry(new.clone()).or_default(), true);
            self.derived.dirty.insert(new);
        }
    }

    pub(super) fn touch_node(&mut self, name: &NodeName) {
        if let Some(id) = self.facts.nodes.get(name).and_then(|node| machine::id_of_node(node)) {
            self.derived.dirty.insert(id);
        }
    }
}

fn key_of<K, T>(seen: &Seen<K, T>) -> &K {
    match seen {
        Seen::Present { key, .. } | Seen::Gone { key, .. } => key,
    }
}

fn accept<K: Ord + Clone, T: PartialEq>(
    store: &mut Store<K, T>,
    seen: Seen<K, T>,
    epoch: Epoch,
) -> Option<Change<T>> {
    match seen {
        Seen::Present { key, version, object } => store.upsert(key, version, *object, epoch),
        Seen::Gone { key, version } => store.remove(&key, version),
    }
}

fn toggle<K: Ord + Clone>(set: &mut BTreeSet<K>, key: &K, there: bool) {
    if there {
        set.insert(key.clone());
    } else {
        set.remove(key);
    }
}
