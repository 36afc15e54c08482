//! State of the cluster in this process: objects as the API server last showed them, their meaning, and the subscribers
//! to their changes.
//!
//! One lock around the cluster index and the little that is kept beside it; every method is a lookup or an insertion,
//! never I/O. Events of the watches and answers to our own writes both end here, so a pass that follows
//! a write sees it. Objects of foreign node classes are not let in.

mod attempts;
mod buffer;
mod class;
mod daemon;
mod device;
mod fact;
mod feed;
mod follow;
mod limit_range;
mod limits;
mod load;
mod names;
mod overlay;
pub(super) mod read;
mod selection;
mod templates;
mod types;
mod undecoded;
mod volume;
mod wake;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::convert::Admission;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_cloud::NodeClassKind;
use karpenter_cluster::{Cluster, Known, Shown};
use karpenter_model::{
    Claim, ClaimName, LabelRegistry, NodeName, NodeObject, Pod, PodKey, Pool, PoolName, ProviderId, Snapshot,
};
use parking_lot::{Mutex, MutexGuard};

pub(crate) use buffer::{KnownBuffer, key_of};
pub use class::Class;
pub use follow::Followed;
pub use load::Unread;
pub(crate) use overlay::Unevaluated;
pub(crate) use undecoded::Widened;
pub use wake::{Conditioned, Following, PodSeen, StatusSeen, Subscribers};

use karpenter_kube_harness::watch::Troubles;

/// A NodeClaim as shown and as read.
pub type KnownClaim = Known<Claim, Arc<NodeClaim>>;
/// A Node as shown and as read.
pub(crate) type KnownNode = Known<NodeObject, Arc<Node>>;
/// A NodePool as shown and as read.
pub(crate) type KnownPool = Known<Pool, Arc<NodePool>>;

/// The index keeps claims, Nodes and pools as the API server shows them as well.
#[derive(Debug)]
pub struct AsShown;

impl Shown for AsShown {
    type Claim = Arc<NodeClaim>;
    type Node = Arc<Node>;
    type Pool = Arc<NodePool>;
}

/// The cluster index of a process.
pub type Index = Cluster<AsShown>;

/// Kinds that must have been listed once before a plan means anything: without them pods would be planned for twice,
/// refused because of volumes that seem not to exist, or evicted against their budgets, and machines terminated while
/// volumes are attached to them.
const NEEDED: [&str; 11] = [
    "Pod",
    "Node",
    "NodeClaim",
    "NodePool",
    "DaemonSet",
    "PodDisruptionBudget",
    "Namespace",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "VolumeAttachment",
];

/// Kinds needed while resource claims are not ignored: without them pods would be refused, and machines be taken for
/// complete.
const NEEDED_FOR_DEVICES: [&str; 3] = ["ResourceSlice", "DeviceClass", "ResourceClaim"];

/// The shared view.
pub struct View {
    classes: Vec<NodeClassKind>,
    /// True if the annotation of a pod's deletion cost counts for its eviction: false where the controller writes it itself.
    reads_deletion_costs: bool,
    registry: Arc<LabelRegistry>,
    inner: Mutex<Inner>,
    subscribers: Subscribers,
    troubles: Troubles,
}

struct Inner {
    cluster: Index,
    lists: follow::Lists,
    reservations: limits::Granted,
    /// Claims whose replacements are being created.
    replacing: BTreeSet<ClaimName>,
    attempts: attempts::Attempts,
    node_classes: class::Classes,
    attachments: volume::Attachments,
    daemons: daemon::Daemons,
    owners: selection::Owners,
    templates: templates::Templates,
    /// Admission of pods made from templates.
    admission: Arc<Admission>,
    /// `None` with the gate closed.
    overlays: Option<overlay::Known>,
    buffers: buffer::Buffers,
    types_problems: BTreeMap<PoolName, String>,
    suffixes: names::Suffixes,
    undecoded: undecoded::Claims,
    /// Kinds a provider has not listed yet; plans wait for them.
    awaited: BTreeSet<&'static str>,
}

impl Inner {
    fn unlisted(&self) -> Vec<&'static str> {
        let devices = !self.cluster.settings().ignore_dra_requests;
        let needed = NEEDED.iter().chain(NEEDED_FOR_DEVICES.iter().filter(|_| devices));
        needed.filter(|kind| !self.lists.has(kind)).chain(&self.awaited).copied().collect()
    }
}

impl View {
    /// An empty view. `classes` are the node classes of the provider.
    pub fn new(
        settings: Arc<karpenter_model::Settings>,
        registry: Arc<LabelRegistry>,
        classes: &[NodeClassKind],
    ) -> Self {
        let reads_deletion_costs = !settings.gates.pod_deletion_cost_management;
        let overlays = settings.gates.node_overlay.then(overlay::Known::new);
        let inner = Inner {
            cluster: Cluster::new(settings, Arc::clone(&registry)),
            lists: follow::Lists::default(),
            reservations: limits::Granted::default(),
            replacing: BTreeSet::new(),
            attempts: attempts::Attempts::new(),
            node_classes: class::Classes::default(),
            attachments: volume::Attachments::new(),
            daemons: daemon::Daemons::default(),
            owners: selection::Owners::default(),
            templates: templates::Templates::default(),
            admission: Arc::default(),
            overlays,
            buffers: buffer::Buffers::default(),
            types_problems: BTreeMap::new(),
            suffixes: names::Suffixes::default(),
            undecoded: undecoded::Claims::default(),
            awaited: BTreeSet::new(),
        };
        Self {
            classes: classes.to_vec(),
            reads_deletion_costs,
            registry,
            inner: Mutex::new(inner),
            subscribers: Subscribers::default(),
            troubles: Troubles::default(),
        }
    }

    /// Returns the subscribers to changes.
    pub fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    /// Returns the registry of label keys.
    pub fn registry(&self) -> &LabelRegistry {
        &self.registry
    }

    /// The claim of this name.
    pub fn claim(&self, name: &ClaimName) -> Option<KnownClaim> {
        self.lock().cluster.get::<Claim>(name).cloned()
    }

    /// Every claim, in name order.
    pub fn claims(&self) -> Vec<KnownClaim> {
        self.lock().cluster.all::<Claim>().cloned().collect()
    }

    /// Every claim of the machine with this id; more than one means something is wrong.
    pub fn claims_of(&self, id: &ProviderId) -> Vec<KnownClaim> {
        self.lock().cluster.claims_of(id).cloned().collect()
    }

    /// The only claim of the machine of `node`; `None` when it has several, because it is not known then whose machine
    /// it is.
    pub(crate) fn sole_claim_of(&self, node: &NodeObject) -> Option<KnownClaim> {
        let inner = self.lock();
        let mut claims = inner.cluster.claims_of(node.provider_id.as_ref()?);
        let first = claims.next()?;
        claims.next().is_none().then(|| first.clone())
    }

    /// The Node of this name.
    pub fn node(&self, name: &NodeName) -> Option<KnownNode> {
        self.lock().cluster.get::<NodeObject>(name).cloned()
    }

    /// Every Node, in name order.
    pub fn nodes(&self) -> Vec<KnownNode> {
        self.lock().cluster.all::<NodeObject>().cloned().collect()
    }

    /// Every Node of the machine with this id; more than one means something is wrong.
    pub fn nodes_of(&self, id: &ProviderId) -> Vec<Arc<NodeObject>> {
        self.lock().cluster.nodes_of(id).map(|known| Arc::clone(&known.model)).collect()
    }

    /// The pool of this name.
    pub fn pool(&self, name: &PoolName) -> Option<KnownPool> {
        self.lock().cluster.get::<Pool>(name).cloned()
    }

    /// Every pool, in name order.
    pub fn pools(&self) -> Vec<KnownPool> {
        self.lock().cluster.all::<Pool>().cloned().collect()
    }

    /// The pods bound to a Node that have not ended, in key order.
    pub fn pods_on(&self, node: &NodeName) -> Vec<Arc<Pod>> {
        self.lock().cluster.pods_on(node).cloned().collect()
    }

    /// The pod with this key.
    pub fn pod(&self, key: &PodKey) -> Option<Arc<Pod>> {
        self.lock().cluster.get::<Pod>(key).map(|known| Arc::clone(&known.model))
    }

    /// Every pod, in key order.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        self.lock().cluster.all::<Pod>().map(|known| Arc::clone(&known.model)).collect()
    }

    /// Everything, frozen; `None` while something a plan needs has never been listed.
    pub fn snapshot(&self, now: Timestamp) -> Option<Snapshot> {
        let mut inner = self.lock();
        if !inner.unlisted().is_empty() {
            return None;
        }
        Some(inner.cluster.freeze(now))
    }

    /// The kinds that have never been listed; empty once plans can be made.
    pub fn unlisted(&self) -> Vec<&'static str> {
        self.lock().unlisted()
    }

    /// Makes no plan before a provider has listed `kind`, see [`View::provider_listed`]. Without its node classes the
    /// provider has no instance types, and pools would be reported missing that are not.
    pub fn wait_for(&self, kind: &'static str) {
        self.lock().awaited.insert(kind);
    }

    /// A provider has listed `kind`.
    pub fn provider_listed(&self, kind: &str) {
        self.lock().awaited.remove(kind);
    }

    /// The kinds that have never been listed, each with what is wrong with its watch; empty once everything was.
    pub fn awaited(&self) -> String {
        let kinds = self.unlisted();
        let described = kinds.into_iter().map(|kind| match self.troubles.of(kind) {
            Some(trouble) => format!("{kind} ({trouble})"),
            None => kind.to_owned(),
        });
        described.collect::<Vec<_>>().join(", ")
    }

    /// Returns the faults of the watches.
    pub fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    /// Reads or changes the cluster index: marks, nominations, promises, usage. `work` must not block.
    pub(crate) fn with_cluster<T>(&self, work: impl FnOnce(&mut Index) -> T) -> T {
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
        self.inner.lock()
    }
}
