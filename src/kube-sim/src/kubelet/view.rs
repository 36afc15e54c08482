//! Nodes and bound pods, kept current by watches.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use tokio::{sync::Notify, task::JoinSet};

/// The view; dropping it ends the watches.
pub(super) struct View {
    nodes: Store<Node>,
    pods: Store<Pod>,
    changed: Arc<Notify>,
    _watches: JoinSet<()>,
}

impl View {
    pub(super) fn watch(client: &Client) -> Self {
        let changed = Arc::new(Notify::new());
        let mut watches = JoinSet::new();
        let nodes = follow(Api::all(client.clone()), watcher::Config::default(), &changed, &mut watches);
        let bound = watcher::Config::default().fields("spec.nodeName!=");
        let pods = follow(Api::all(client.clone()), bound, &changed, &mut watches);
        Self { nodes, pods, changed, _watches: watches }
    }

    /// Returns after the next change, at once if there was one since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get(&ObjectRef::new(name))
    }

    /// All nodes in order of their names.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        let mut nodes = self.nodes.state();
        nodes.sort_by_key(|node| node.name_any());
        nodes
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.state();
        pods.sort_by_key(|pod| (pod.namespace(), pod.name_any()));
        pods
    }

    /// Bound pods by the name of their node.
    pub(super) fn pods_by_node(&self) -> BTreeMap<String, Vec<Arc<Pod>>> {
        let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in self.pods() {
            by_node.entry(node_of(&pod).to_owned()).or_default().push(pod);
        }
        by_node
    }
}

/// `spec.nodeName`.
fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}

fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    changed: &Arc<Notify>,
    watches: &mut JoinSet<()>,
) -> Store<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (store, writer) = reflector::store();
    let changed = changed.clone();
    watches.spawn(async move {
        let stream = watcher(api, config).default_backoff().reflect(writer);
        stream
            .for_each(|event| {
                match event {
                    Ok(_) => changed.notify_one(),
                    Err(error) => tracing::debug!(%error, "watch interrupted"),
                }
                std::future::ready(())
            })
            .await;
    });
    store
}
