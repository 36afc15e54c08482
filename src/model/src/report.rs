//! Reasons why each thing was done or not: one entry per pod, pool and node a pass looked at.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::id::{BinId, ClaimName, NodeId, NodeName, PodKey, PoolName};
use crate::plan::command::Method;

/// The reasons behind a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// The outcome of each pod that needed a place.
    pub pods: BTreeMap<PodKey, PodOutcome>,
    /// The outcome of each pool.
    pub pools: BTreeMap<PoolName, PoolOutcome>,
    /// The outcome of each managed node.
    pub nodes: BTreeMap<NodeId, NodeOutcome>,
}

/// The outcome of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum PodOutcome {
    /// It fits on a Node that exists.
    Existing(NodeName),
    /// It fits on a machine that is coming up.
    InFlight(ClaimName),
    /// It fits on a node the plan launches.
    New(BinId),
    /// It is not ours to place; every cause is listed.
    Ignored(Vec<Reason>),
    /// Nothing can take it; one entry per pool in the order they were tried, or one without pool.
    Unschedulable(Vec<PoolRefusal>),
}

impl PodOutcome {
    /// Returns whether the pod has a place.
    pub fn is_placed(&self) -> bool {
        matches!(self, Self::Existing(_) | Self::InFlight(_) | Self::New(_))
    }
}

/// Reason why one pool cannot host a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolRefusal {
    /// The pool; `None` when the refusal has nothing to do with pools.
    pub pool: Option<PoolName>,
    /// Reason for the refusal.
    pub reason: Reason,
}

/// The outcome of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum PoolOutcome {
    /// It took part; that many claims are launched for it.
    Used {
        /// Claims the plan launches.
        launches: u32,
    },
    /// It did not take part.
    Skipped(Reason),
}

/// The outcome of a node as far as its removal is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum NodeOutcome {
    /// A command of this method removes it.
    Removed(Method),
    /// A command of repair reboots its instance.
    Rebooted,
    /// It stays.
    Kept(Reason),
}

/// A reason with its operands. [`Reason::code`] is stable and goes into metrics, events and documentation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reason {
    /// Code from the closed list.
    pub code: ReasonCode,
    /// Operands, as a text for people.
    pub detail: String,
}

macro_rules! reason_codes {
    ($($(#[$doc:meta])* $name:ident: $summary:literal;)*) => {
        /// The closed list of reasons.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum ReasonCode {
            $($(#[$doc])* #[doc = concat!("Shown as `", $summary, "`.")] $name,)*
        }

        impl ReasonCode {
            /// All codes, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The stable spelling.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// One line for people.
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$name => $summary,)* }
            }
        }
    };
}

reason_codes! {
    /// The pod asks for no pool on purpose.
    OptedOut: "pod opts out of node provisioning";
    /// A node selector or required term cannot be used.
    InvalidRequirement: "pod has a requirement that cannot be used";
    /// A required term uses `matchFields`.
    MatchFields: "pod uses matchFields, which cannot be planned for";
    /// A persistent volume claim cannot be used.
    InvalidVolume: "pod has a persistent volume claim that cannot be used";
    /// The pod uses resource claims and those are switched off.
    ResourceClaims: "pod uses resource claims, which are not supported";
    /// A resource claim of the pod is missing or asks for something that cannot be planned for.
    InvalidClaim: "pod has a resource claim that cannot be served";

    /// No pool takes part.
    NoPools: "no pool is ready";
    /// The pool is not ready.
    PoolNotReady: "pool is not ready";
    /// The pool is being deleted.
    PoolDeleting: "pool is being deleted";
    /// The pool has a fixed number of nodes.
    PoolStatic: "pool has a fixed number of nodes";
    /// The instance types of the pool are not known.
    NoInstanceTypes: "instance types of the pool are not known";
    /// No instance type satisfies the pool's own requirements.
    NoCompatibleInstanceTypes: "no instance type satisfies the requirements of the pool";
    // Refusals of pods by pools, from the furthest to the closest: a pool that gives one of these does not refuse the
    // pod for those before.
    /// Requirements contradict each other.
    Requirements: "requirements are incompatible";
    /// Volumes of the pod cannot be attached where the pool launches.
    VolumeTopology: "volumes of the pod cannot be attached here";
    /// The pod does not tolerate a taint.
    Taint: "pod does not tolerate a taint";
    /// A host port is taken.
    HostPort: "host port is in use";
    /// No instance type fits.
    InstanceTypes: "no instance type satisfies requirements, resources and offerings at once";
    /// The pool has used up its limits.
    Limits: "limits of the pool are exceeded";
    /// Too few distinct values are left.
    MinValues: "minValues requirement is not met";
    /// No instance type of the pool has the devices.
    Devices: "no instance type has the devices that resource claims ask for";
    /// A topology spread constraint, affinity or anti-affinity rule.
    Topology: "topology rule is not met";
    /// Compatible reservations exist but are used up in this pass.
    Reservation: "compatible reservations are in use";
    /// A node came up for pods of its workload and the scheduler did not use it.
    PromisedNodeNotUsed: "the scheduler does not use nodes that come up for this workload";
    /// Its place, or that of a pod it was placed with, did not pass the second opinion on the plan.
    PlaceRefused: "place broke a rule when the plan was checked";

    /// The machine is not managed.
    Unmanaged: "node is not managed";
    /// The Node has not joined or is not initialized.
    NotInitialized: "node is not initialized";
    /// The machine is already terminating.
    Leaving: "node is being deleted";
    /// Its instance is being rebooted.
    Rebooting: "node is being rebooted";
    /// A pod was promised a place here.
    Nominated: "node is nominated for a pending pod";
    /// The node says not to disrupt it.
    NodeDoNotDisrupt: "node has the do-not-disrupt annotation";
    /// The node or its claim says not to repair it.
    DoNotRepair: "node has the do-not-repair annotation";
    /// Pods on it cannot leave, and neither policy nor claim ends the drain.
    RepairUnbounded: "repair needs a termination grace period to pass over pods that block it";
    /// Too many machines of its pool are broken.
    RepairBreaker: "too many nodes of the pool are unhealthy for repairs";
    /// The cluster is shifted away from its zone.
    ZoneAway: "cluster is shifted away from the zone of the node";
    /// A pod says not to disrupt it.
    PodDoNotDisrupt: "a pod on the node has the do-not-disrupt annotation";
    /// A disruption budget of pods stands in the way.
    PodDisruptionBudget: "a pod disruption budget prevents evictions";
    /// The pool of the node is gone.
    PoolMissing: "pool of the node does not exist";
    /// The pool never consolidates.
    ConsolidationDisabled: "pool never consolidates";
    /// The node was busy too recently.
    ConsolidateAfter: "node has not been quiet long enough";
    /// The node has pods that would have to move.
    NotEmpty: "node has pods that would have to move";
    /// A capacity buffer counts on its room.
    BufferPods: "node holds the room of a capacity buffer";
    /// The budget of the pool is used up.
    Budget: "disruption budget of the pool is used up";
    /// The budget of the pool cannot be evaluated.
    BudgetInvalid: "disruption budget of the pool cannot be evaluated";
    /// It is part of a command that has started.
    Disrupting: "node is part of a disruption that has started";
    /// It is part of a command that waits for its second look.
    SecondLook: "node will be disrupted unless a second look finds a reason against it";
    /// A second look found a reason against it a while ago, or a command failed.
    Rejected: "an earlier attempt to disrupt the node was rejected or failed";
    /// Pods on it would be left without a place.
    CannotReschedule: "pods on the node would have no place to go";
    /// Its static pool has more machines than replicas.
    ScaleDownFirst: "pool has more nodes than replicas and scales down first";
    /// The node limit of its static pool leaves no room for the replacement.
    NoHeadroom: "node limit of the pool leaves no room for a replacement";
    /// Its instance type is not one the pool knows.
    InstanceTypeUnknown: "instance type of the node is not known";
    /// It does not say which capacity type it is.
    CapacityTypeUnknown: "node has no capacity type label";
    /// It does not say in which zone it is.
    ZoneUnknown: "node has no zone label";
    /// The pool removes empty machines only.
    OnlyWhenEmpty: "pool consolidates empty nodes only, and the node is not empty";
    /// Its pods would need more than one new machine.
    TooManyReplacements: "pods of the node would need more than one new node";
    /// Nothing cheaper would do.
    NotCheaper: "no cheaper node would do";
    /// Spot machines are not replaced by spot machines.
    SpotToSpotDisabled: "spot nodes are not replaced by cheaper spot nodes";
    /// Too few cheaper instance types to replace a spot machine safely.
    SpotToSpotFlexibility: "too few cheaper instance types to replace a spot node";
    /// The savings do not outweigh the disruption.
    Score: "savings do not outweigh the disruption";
    /// Nothing could be launched in its place.
    NoCapacity: "nothing can be launched in place of the node now";
    /// It took over from a machine like the one that would take over from it.
    AntiFlap: "node took over from another one too recently to go back";
    /// Too many machines drifted at once after a start.
    MassDrift: "too many nodes drifted at once, drift waits to be confirmed";
    /// Replacements of the pool do not come up.
    HealthGate: "replacements of the pool do not come up";
    /// Enough commands for one minute.
    CommandRate: "enough disruptions have been started in the last minute";
    /// The pass has simulated enough; the next one goes on from here.
    NextPass: "node has not been looked at yet, the next pass continues here";
}

impl Reason {
    /// A reason without operands.
    pub fn bare(code: ReasonCode) -> Self {
        Self { code, detail: String::new() }
    }

    /// A reason with operands.
    pub fn new(code: ReasonCode, detail: impl fmt::Display) -> Self {
        Self { code, detail: detail.to_string() }
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.summary())?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

#[cfg(test)]
mod reference;
