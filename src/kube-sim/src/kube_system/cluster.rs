//! The store as the stand-ins use it: lists, and writes whose refusal is worth a log line and nothing else, because the
//! next pass looks again.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::pods::Pods;
use super::unread::resource;
use crate::apiserver::{
    ApiServer, Refusal,
    object::{self, Key},
    store::{DeleteOptions, ListQuery, Part, Patch, PatchKind, Store, WriteOptions},
};

/// The cluster during one pass.
pub(super) struct Cluster<'a> {
    pub(super) server: &'a ApiServer,
    /// Its pods when the pass of the stand-in began.
    pub(super) pods: &'a mut Pods,
    /// The time of the pass.
    pub(super) now: Timestamp,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(server: &'a ApiServer, pods: &'a mut Pods) -> Self {
        Self { server, pods, now: server.read(Store::now) }
    }

    /// The node of this name.
    pub(super) fn node(&self, name: &str) -> Option<Arc<Value>> {
        self.server.read(|store| store.get(&resource(store, "", "nodes"), &Key::new("", name)).ok())
    }

    /// The time of the pass as the API writes it.
    pub(super) fn timestamp(&self) -> String {
        object::rfc3339(self.now)
    }

    /// All objects of a built-in kind, in order of namespace and name.
    pub(super) fn list(&self, group: &str, plural: &str) -> Vec<Arc<Value>> {
        let listed =
            self.server.read(|store| store.list(&resource(store, group, plural), &ListQuery::default()));
        listed.map(|page| page.items).unwrap_or_default()
    }

    pub(super) fn create(&self, group: &str, plural: &str, namespace: &str, object: Value) -> bool {
        self.write(|store| {
            store
                .create(&resource(store, group, plural), namespace, object, &WriteOptions::default())
                .map(drop)
        })
    }

    /// Merges `body` into the object or, for [`Part::Status`], into its status.
    pub(super) fn patch(&self, group: &str, plural: &str, of: &Value, part: Part, body: Value) -> bool {
        let patch = Patch { kind: PatchKind::Merge, body };
        let key = Key::of(of);
        self.write(|store| {
            let resource = resource(store, group, plural);
            store.patch(&resource, &key, &patch, part, &WriteOptions::default()).map(drop)
        })
    }

    /// Writes `status` when it differs from what the object says.
    pub(super) fn report(&self, group: &str, plural: &str, of: &Value, status: &Value) {
        let says = |(field, value): (&String, &Value)| of["status"].get(field) == Some(value);
        if !status.as_object().into_iter().flatten().all(says) {
            self.patch(group, plural, of, Part::Status, serde_json::json!({"status": status}));
        }
    }

    pub(super) fn delete(&self, group: &str, plural: &str, object: &Value) -> bool {
        let options = DeleteOptions { uid: object::uid(object).to_owned(), ..DeleteOptions::default() };
        self.write(|store| {
            store.delete(&resource(store, group, plural), &Key::of(object), &options).map(drop)
        })
    }

    pub(super) fn bind(&self, pod: &Value, node: &str) -> bool {
        let binding = serde_json::json!({"target": {"kind": "Node", "name": node}});
        self.write(|store| store.bind(&resource(store, "", "pods"), &Key::of(pod), &binding))
    }

    fn write(&self, write: impl FnOnce(&mut Store) -> Result<(), Refusal>) -> bool {
        match self.server.write(write) {
            Ok(()) => true,
            Err(refusal) => {
                tracing::debug!(%refusal, "a stand-in was refused");
                false
            }
        }
    }
}
