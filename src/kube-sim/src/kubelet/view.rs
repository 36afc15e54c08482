//! Nodes and bound pods, kept current by watches, and which nodes they say something new about.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinSet};

/// The view; dropping it ends the watches.
pub(super) struct View {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<String, Arc<Node>>,
    /// Pods by node, then by namespace and name.
    pods: BTreeMap<String, BTreeMap<(String, String), Arc<Pod>>>,
    /// Names of nodes since they were asked for.
    changed: BTreeSet<String>,
}

impl View {
    pub(super) fn watch(client: &Client) -> Self {
        let (state, changed) = (Arc::<Mutex<State>>::default(), Arc::new(Notify::new()));
        let mut watches = JoinSet::new();
        let all = watcher::Config::default();
        follow::<Node>(Api::all(client.clone()), all.clone(), &state, &changed, &mut watches);
        follow::<Pod>(
            Api::all(client.clone()),
            all.fields("spec.nodeName!="),
            &state,
            &changed,
            &mut watches,
        );
        Self { state, changed, _watches: watches }
    }

    /// Returns after the next change, at once if there was one since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Names of the nodes that have changed since the last call, or whose pods have.
    pub(super) fn take_changed(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.state.lock().changed)
    }

    pub(super) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.state.lock().nodes.get(name).cloned()
    }

    /// Pods bound to a node, in order of namespace and name.
    pub(super) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.state.lock().pods.get(node).map(|pods| pods.values().cloned().collect()).unwrap_or_default()
    }
}

/// Watched kind.
trait Watched: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static {
    /// It is as given, or no more.
    fn put(self, there: bool, state: &mut State);

    /// Replaces all objects of the kind by these.
    fn replace(all: Vec<Self>, state: &mut State);
}

impl Watched for Node {
    fn put(self, there: bool, state: &mut State) {
        let name = self.name_any();
        state.changed.insert(name.clone());
        if there {
            state.nodes.insert(name, Arc::new(self));
        } else {
            state.nodes.remove(&name);
        }
    }

    fn replace(all: Vec<Self>, state: &mut State) {
        state.changed.extend(std::mem::take(&mut state.nodes).into_keys());
        for node in all {
            node.put(true, state);
        }
    }
}

impl Watched for Pod {
    fn put(self, there: bool, state: &mut State) {
        let node = self.spec.as_ref().and_then(|s| s.node_name.clone()).unwrap_or_default();
        let key = (self.namespace().unwrap_or_default(), self.name_any());
        state.changed.insert(node.clone());
        let pods = state.pods.entry(node.clone()).or_default();
        if there {
            pods.insert(key, Arc::new(self));
        } else {
            pods.remove(&key);
        }
        if pods.is_empty() {
            state.pods.remove(&node);
        }
    }

    fn replace(all: Vec<Self>, state: &mut State) {
        state.changed.extend(std::mem::take(&mut state.pods).into_keys());
        for pod in all {
            pod.put(true, state);
        }
    }
}

fn follow<K: Watched + serde::de::DeserializeOwned>(
    api: Api<K>,
    config: watcher::Config,
    state: &Arc<Mutex<State>>,
    changed: &Arc<Notify>,
    watches: &mut JoinSet<()>,
) {
    let (state, changed) = (Arc::clone(state), Arc::clone(changed));
    watches.spawn(async move {
        let mut listed = Vec::new();
        let mut stream = std::pin::pin!(watcher::watcher(api, config).default_backoff());
        while let Some(event) = stream.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => listed.push(object),
                Ok(Event::InitDone) => K::replace(std::mem::take(&mut listed), &mut state.lock()),
                Ok(Event::Apply(object)) => object.put(true, &mut state.lock()),
                Ok(Event::Delete(object)) => object.put(false, &mut state.lock()),
                Err(error) => {
                    tracing::debug!(%error, "watch interrupted");
                    continue;
                }
            }
            changed.notify_one();
        }
    });
}
