//! The pure heart of the API server: verbs in, objects and changes out. No I/O, no locks, no wall clock.
//!
//! Invariants:
//! - every write has its own revision, and `metadata.resourceVersion` of an object is the revision of its last
//!   write; revisions only grow;
//! - a refused verb changes nothing;
//! - what a watcher reads from the log from revision R on, applied to a list at revision R, gives the tables.
//!
//! A dry run is a verb on a clone: objects are shared, so a clone costs a few tree nodes per table.

mod admission;
mod bind;
mod create;
mod defaults;
mod delete;
mod evict;
mod log;
mod names;
mod owners;
mod patch;
mod read;
mod scale;
mod token;
mod update;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use karpenter_api::convert::SYSTEM_PRIORITIES;
use karpenter_model::Clock;
use serde_json::{Value, json};

pub use self::{
    delete::{DeleteOptions, Deleted, Propagation},
    evict::allowed_disruptions,
    log::{Change, ChangeKind, Kept},
    patch::{Patch, PatchKind},
    read::{ListQuery, Page},
};
use self::{log::Log, owners::Owners};
use super::{
    builtin, crd,
    object::{self, Key},
    refusal::Refusal,
    resource::{Registry, Resource, TableName},
};

/// Options of a write.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// `fieldManager`, or what the user agent suggests.
    pub manager: String,
    /// Take fields over from other managers (server-side apply).
    pub force: bool,
    /// Refuse fields the schema does not know instead of dropping them (`fieldValidation=Strict`).
    pub strict: bool,
    /// Answer as a creation would, and store nothing (`dryRun=All`).
    pub dry_run: bool,
}

/// Stand-in of mutating webhooks: changes a new pod after everything else has.
pub type PodWebhook = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// Part of an object that a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Everything except the status of kinds with a status subresource.
    Main,
    /// The status only.
    Status,
}

/// Everything the API server stores.
#[derive(Clone)]
pub struct Store {
    clock: Arc<dyn Clock>,
    registry: Registry,
    tables: BTreeMap<TableName, BTreeMap<Key, Arc<Value>>>,
    owners: Owners,
    log: Log,
    revision: u64,
    /// Tables written to since they were asked for.
    touched: BTreeSet<TableName>,
    random: fastrand::Rng,
    pod_webhook: Option<PodWebhook>,
}

impl Store {
    /// A store with the namespaces and priority classes that every cluster has. `seed` decides uids and
    /// generated names; `kept` how far a watcher may lag behind.
    pub fn new(clock: Arc<dyn Clock>, seed: u64, kept: Kept) -> Self {
        let mut store = Self {
            clock,
            registry: builtin::registry(),
            tables: BTreeMap::new(),
            owners: Owners::default(),
            log: Log::new(kept),
            revision: 0,
            touched: BTreeSet::new(),
            random: fastrand::Rng::with_seed(seed),
            pod_webhook: None,
        };
        store.create_initial_objects();
        store
    }

    /// Lets `webhook` change every new pod.
    pub fn set_pod_webhook(&mut self, webhook: PodWebhook) {
        self.pod_webhook = Some(webhook);
    }

    fn create_initial_objects(&mut self) {
        let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
        for name in namespaces {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.create_initial("", "namespaces", namespace);
        }
        for (name, value) in SYSTEM_PRIORITIES {
            let class = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value,
            });
            self.create_initial("scheduling.k8s.io", "priorityclasses", class);
        }
    }

    fn create_initial(&mut self, group: &str, plural: &str, object: Value) {
        let resource = self.registry.get(group, "v1", plural).expect("invariant: the kind is built in");
        self.create(&resource, "", object, &WriteOptions::default())
            .expect("invariant: the initial objects are valid");
    }

    /// Returns the kinds that the server serves.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The current time of the simulated world.
    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// Changes of a table after `revision`, oldest first; 410 when they are no longer kept.
    pub fn changes_since(&self, table: &TableName, revision: u64) -> Result<Vec<Change>, Refusal> {
        self.log.since(table, revision)
    }

    /// Revision of the last write to a table, 0 when it was never written.
    pub(crate) fn table_revision(&self, table: &TableName) -> u64 {
        self.log.newest(table)
    }

    /// Tables written to since the last time.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<TableName> {
        std::mem::take(&mut self.touched)
    }

    fn touch(&mut self, table: &TableName) {
        if !self.touched.contains(table) {
            self.touched.insert(table.clone());
        }
    }

    /// Changes of a table that a watch which has seen all up to `revision` has not; 410 when some are no longer kept.
    /// Unlike one that resumes it does not mind that other tables have moved on.
    pub(crate) fn unseen(&self, table: &TableName, revision: u64) -> Result<Vec<Change>, Refusal> {
        self.log.unseen(table, revision)
    }

    /// Forgets the history, as etcd compaction does: watchers that lag get 410.
    pub fn compact(&mut self) {
        self.log.compact(self.revision);
    }

    fn table(&self, table: &TableName) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.tables.get(table).into_iter().flatten()
    }

    fn find(&self, resource: &Resource, key: &Key) -> Result<Arc<Value>, Refusal> {
        let found = self.tables.get(&resource.table()).and_then(|table| table.get(key));
        found.cloned().ok_or_else(|| Refusal::not_found(resource, &key.name))
    }

    /// Writes an object and tells the log. Every write ends here.
    fn commit(&mut self, table: &TableName, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        object::metadata_mut(&mut object)
            .insert("resourceVersion".to_owned(), json!(self.revision.to_string()));
        self.touch(table);
        let object = Arc::new(object);
        let key = Key::of(&object);
        let previous = self.tables.entry(table.clone()).or_default().insert(key.clone(), object.clone());
        // Owners hardly ever change.
        if previous
            .as_ref()
            .is_none_or(|previous| object::owner_uids(previous).ne(object::owner_uids(&object)))
        {
            if let Some(previous) = &previous {
                self.owners.forget(table, &key, previous);
            }
            self.owners.learn(table, &key, &object);
        }
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.log_change(table, kind, &object, previous);
        if crd::is_crd_table(table) {
            self.serve_custom_resource(&object);
        }
        object
    }

    /// Removes an object and tells the log. Every removal ends here; what follows from it is in `delete/cascade.rs`.
    fn erase(&mut self, table: &TableName, key: &Key) -> Option<Arc<Value>> {
        let previous = self.tables.get_mut(table)?.remove(key)?;
        self.revision += 1;
        self.touch(table);
        self.owners.forget(table, key, &previous);
        let mut last = Value::clone(&previous);
        object::metadata_mut(&mut last)
            .insert("resourceVersion".to_owned(), json!(self.revision.to_string()));
        let last = Arc::new(last);
        self.log_change(table, ChangeKind::Deleted, &last, Some(previous));
        self.after_erase(table, &last);
        Some(last)
    }

    fn log_change(
        &mut self,
        table: &TableName,
        kind: ChangeKind,
        object: &Arc<Value>,
        previous: Option<Arc<Value>>,
    ) {
        let (revision, at, object) = (self.revision, self.now(), Arc::clone(object));
        self.log.push(table, Change { revision, at, kind, object, previous, text: Arc::default() });
    }

    fn serve_custom_resource(&mut self, definition: &Value) {
        self.registry.remove(&crd::table_of(definition));
        if object::is_deleting(definition) {
            return;
        }
        for resource in crd::resources(definition) {
            self.registry.insert(resource);
        }
    }

    fn fresh_uid(&mut self) -> String {
        let (high, low) = (self.random.u64(..), self.random.u64(..));
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff
        )
    }

    /// Five characters that kube-apiserver uses for generated names: no vowels, no look-alikes.
    fn fresh_suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| char::from(ALPHABET[self.random.usize(..ALPHABET.len())])).collect()
    }
}

#[cfg(test)]
mod tests;
