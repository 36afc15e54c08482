//! Surroundings for unit tests: an API server and a cloud in memory, events kept.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::future::ready;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_cloud::Provider;
use karpenter_cloud::memory::{Account, Catalogue, MemoryProvider, Options};
use karpenter_kube_harness::queue::{Done, Queue, Spec};
use karpenter_kube_harness::watch::{Seen, key};
use karpenter_kube_harness::write::Object;
use karpenter_kube_sim::VirtualClock;
use karpenter_kube_sim::apiserver::ApiServer;
use karpenter_model::Clock;
use karpenter_telemetry::events::{MemorySink, Recorder};
use karpenter_telemetry::metrics::Metrics;
use kube::Resource;
use kube::api::ListParams;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::view::Followed;
use crate::{Context, Error, Settings, View};

/// A context and what is behind it.
pub(crate) struct World {
    pub(crate) context: Context,
    pub(crate) server: ApiServer,
    pub(crate) account: Arc<Account>,
    pub(crate) events: MemorySink,
}

impl World {
    /// An empty cluster at the epoch.
    pub(crate) fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
        let account = Account::new(Arc::clone(&clock), Options::default());
        let provider = MemoryProvider::new(Arc::clone(&account), Arc::new(Catalogue::small(&["zone-a"])));
        let settings = Arc::new(Settings::default());
        let decisions = Arc::clone(&settings.decisions);
        let view = View::new(decisions, provider.label_registry(), provider.node_class_kinds());
        let server = ApiServer::new(Arc::clone(&clock));
        let (events, time) = (MemorySink::default(), Arc::clone(&clock));
        let context = Context {
            repair: Arc::default(),
            client: server.client(),
            hints: server.client(),
            provider: Arc::new(provider),
            clock,
            settings,
            recorder: Arc::new(Recorder::new(events.clone(), move || time.now())),
            metrics: Arc::new(Metrics::new()),
            view: Arc::new(view),
            explanations: crate::Explanations::default(),
        };
        Self { context, server, account, events }
    }

    /// Returns a fixture with the definitions of our kinds.
    pub(crate) fn with_definitions() -> Self {
        let world = Self::new();
        for definition in karpenter_api::crd::crd_values() {
            world.server.load(&definition).unwrap();
        }
        world
    }

    /// Every object of one kind, as the API server has it.
    pub(crate) async fn list<K: Object>(&self) -> Vec<K> {
        self.context.all::<K>().list(&ListParams::default()).await.unwrap().items
    }
}

/// A pool of this name, as the API server would show it.
pub(crate) fn pool(name: &str) -> karpenter_api::NodePool {
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"}}}},
    }))
    .unwrap()
}

/// The state of `object` with this resource version.
pub(crate) fn at<K: Resource>(version: u64, mut object: K) -> K {
    object.meta_mut().resource_version = Some(version.to_string());
    object
}

/// Lets a watch list `objects`, and nothing else.
pub(crate) fn list<K: Followed>(view: &View, objects: impl IntoIterator<Item = K>) {
    view.take::<K>(Seen::Listing);
    let mut keys = BTreeSet::new();
    for object in objects {
        keys.insert(key(&object));
        view.take(Seen::Listed(object));
    }
    view.take::<K>(Seen::Complete(keys));
}

/// Keys that one of the subscribers' queues was asked for, in the order of its passes. Passes take place while the caller
/// sleeps.
pub(crate) fn woken<K: Clone + Ord + Debug + Display + Send + 'static>(
    context: &Context,
    follow: impl FnOnce(Queue<K>),
) -> Arc<Mutex<Vec<K>>> {
    let (queue, work) = Queue::new();
    follow(queue);
    let woken = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&woken);
    let pass = move |key| {
        noting.lock().push(key);
        ready(Ok::<_, Error>(Done::idle()))
    };
    let metrics = Arc::clone(&context.metrics);
    tokio::spawn(work.run(Spec::new("woken", 1), metrics, CancellationToken::new(), pass));
    woken
}
