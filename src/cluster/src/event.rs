//! What the index receives.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::{
    Claim, ClaimName, Daemon, DaemonSetName, Labels, Namespace, NodeName, NodeObject, Pod,
    PodDisruptionBudget, PodKey, Pool, PoolName, Volume, VolumeClaimName,
};

use crate::store::Version;

/// One change of one object. Claims and pools of foreign node classes are not told to the index.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A pod.
    Pod(Seen<PodKey, Pod>),
    /// A Node.
    Node(Seen<NodeName, NodeObject>),
    /// A claim.
    Claim(Seen<ClaimName, Claim>),
    /// A pool.
    Pool(Seen<PoolName, Pool>),
    /// A daemon set with its newest pod.
    Daemon(Seen<(Namespace, DaemonSetName), Daemon>),
    /// A pod disruption budget.
    Budget(Seen<(Namespace, String), PodDisruptionBudget>),
    /// A namespace.
    Namespace(Seen<Namespace, NamespaceObject>),
    /// A persistent volume claim, resolved.
    Volume(Seen<(Namespace, VolumeClaimName), VolumeObject>),
}

/// An object that is there, or is gone.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen<K, T> {
    /// It is there and looks like this.
    Present {
        /// Its key.
        key: K,
        /// Its resource version.
        version: Version,
        /// What it looks like.
        object: Box<T>,
    },
    /// It is gone.
    Gone {
        /// Its key.
        key: K,
        /// The resource version of its deletion.
        version: Version,
    },
}

/// The keys of a complete list of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// Pods.
    Pods(BTreeSet<PodKey>),
    /// Nodes.
    Nodes(BTreeSet<NodeName>),
    /// Claims.
    Claims(BTreeSet<ClaimName>),
    /// Pools.
    Pools(BTreeSet<PoolName>),
    /// Daemon sets.
    Daemons(BTreeSet<(Namespace, DaemonSetName)>),
    /// Pod disruption budgets.
    Budgets(BTreeSet<(Namespace, String)>),
    /// Namespaces.
    Namespaces(BTreeSet<Namespace>),
    /// Persistent volume claims.
    Volumes(BTreeSet<(Namespace, VolumeClaimName)>),
}

/// A namespace, for affinity terms that select namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceObject {
    /// Its name.
    pub name: Namespace,
    /// Its labels.
    pub labels: Labels,
}

/// A persistent volume claim with what is known about its volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeObject {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: VolumeClaimName,
    /// What it resolves to.
    pub volume: Arc<Volume>,
}

impl Event {
    /// A pod that is there.
    pub fn pod(version: Version, pod: Pod) -> Self {
        Self::Pod(Seen::Present { key: pod.key.clone(), version, object: Box::new(pod) })
    }

    /// A Node that is there.
    pub fn node(version: Version, node: NodeObject) -> Self {
        Self::Node(Seen::Present { key: node.name.clone(), version, object: Box::new(node) })
    }

    /// A claim that is there.
    pub fn claim(version: Version, claim: Claim) -> Self {
        Self::Claim(Seen::Present { key: claim.name.clone(), version, object: Box::new(claim) })
    }

    /// A pool that is there.
    pub fn pool(version: Version, pool: Pool) -> Self {
        Self::Pool(Seen::Present { key: pool.name.clone(), version, object: Box::new(pool) })
    }

    /// A daemon set that is there.
    pub fn daemon(version: Version, daemon: Daemon) -> Self {
        let key = (daemon.namespace.clone(), daemon.name.clone());
        Self::Daemon(Seen::Present { key, version, object: Box::new(daemon) })
    }

    /// A pod disruption budget that is there.
    pub fn budget(version: Version, budget: PodDisruptionBudget) -> Self {
        let key = (budget.namespace.clone(), budget.name.clone());
        Self::Budget(Seen::Present { key, version, object: Box::new(budget) })
    }

    /// A namespace that is there.
    pub fn namespace(version: Version, namespace: NamespaceObject) -> Self {
        Self::Namespace(Seen::Present { key: namespace.name.clone(), version, object: Box::new(namespace) })
    }

    /// A persistent volume claim that is there.
    pub fn volume(version: Version, volume: VolumeObject) -> Self {
        let key = (volume.namespace.clone(), volume.name.clone());
        Self::Volume(Seen::Present { key, version, object: Box::new(volume) })
    }
}
