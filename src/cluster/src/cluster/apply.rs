//! Application of facts, and the machines they touch.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::{Claim, ClaimName, NodeId, NodeName, NodeObject, Pod, PodKey, Pool, PoolName, Target};

use super::Cluster;
use super::kind::{AttachLimits, Kind, Shown};
use crate::machine;
use crate::store::{Epoch, Known, Put, Stamp};

/// The key of an object that is gone, and what was known of it.
type Gone<T, O> = (<T as Kind>::Key, Known<T, <T as Kind>::Object<O>>);

impl<O: Shown> Cluster<O> {
    /// Takes an object as it looks now, and returns the state it replaced; `None` when as new a state is known or the
    /// object is gone. Late, repeated and reordered calls are harmless.
    pub fn put<T: Kind>(
        &mut self,
        key: &T::Key,
        stamp: Stamp,
        model: Arc<T>,
        object: T::Object<O>,
    ) -> Option<Put<T, T::Object<O>>> {
        let new = Arc::clone(&model);
        let put = T::store_mut(&mut self.facts).put(key.clone(), stamp, model, object, self.epoch)?;
        if put.changed {
            let old = put.before.as_ref().map(|known| known.model.as_ref());
            T::changed(self, key, old, Some(&new));
        }
        Some(put)
    }

    /// Removes an object and returns what was known of it; `None` when nothing was, or something newer is.
    pub fn remove<T: Kind>(&mut self, key: &T::Key, stamp: &Stamp) -> Option<Known<T, T::Object<O>>> {
        let known = T::store_mut(&mut self.facts).remove(key, stamp)?;
        self.removed(key, &known);
        Some(known)
    }

    /// Begins a list. Call it before a complete, consistent list is asked for; its objects are then put in as they come.
    pub fn begin_list(&mut self) -> Epoch {
        self.epoch = self.epoch.next();
        self.epoch
    }

    /// Ends a list: objects of the kind that were known when it began and are not in it are gone, and returned. Those
    /// that came after it began, by watch or because we created them, stay.
    pub fn finish_list<T: Kind>(&mut self, listed: &BTreeSet<T::Key>, began: Epoch) -> Vec<Gone<T, O>> {
        let gone = T::store_mut(&mut self.facts).remove_unlisted(listed, began);
        for (key, known) in &gone {
            self.removed(key, known);
        }
        gone
    }

    fn removed<T: Kind>(&mut self, key: &T::Key, known: &Known<T, T::Object<O>>) {
        T::changed(self, key, Some(&known.model), None);
    }

    pub(crate) fn pod_changed(&mut self, key: &PodKey, old: Option<&Pod>, new: Option<&Pod>) {
        for (pod, there) in [(old, false), (new, true)] {
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
        if new.is_some_and(|pod| pod.is_provisionable() && pod.is_active()) {
            self.derived.pending.insert(key.clone());
        } else {
            self.derived.pending.remove(key);
            self.own.expected.remove(key);
        }
        if let Some(claim) = self.own.promises.claim_of(key).cloned() {
            self.touch_claim(&claim);
        }
        let same = |old: &Pod, new: &Pod| {
            old.uid == new.uid
                && old.node_name == new.node_name
                && !new.is_terminal()
                && new.asks_the_same(old)
        };
        // The promise was made to the pod as it was.
        if !old.zip(new).is_some_and(|(old, new)| same(old, new)) {
            self.own.promises.end(key);
        }
    }

    pub(crate) fn node_changed(
        &mut self,
        name: &NodeName,
        old: Option<&NodeObject>,
        new: Option<&NodeObject>,
    ) {
        for (node, there) in [(old, false), (new, true)] {
            let Some(id) = node.and_then(|node| node.provider_id.as_ref()) else { continue };
            let names = self.derived.nodes_of.entry(id.clone()).or_default();
            toggle(names, name, there);
            if names.is_empty() {
                self.derived.nodes_of.remove(id);
            }
        }
        if new.is_none() {
            self.own.promises.end_all(&Target::Node(name.clone()));
        }
        let (old, new) = (old.and_then(machine::id_of_node), new.and_then(machine::id_of_node));
        self.move_member(old, new, |members, there| toggle(&mut members.nodes, name, there));
    }

    pub(crate) fn claim_changed(&mut self, name: &ClaimName, old: Option<&Claim>, new: Option<&Claim>) {
        let (before, after) = (old.map(machine::id_of_claim), new.map(machine::id_of_claim));
        self.move_member(before, after, |members, there| toggle(&mut members.claims, name, there));
        let unlaunched = new.is_some_and(|claim| claim.provider_id.is_none());
        toggle(&mut self.derived.unlaunched, name, unlaunched);
        let replaced = old.is_some_and(|old| new.is_none_or(|new| old.uid != new.uid));
        if replaced {
            let machine = old.and_then(|old| self.derived.machines.get(&machine::id_of_claim(old)));
            if self.own.promises.pods_of(name).next().is_some() {
                self.own.departed.extend(machine.cloned());
            }
            self.own.marked.remove(name);
            self.own.promises.end_all(&Target::Claim(name.clone()));
        }
    }

    pub(crate) fn pool_changed(&mut self, name: &PoolName, _: Option<&Pool>, new: Option<&Pool>) {
        if new.is_none() {
            self.set_instance_types(name, None);
            self.own.brought.forget(name);
        }
    }

    pub(crate) fn attach_limits_changed(
        &mut self,
        node: &NodeName,
        _: Option<&AttachLimits>,
        _: Option<&AttachLimits>,
    ) {
        self.touch_node(node);
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
        if let Some(id) = self.facts.nodes.model(name).and_then(|node| machine::id_of_node(node)) {
            self.derived.dirty.insert(id);
        }
    }
}

fn toggle<K: Ord + Clone>(set: &mut BTreeSet<K>, key: &K, there: bool) {
    if there {
        set.insert(key.clone());
    } else {
        set.remove(key);
    }
}
