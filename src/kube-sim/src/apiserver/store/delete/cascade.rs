//! Consequences of a removal: dependents of a gone owner, contents of a namespace, instances of a custom kind.
//!
//! kube-controller-manager does this a moment later in the background; here it happens within the same verb,
//! so a simulation has no window in which orphans are visible and needs no controller for it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::DeleteOptions;
use crate::apiserver::{
    crd,
    object::{self, Key},
    resource::TableName,
    store::{Store, owners::FOREGROUND},
};

impl Store {
    pub(in crate::apiserver::store) fn after_erase(&mut self, table: &TableName, object: &Value) {
        let uid = object::uid(object).to_owned();
        self.owners.mark_gone(&uid);
        for (table, key) in self.owners.of(&uid) {
            self.collect(&table, &key);
        }
        for owner in object::list(object, "/metadata/ownerReferences") {
            self.release_foreground_owner(owner, object::namespace(object));
        }
        if crd::is_crd_table(table) {
            self.registry.remove(&crd::table_of(object));
        }
        if !object::namespace(object).is_empty() {
            self.finish_namespace(object::namespace(object));
        }
    }

    /// Deletes an object that arrives after its owners have gone.
    pub(in crate::apiserver::store) fn collect_late_arrival(
        &mut self,
        table: &TableName,
        object: &Arc<Value>,
    ) {
        if self.owners.all_gone(object) {
            self.collect(table, &Key::of(object));
        }
    }

    /// Deletes the dependents of an object that is kept until they are gone.
    pub(super) fn delete_dependents(&mut self, uid: &str) {
        for (table, key) in self.owners.of(uid) {
            self.delete_quietly(&table, &key);
        }
    }

    /// Removes the reference to a deleted owner from its dependents, for orphaning deletion.
    pub(super) fn orphan_dependents(&mut self, uid: &str) {
        for (table, key) in self.owners.of(uid) {
            let Some(current) = self.tables.get(&table).and_then(|t| t.get(&key)) else { continue };
            let mut dependent = Value::clone(current);
            let references = &mut dependent["metadata"]["ownerReferences"];
            if let Some(list) = references.as_array_mut() {
                list.retain(|owner| object::text(owner, "/uid") != uid);
            }
            self.commit(&table, dependent);
        }
    }

    fn collect(&mut self, table: &TableName, key: &Key) {
        let current = self.tables.get(table).and_then(|t| t.get(key));
        if current.is_some_and(|object| self.owners.all_gone(object)) {
            self.delete_quietly(table, key);
        }
    }

    fn delete_quietly(&mut self, table: &TableName, key: &Key) {
        if let Some(resource) = self.registry.of_table(table) {
            // The only refusal possible is that the object is gone already, which is what we want.
            let _ = self.delete(&resource, key, &DeleteOptions::default());
        }
    }

    /// Lets the owner of a reference in `namespace` go if it was kept until its last dependent is gone.
    fn release_foreground_owner(&mut self, reference: &Value, namespace: &str) {
        let [uid, kind, version, name] =
            ["/uid", "/kind", "/apiVersion", "/name"].map(|pointer| object::text(reference, pointer));
        if !self.owners.of(uid).is_empty() {
            return;
        }
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        let waiting = self.registry.iter().find_map(|resource| {
            let is_it = resource.kind == kind && resource.group == group;
            let table = is_it.then(|| TableName::new(&resource.group, &resource.plural))?;
            let key = Key::new(if resource.namespaced { namespace } else { "" }, name);
            let found = self.tables.get(&table)?.get(&key)?;
            let waits = object::uid(found) == uid && object::finalizers(found).contains(&FOREGROUND);
            waits.then(|| (table, Value::clone(found)))
        });
        let Some((table, mut owner)) = waiting else { return };
        if let Some(list) = owner["metadata"]["finalizers"].as_array_mut() {
            list.retain(|f| f != FOREGROUND);
        }
        let last = object::finalizers(&owner).is_empty();
        let owner = self.commit(&table, owner);
        if last {
            self.erase(&table, &Key::of(&owner));
        }
    }

    /// Deletes everything in a namespace whose deletion has begun, then the namespace.
    pub(super) fn empty_namespace(&mut self, namespace: &str) {
        let inside = |(name, table): (&TableName, &BTreeMap<Key, Arc<Value>>)| {
            let keys = table.keys().filter(|k| k.namespace == namespace);
            keys.map(|k| (name.clone(), k.clone())).collect::<Vec<_>>()
        };
        let contents: Vec<(TableName, Key)> = self.tables.iter().flat_map(inside).collect();
        for (table, key) in contents {
            self.delete_quietly(&table, &key);
        }
        self.finish_namespace(namespace);
    }

    fn finish_namespace(&mut self, namespace: &str) {
        let table = TableName::new("", "namespaces");
        let key = Key::new("", namespace);
        let deleting =
            self.tables.get(&table).and_then(|t| t.get(&key)).is_some_and(|n| object::is_deleting(n));
        let is_empty = || self.tables.values().all(|t| t.keys().all(|k| k.namespace != namespace));
        if deleting && is_empty() {
            self.erase(&table, &key);
        }
    }

    /// Marks a namespace as terminating.
    pub(super) fn terminate_namespace(namespace: &mut Value) {
        object::map_mut(namespace, "status").insert("phase".to_owned(), json!("Terminating"));
    }
}
