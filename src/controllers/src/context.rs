//! Inputs of every reconciler: clients of the outside world, the settings, and the shared view.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_cloud::Provider;
use karpenter_kube_harness::write::Object;
use karpenter_model::repair::RepairPolicy;
use karpenter_model::{Clock, NodeClassRef, Snapshot};
use karpenter_telemetry::events::Recorder;
use karpenter_telemetry::metrics::Metrics;
use kube::api::Api;

use crate::{Explanations, Settings, View};

/// The surroundings of the controllers. Cheap to clone; every part is shared.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: kube::Client,
    /// The API server, for hints: what waits for everything else but events, and may be left out.
    pub hints: kube::Client,
    /// The cloud.
    pub provider: Arc<dyn Provider>,
    /// Policies for broken nodes, from [`crate::repair_policies`].
    pub repair: Arc<[RepairPolicy]>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    pub settings: Arc<Settings>,
    /// Recorder of events.
    pub recorder: Arc<Recorder>,
    pub metrics: Arc<Metrics>,
    /// Shared view of the cluster.
    pub view: Arc<View>,
    /// Explanations of the last decisions, served on request.
    pub explanations: Explanations,
}

impl Context {
    /// The present instant.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Everything a plan may look at, frozen; `None` while something it needs has never been listed.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let mut snapshot = self.view.snapshot(self.now())?;
        snapshot.zones_away = self.provider.zones_away();
        // With the setting broken nodes are left to `node.health`; two controllers must not give up the same
        // node.
        if !self.settings.legacy_node_repair {
            snapshot.repair = Arc::clone(&self.repair);
        }
        Some(snapshot)
    }

    /// The cluster-scoped objects of one kind.
    pub fn all<K: Object>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// True when the node class is one of the provider's; everything else is not ours to touch.
    pub fn manages(&self, class: &NodeClassRef) -> bool {
        self.provider.node_class_kinds().iter().any(|kind| kind.owns(class))
    }
}
