//! Placement: every pod that waits gets a place on an existing node, a coming one or a new one, in this
//! order (spec scheduling 12), or a reason why not.

mod claim;
pub(crate) mod class;
mod constraint;
mod default_spread;
mod devices;
mod existing;
mod in_flight;
mod learnt;
mod level;
mod open_nodes;
mod pool;
mod queue;
mod refusal;
mod relax;
mod reservations;
mod scope;
mod solve;
mod topology;
pub(crate) mod what_if;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{
    BinId, DeviceGrant, Launch, NodeId, Nomination, PodKey, PodOutcome, PoolName, PoolOutcome, Snapshot,
};

/// The outcome of placement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placement {
    /// Claims to create.
    pub(crate) launches: Vec<Launch>,
    /// Launches that later pods could hardly make cheaper, where the caller requested that.
    pub(crate) certain: BTreeSet<BinId>,
    /// Pods that existing or coming nodes take.
    pub(crate) nominations: Vec<Nomination>,
    /// The outcome of each pod.
    pub(crate) pods: BTreeMap<PodKey, PodOutcome>,
    /// The outcome of each pool.
    pub(crate) pools: BTreeMap<PoolName, PoolOutcome>,
    /// Devices that claims will get.
    pub(crate) grants: Vec<DeviceGrant>,
    /// Nodes that take pods.
    pub(crate) used_nodes: Vec<NodeId>,
}

/// Places the pods of `snapshot`.
pub(crate) fn place(snapshot: &Snapshot) -> Placement {
    solve::Solver::run(snapshot)
}

/// Places the pods of `snapshot`, and determines which launches are certain.
pub(crate) fn place_ahead(snapshot: &Snapshot) -> Placement {
    solve::Solver::run_ahead(snapshot)
}

/// Binds the waiting pods of `snapshot` to nodes that are up, as the scheduler would.
pub(crate) fn bind(snapshot: &Snapshot) -> Vec<(PodKey, NodeId)> {
    solve::Solver::new(snapshot).bind_waiting()
}
