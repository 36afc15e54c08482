//! The output of a pass: what to do, with nothing left to choose.

use std::time::Duration;

use serde::Serialize;

use crate::command::Command;
use crate::id::{
    BinId, CapacityType, ClaimName, InstanceTypeName, NodeClassRef, NodeId, NodeName, PodKey, PoolName, Zone,
};
use crate::label::{Annotations, Labels};
use crate::money::Price;
use crate::requirement_set::Requirements;
use crate::resources::Resources;
use crate::taint::Taint;

/// Most instance types a claim may offer (spec core-scheduling 14).
pub const MAX_INSTANCE_TYPES: usize = 600;

/// Actions that bring the snapshot closer to what its pods need.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Plan {
    /// Revision of the snapshot it was made from; a plan for another revision is stale.
    pub revision: u64,
    /// Claims to create.
    pub launches: Vec<Launch>,
    /// Pods that existing or coming capacity will take.
    pub nominations: Vec<Nomination>,
    /// Machines to remove, and what takes their place. Launches of a command are its own, not among `launches`.
    pub commands: Vec<Command>,
}

/// One claim to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Launch {
    /// Number inside the plan.
    pub bin: BinId,
    /// Pool it belongs to; the object is named `<pool>-` plus a suffix.
    pub pool: PoolName,
    /// Hash of the pool template the plan was made with.
    pub pool_hash: String,
    /// Labels of the claim.
    pub labels: Labels,
    /// Annotations of the claim.
    pub annotations: Annotations,
    /// Requirements of the claim, instance types and capacity types included.
    pub requirements: Requirements,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Startup taints.
    pub startup_taints: Vec<Taint>,
    /// Node class.
    pub node_class: NodeClassRef,
    /// Age at which it expires; `None` is `Never`.
    pub expire_after: Option<Duration>,
    /// How long its drain may take at most.
    pub termination_grace_period: Option<Duration>,
    /// Requests of its pods plus the least daemon overhead.
    pub requests: Resources,
    /// Candidates in price order, 1 to [`MAX_INSTANCE_TYPES`].
    pub instance_types: Vec<InstanceTypeName>,
    /// The cheapest way to launch it as far as known.
    pub cheapest: Option<OfferingRef>,
    /// Pods it is for.
    pub pods: Vec<PodKey>,
}

/// One offering of one instance type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfferingRef {
    /// Instance type.
    pub instance_type: InstanceTypeName,
    /// Zone.
    pub zone: Zone,
    /// Capacity type.
    pub capacity_type: CapacityType,
    /// Price per hour.
    pub price: Price,
}

/// A pod that will fit where capacity is or is coming.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Nomination {
    /// The pod.
    pub pod: PodKey,
    /// Where it will fit.
    pub target: Target,
}

/// A machine by the name that exists for it already.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Target {
    /// A Node.
    Node(NodeName),
    /// A claim whose Node has not joined yet.
    Claim(ClaimName),
}

/// The names of a machine to remove.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RemovalTarget {
    /// Key in the cluster index.
    pub id: NodeId,
    /// Claim to delete.
    pub claim: ClaimName,
    /// Node to taint first.
    pub node: NodeName,
}
