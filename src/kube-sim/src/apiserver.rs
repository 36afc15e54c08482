//! A Kubernetes API server in memory.
//!
//! Layers, each ignorant of the one above: objects and patches ([`patch`], [`karpenter_api::schema`]) - a pure [`store::Store`]
//! with one file per verb - HTTP over it ([`http`]). The store is guarded by one lock that is never held across an
//! await; watchers sleep on the revision and then read the log.
//!
//! Not included: no authentication, no authorization, no admission webhooks, no conversion webhooks, no API priority and
//! fairness. Faults are injected on purpose instead ([`faults`]).

mod builtin;
mod columns;
mod crd;
pub mod faults;
mod http;
mod jsonpath;
pub mod listing;
pub mod object;
pub(crate) mod patch;
mod refusal;
mod resource;
mod selector;
pub mod serve;
mod signal;
pub mod store;
pub mod stored;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use karpenter_api::schema::Cause;
use karpenter_model::Clock;
use parking_lot::Mutex;
use serde_json::Value;

use self::signal::{Signal, Waiter};
use self::store::{Kept, Store, WriteOptions};
pub use self::{
    faults::{Fault, Faults, Rule},
    refusal::Refusal,
    resource::{Registry, Resource, TableName},
    selector::label_selector_matches,
    serve::Serving,
};

/// Setup of the server.
#[derive(Clone)]
pub struct Options {
    /// Source of every timestamp.
    pub clock: Arc<dyn Clock>,
    /// Decides uids and generated names.
    pub seed: u64,
    /// Largest lag of a watcher before it gets 410.
    pub kept: Kept,
    /// Kubernetes version that `/version` reports, for example `1.35`.
    pub version: String,
}

impl Options {
    /// Options with room for 10,000 changes per resource, however old.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let kept = Kept { changes: 10_000, age: Duration::MAX };
        Self { clock, seed: 0, kept, version: "1.35".to_owned() }
    }
}

/// The server. Clones share the same store.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

struct Shared {
    store: Mutex<Store>,
    /// Set with every write to a table, so that a watch of one table is not woken by the others.
    tables: Mutex<BTreeMap<TableName, Vec<Signal<u64>>>>,
    faults: Faults,
    version: String,
}

impl ApiServer {
    /// A server with default options.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_options(Options::new(clock))
    }

    /// A server with the given options.
    pub fn with_options(options: Options) -> Self {
        let store = Store::new(options.clock, options.seed, options.kept);
        let faults = Faults::new(options.seed);
        let (store, tables) = (Mutex::new(store), Mutex::default());
        let shared = Shared { store, tables, faults, version: options.version };
        Self { shared: Arc::new(shared) }
    }

    /// A client whose requests never leave the process. Must be called within a tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(http::Service::new(self.clone()), "default")
    }

    /// Faults to inject into requests.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Reads the store directly, for checkers and dumps.
    pub fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&self.shared.store.lock())
    }

    /// Writes to the store directly and wakes the watchers.
    pub fn write<T>(&self, write: impl FnOnce(&mut Store) -> T) -> T {
        let (result, touched, revision) = {
            let mut store = self.shared.store.lock();
            let result = write(&mut store);
            (result, store.take_touched(), store.revision())
        };
        let signals = self.shared.tables.lock();
        touched
            .iter()
            .filter_map(|table| signals.get(table))
            .flatten()
            .for_each(|signal| signal.set(revision));
        drop(signals);
        result
    }

    /// Creates any object whose kind the server knows, CustomResourceDefinitions included; the namespace is that
    /// of the object, or `default`.
    pub fn load(&self, object: &Value) -> Result<Arc<Value>, Refusal> {
        self.write(|store| {
            let resource = resource_of(store, object)?;
            let namespace = match object::namespace(object) {
                "" if resource.namespaced => "default",
                given => given,
            };
            store.create(&resource, namespace, object.clone(), &WriteOptions::default())
        })
    }

    /// Puts an object back as another API server stored it, with its uid, times, owners and status. Fields that the schema
    /// of its kind does not know are refused.
    pub fn restore(&self, object: &Value) -> Result<Arc<Value>, Refusal> {
        self.write(|store| {
            let resource = resource_of(store, object)?;
            store.restore(&resource, object.clone())
        })
    }

    fn version(&self) -> &str {
        &self.shared.version
    }

    /// Waits for writes to a table.
    pub(crate) fn subscribe(&self, table: &TableName) -> Waiter<u64> {
        let mut tables = self.shared.tables.lock();
        if !tables.contains_key(table) {
            tables.insert(table.clone(), vec![Signal::new(0)]);
        }
        tables[table][0].subscribe()
    }

    /// Waits for writes to any of some tables. What is kept for that is kept as long as the server.
    pub(crate) fn subscribe_any(&self, of: impl IntoIterator<Item = TableName>) -> Waiter<u64> {
        let (signal, mut tables) = (Signal::new(0), self.shared.tables.lock());
        for table in of {
            tables.entry(table).or_insert_with(|| vec![Signal::new(0)]).push(signal.clone());
        }
        signal.subscribe()
    }
}

fn resource_of(store: &Store, object: &Value) -> Result<Arc<Resource>, Refusal> {
    let (version, kind) = (object::text(object, "/apiVersion"), object::text(object, "/kind"));
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let resource = store.registry().of_kind(group, version, kind);
    resource
        .ok_or_else(|| Refusal::bad_request(format!("no matches for kind `{kind}` in `{group}/{version}`")))
}
