//! Listeners that are woken when the view changes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::{CapacityBuffer, NodeClaim, NodePool};
use karpenter_lifecycle::pods::events::Seen;
use karpenter_model::{BufferKey, ClaimName, NodeName, Pod, PoolName};
use kube::api::DynamicObject;
use parking_lot::Mutex;

use karpenter_kube_harness::queue::Queue;

use super::View;

/// Event of a watch about a pod, with the states before and after.
#[derive(Clone, Debug)]
pub enum PodSeen {
    /// The pod is there since before the watch began.
    Listed(Arc<Pod>),
    /// The pod appeared.
    Created(Arc<Pod>),
    /// The pod changed.
    Updated { old: Arc<Pod>, new: Arc<Pod> },
    /// The pod is gone.
    Deleted(Arc<Pod>),
}

impl PodSeen {
    /// The pod as last seen.
    pub fn pod(&self) -> &Arc<Pod> {
        match self {
            Self::Listed(pod) | Self::Created(pod) | Self::Deleted(pod) | Self::Updated { new: pod, .. } => {
                pod
            }
        }
    }
}

impl<'a> From<&'a PodSeen> for Seen<'a> {
    fn from(seen: &'a PodSeen) -> Self {
        match seen {
            PodSeen::Listed(pod) => Self::Listed(pod),
            PodSeen::Created(pod) => Self::Created(pod),
            PodSeen::Updated { old, new } => Self::Updated { old, new },
            PodSeen::Deleted(pod) => Self::Deleted(pod),
        }
    }
}

/// Listener for events about pods.
type PodListener = Box<dyn Fn(&PodSeen) + Send + Sync>;

/// An object with status conditions, as last seen.
#[derive(Clone, Debug)]
pub enum Conditioned {
    Claim(Arc<NodeClaim>),
    Pool(Arc<NodePool>),
    Node(Arc<Node>),
    /// A node class of the provider.
    Class(Arc<DynamicObject>),
    Buffer(Arc<CapacityBuffer>),
}

/// Event about an object with status conditions, for listeners that publish it.
#[derive(Clone, Debug)]
pub enum StatusSeen {
    /// The object changed; both are of the same kind.
    Changed { old: Conditioned, new: Conditioned },
    /// The object is gone.
    Gone(Conditioned),
}

/// Listener for changes of status conditions.
type StatusListener = Box<dyn Fn(&StatusSeen) + Send + Sync>;

/// Listener for changes of what users ask for.
type SpecListener = Box<dyn Fn() + Send + Sync>;

/// The queues and listeners that follow changes.
#[derive(Default)]
pub struct Subscribers {
    claims: Mutex<Vec<Queue<ClaimName>>>,
    nodes: Mutex<Vec<Queue<NodeName>>>,
    pools: Mutex<Vec<Queue<PoolName>>>,
    buffers: Mutex<Vec<Queue<BufferKey>>>,
    pods: Mutex<Vec<PodListener>>,
    statuses: Mutex<Vec<StatusListener>>,
    specs: Mutex<Vec<SpecListener>>,
}

/// Makes a view forget its subscribers when it is dropped: most of them hold the view that holds them.
pub struct Following(Arc<View>);

impl Following {
    /// Holds the subscribers of `view`: keep it as long as the process uses `view`.
    pub fn of(view: &Arc<View>) -> Self {
        Self(Arc::clone(view))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.subscribers().forget_all();
    }
}

impl Subscribers {
    fn forget_all(&self) {
        let Self { claims, nodes, pools, buffers, pods, statuses, specs } = self;
        drop((take(claims), take(nodes), take(pools), take(buffers)));
        drop((take(pods), take(statuses), take(specs)));
    }

    /// Asks for a pass over every claim that changes, or whose Node or pool does.
    pub fn claims(&self, queue: Queue<ClaimName>) {
        self.claims.lock().push(queue);
    }

    /// Asks for a pass over every Node that changes or whose claim does, and, once it is deleted, whose pods do.
    pub fn nodes(&self, queue: Queue<NodeName>) {
        self.nodes.lock().push(queue);
    }

    /// Asks for a pass over every pool that changes, or whose claims come and go.
    pub fn pools(&self, queue: Queue<PoolName>) {
        self.pools.lock().push(queue);
    }

    /// Asks for a pass over every capacity buffer that changes or goes, or whose pod template does.
    pub fn buffers(&self, queue: Queue<BufferKey>) {
        self.buffers.lock().push(queue);
    }

    /// Calls `listener`, which must not block, about every pod.
    pub fn pods(&self, listener: impl Fn(&PodSeen) + Send + Sync + 'static) {
        self.pods.lock().push(Box::new(listener));
    }

    /// Calls `listener`, which must not block, about every object with status conditions that changes or is deleted.
    pub fn statuses(&self, listener: impl Fn(&StatusSeen) + Send + Sync + 'static) {
        self.statuses.lock().push(Box::new(listener));
    }

    pub(super) fn notify_status(&self, seen: &StatusSeen) {
        for listener in self.statuses.lock().iter() {
            listener(seen);
        }
    }

    /// Calls `listener`, which must not block, when a pool or an overlay appears, goes or asks for something else, and
    /// when a node class changes.
    pub(crate) fn specs(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.specs.lock().push(Box::new(listener));
    }

    pub(crate) fn notify_specs(&self) {
        for listener in self.specs.lock().iter() {
            listener();
        }
    }

    pub(super) fn wake_claim(&self, name: &ClaimName) {
        for queue in self.claims.lock().iter() {
            queue.add(name.clone());
        }
    }

    pub(super) fn wake_node(&self, name: &NodeName) {
        for queue in self.nodes.lock().iter() {
            queue.add(name.clone());
        }
    }

    pub(super) fn wake_pool(&self, name: &PoolName) {
        for queue in self.pools.lock().iter() {
            queue.add(name.clone());
        }
    }

    pub(crate) fn wake_buffer(&self, key: &BufferKey) {
        for queue in self.buffers.lock().iter() {
            queue.add(key.clone());
        }
    }

    pub(super) fn notify_pod(&self, seen: &PodSeen) {
        for listener in self.pods.lock().iter() {
            listener(seen);
        }
    }
}

/// Taken out before they are dropped, which may end more than one view holds.
fn take<T>(followers: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *followers.lock())
}
