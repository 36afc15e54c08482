//! What the process knows of the cluster: objects as the API server last showed them, what they mean, and who is
//! to be woken when they change.
//!
//! One lock around the cluster index and the objects it was made from; every method is a lookup or an insertion,
//! never I/O. What the watches say and what our own writes are answered with both end here, so a pass that follows
//! a write sees it. Objects of foreign node classes are not let in.

mod attempts;
mod buffer;
mod class;
mod daemon;
mod device;
mod feed;
mod limit_range;
mod limits;
mod names;
mod overlay;
pub(super) mod read;
pub(super) mod store;
mod types;
mod volume;
mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_cloud::NodeClassKind;
use karpenter_cluster::{Cluster, Version};
use karpenter_model::{
    Claim, ClaimName, LabelRegistry, NodeName, NodeObject, Pod, PodKey, Pool, PoolName, ProviderId, Snapshot,
};

pub(crate) use buffer::{KnownBuffer, key_of};
pub use class::Class;
pub use feed::Feed;
pub(crate) use feed::version;
pub(crate) use overlay::Unevaluated;
pub use wake::{Conditioned, PodSeen, StatusSeen, Subscribers};

use crate::view::store::{Known, Store};
use karpenter_kube_harness::watch::Troubles;

/// A NodeClaim as shown and as read.
pub type KnownClaim = Known<NodeClaim, Claim>;
/// A Node as shown and as read.
pub type KnownNode = Known<Node, NodeObject>;
/// A NodePool as shown and as read.
pub type KnownPool = Known<NodePool, Pool>;

/// The shared view.
pub struct View {
    classes: Vec<NodeClassKind>,
    registry: Arc<LabelRegistry>,
    inner: Mutex<Inner>,
    subscribers: Subscribers,
    troubles: Troubles,
}

struct Inner {
    claims: Store<NodeClaim, Claim>,
    nodes: Store<Node, NodeObject>,
    pools: Store<NodePool, Pool>,
    cluster: Cluster,
    reservations: limits::Granted,
    /// Claims whose replacements are being created.
    replacing: BTreeSet<ClaimName>,
    attempts: attempts::Attempts,
    node_classes: class::Classes,
    volumes: volume::Volumes,
    devices: device::Devices,
    daemons: daemon::Daemons,
    limit_ranges: limit_range::LimitRanges,
    /// `None` with the gate closed.
    overlays: Option<overlay::Known>,
    buffers: buffer::Buffers,
    types_problems: BTreeMap<PoolName, String>,
    derivations: u64,
    suffixes: names::Suffixes,
    /// Kinds a provider lists, which plans need as well.
    provided: BTreeSet<&'static str>,
}

impl Inner {
    /// The version of something made of several objects, which has none of its own: our count of derivations. Each
    /// kind comes from one watch, in order, so the last derivation is from the newest objects.
    fn derived(&mut self) -> Version {
        self.derivations += 1;
        Version(self.derivations)
    }

    fn unlisted(&self) -> Vec<&'static str> {
        let index = self.cluster.unlisted().into_iter();
        let index = index.chain(self.volumes.unlisted()).chain(self.devices.unlisted());
        index.chain(self.provided.iter().copied()).collect()
    }
}

impl View {
    /// A view that has been told nothing. `classes` are the node classes of the provider.
    pub fn new(
        settings: Arc<karpenter_model::Settings>,
        registry: Arc<LabelRegistry>,
        classes: &[NodeClassKind],
    ) -> Self {
        let devices = device::Devices::new(!settings.ignore_dra_requests);
        let overlays = settings.gates.node_overlay.then(overlay::Known::new);
        let inner = Inner {
            claims: Store::new(|claim: &Claim| claim.provider_id.clone()),
            nodes: Store::new(|node: &NodeObject| node.provider_id.clone()),
            pools: Store::new(|_| None),
            cluster: Cluster::new(settings, Arc::clone(&registry)),
            reservations: limits::Granted::default(),
            replacing: BTreeSet::new(),
            attempts: attempts::Attempts::new(),
            node_classes: class::Classes::default(),
            volumes: volume::Volumes::default(),
            devices,
            daemons: daemon::Daemons::default(),
            limit_ranges: limit_range::LimitRanges::default(),
            overlays,
            buffers: buffer::Buffers::default(),
            types_problems: BTreeMap::new(),
            derivations: 0,
            suffixes: names::Suffixes::default(),
            provided: BTreeSet::new(),
        };
        Self {
            classes: classes.to_vec(),
            registry,
            inner: Mutex::new(inner),
            subscribers: Subscribers::default(),
            troubles: Troubles::default(),
        }
    }

    /// Who follows changes.
    pub fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    /// What is known about label keys.
    pub fn registry(&self) -> &LabelRegistry {
        &self.registry
    }

    /// The claim of this name.
    pub fn claim(&self, name: &ClaimName) -> Option<KnownClaim> {
        self.lock().claims.get(name.as_str())
    }

    /// Every claim, in name order.
    pub fn claims(&self) -> Vec<KnownClaim> {
        self.lock().claims.iter().cloned().collect()
    }

    /// Every claim of the machine with this id; more than one means something is wrong.
    pub fn claims_of(&self, id: &ProviderId) -> Vec<KnownClaim> {
        self.lock().claims.of(id)
    }

    /// The Node of this name.
    pub fn node(&self, name: &NodeName) -> Option<KnownNode> {
        self.lock().nodes.get(name.as_str())
    }

    /// Every Node, in name order.
    pub fn nodes(&self) -> Vec<KnownNode> {
        self.lock().nodes.iter().cloned().collect()
    }

    /// Every Node of the machine with this id; more than one means something is wrong.
    pub fn nodes_of(&self, id: &ProviderId) -> Vec<Arc<NodeObject>> {
        self.lock().nodes.of(id).into_iter().map(|known| known.model).collect()
    }

    /// The pool of this name.
    pub fn pool(&self, name: &PoolName) -> Option<KnownPool> {
        self.lock().pools.get(name.as_str())
    }

    /// Every pool, in name order.
    pub fn pools(&self) -> Vec<KnownPool> {
        self.lock().pools.iter().cloned().collect()
    }

    /// The pods bound to a Node that have not ended, in key order.
    pub fn pods_on(&self, node: &NodeName) -> Vec<Arc<Pod>> {
        self.lock().cluster.pods_on(node).cloned().collect()
    }

    /// The pod with this key.
    pub fn pod(&self, key: &PodKey) -> Option<Arc<Pod>> {
        self.lock().cluster.pod(key).cloned()
    }

    /// Everything, frozen; `None` while something a plan needs has never been listed.
    pub fn snapshot(&self, now: Timestamp) -> Option<Snapshot> {
        let mut inner = self.lock();
        if !inner.unlisted().is_empty() {
            return None;
        }
        let mut snapshot = inner.cluster.snapshot(now);
        snapshot.devices = inner.devices.model(&inner.cluster);
        Some(snapshot)
    }

    /// The kinds that have never been listed; empty once plans can be made.
    pub fn unlisted(&self) -> Vec<&'static str> {
        self.lock().unlisted()
    }

    /// Makes no plan before a provider has listed `kind`, see [`View::provided`]. Without its node classes the provider
    /// knows no instance types, and pools would be reported missing that are not.
    pub fn wait_for(&self, kind: &'static str) {
        self.lock().provided.insert(kind);
    }

    /// A provider has listed `kind`.
    pub fn provided(&self, kind: &str) {
        self.lock().provided.remove(kind);
    }

    /// The kinds that have never been listed, each with what is wrong with its watch; empty once everything was.
    pub fn awaited(&self) -> String {
        let kinds = self.unlisted();
        let told = kinds.into_iter().map(|kind| match self.troubles.of(kind) {
            Some(trouble) => format!("{kind} ({trouble})"),
            None => kind.to_owned(),
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// What is wrong with the watches.
    pub fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    /// Reads or changes the cluster index: marks, nominations, promises, usage. `work` must not block.
    pub fn with_cluster<T>(&self, work: impl FnOnce(&mut Cluster) -> T) -> T {
        work(&mut self.lock().cluster)
    }

    /// Drops what is kept beside the pool; it is not put there again for a pool that is not known.
    fn forget_pool(&self, pool: &Pool) {
        let mut inner = self.lock();
        inner.types_problems.remove(&pool.name);
        inner.node_classes.forget_registrations(&pool.uid);
        if let Some(overlays) = &mut inner.overlays {
            overlays.forget(&pool.name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
