//! Pods by node and by owner, kept current from the log of the store: a stand-in that wants the pods of one node or owner
//! does not look at all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::{
    ApiServer,
    object::{self, Key, text},
    store::ChangeKind,
};

use super::{
    pod::Pod,
    unread::{Cursor, Unread},
};

type Keyed = BTreeMap<Key, Arc<Pod>>;

/// The pods there are.
#[derive(Default)]
pub(super) struct Pods {
    cursor: Cursor,
    /// Pods by uid of the owner that controls them.
    by_owner: BTreeMap<String, Keyed>,
    /// Pods by the node they are bound to.
    by_node: BTreeMap<String, Keyed>,
    unbound: Keyed,
    /// Nodes whose pods have changed since the scheduler asked.
    touched: BTreeSet<String>,
    /// Uids of owners whose pods have changed since the replica sets asked.
    touched_owners: BTreeSet<String>,
}

impl Pods {
    /// Takes in what was written since the last time.
    pub(super) fn refresh(&mut self, server: &ApiServer) {
        match self.cursor.news(server, "", "pods") {
            Unread::Changes(changes) => {
                for change in changes {
                    let before = change.previous.as_ref();
                    if let Some(before) = before {
                        self.forget(before);
                    }
                    if change.kind != ChangeKind::Deleted {
                        self.learn(&change.object);
                    }
                }
            }
            Unread::All(pods) => {
                self.touched.extend(std::mem::take(&mut self.by_node).into_keys());
                self.touched_owners.extend(std::mem::take(&mut self.by_owner).into_keys());
                self.unbound = BTreeMap::new();
                for pod in &pods {
                    self.learn(pod);
                }
            }
        }
    }

    /// Pods that a controller owns, in order of namespace and name.
    pub(super) fn of_owner(&self, uid: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_owner.get(uid).into_iter().flat_map(BTreeMap::values)
    }

    /// Pods on a node, in order of namespace and name.
    pub(super) fn on_node(&self, name: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_node.get(name).into_iter().flat_map(BTreeMap::values)
    }

    /// Pods that have a node, by node and in order of namespace and name.
    pub(super) fn bound(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_node.values().flat_map(BTreeMap::values)
    }

    /// Pods without node, in order of namespace and name.
    pub(super) fn unbound(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.unbound.values()
    }

    /// Nodes whose pods have changed since the last time.
    pub(super) fn take_touched(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.touched)
    }

    /// Uids of owners whose pods have changed since the last time.
    pub(super) fn take_touched_owners(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.touched_owners)
    }

    fn learn(&mut self, object: &Arc<Value>) {
        let (key, pod) = (Key::of(object), Arc::new(Pod::of(object)));
        if let Some(owner) = object::controller(object) {
            let uid = text(owner, "/uid").to_owned();
            self.touched_owners.insert(uid.clone());
            self.by_owner.entry(uid).or_default().insert(key.clone(), Arc::clone(&pod));
        }
        match text(object, "/spec/nodeName") {
            "" => drop(self.unbound.insert(key, pod)),
            node => {
                self.touched.insert(node.to_owned());
                self.by_node.entry(node.to_owned()).or_default().insert(key, pod);
            }
        }
    }

    fn forget(&mut self, pod: &Value) {
        let key = Key::of(pod);
        if let Some(owner) = object::controller(pod) {
            let uid = text(owner, "/uid");
            self.touched_owners.insert(uid.to_owned());
            remove(&mut self.by_owner, uid, &key);
        }
        let node = text(pod, "/spec/nodeName");
        if node.is_empty() {
            self.unbound.remove(&key);
        } else {
            self.touched.insert(node.to_owned());
            remove(&mut self.by_node, node, &key);
        }
    }
}

fn remove(index: &mut BTreeMap<String, Keyed>, of: &str, key: &Key) {
    let Some(some) = index.get_mut(of) else { return };
    some.remove(key);
    if some.is_empty() {
        index.remove(of);
    }
}
