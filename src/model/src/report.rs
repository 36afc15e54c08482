//! Why each thing was done or not: one entry per pod, pool and node a pass looked at.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::id::{BinId, ClaimName, NodeId, NodeName, PodKey, PoolName};
use crate::plan::RemovalReason;

/// The reasons behind a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// What became of each pod that needed a place.
    pub pods: BTreeMap<PodKey, PodOutcome>,
    /// What became of each pool.
    pub pools: BTreeMap<PoolName, PoolOutcome>,
    /// What became of each managed node.
    pub nodes: BTreeMap<NodeId, NodeOutcome>,
}

/// What became of a pod.
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
    /// Whether the pod has a place.
    pub fn is_placed(&self) -> bool {
        matches!(self, Self::Existing(_) | Self::InFlight(_) | Self::New(_))
    }
}

/// Why one pool cannot host a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolRefusal {
    /// The pool; `None` when the refusal has nothing to do with pools.
    pub pool: Option<PoolName>,
    /// Why.
    pub reason: Reason,
}

/// What became of a pool.
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

/// What became of a node as far as its removal is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum NodeOutcome {
    /// The plan removes it.
    Removed(RemovalReason),
    /// It stays.
    Kept(Reason),
}

/// A reason with its operands. [`Reason::code`] is stable and goes into metrics, events and documentation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reason {
    /// What kind of reason.
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
    /// The pod does not tolerate a taint.
    Taint: "pod does not tolerate a taint";
    /// Requirements contradict each other.
    Requirements: "requirements are incompatible";
    /// No instance type fits.
    InstanceTypes: "no instance type satisfies requirements, resources and offerings at once";
    /// Too few distinct values are left.
    MinValues: "minValues requirement is not met";
    /// The pool has used up its limits.
    Limits: "limits of the pool are exceeded";
    /// A host port is taken.
    HostPort: "host port is in use";
    /// A topology spread constraint, affinity or anti-affinity rule.
    Topology: "topology rule is not met";
    /// Volumes of the pod cannot be attached where the pool launches.
    VolumeTopology: "volumes of the pod cannot be attached here";
    /// Compatible reservations exist but are used up in this pass.
    Reservation: "compatible reservations are in use";

    /// The machine is not managed.
    Unmanaged: "node is not managed";
    /// The Node has not joined or is not initialized.
    NotInitialized: "node is not initialized";
    /// The machine is on its way out already.
    Leaving: "node is being deleted";
    /// A pod was promised a place here.
    Nominated: "node is nominated for a pending pod";
    /// The node says not to disrupt it.
    NodeDoNotDisrupt: "node has the do-not-disrupt annotation";
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
    /// The budget of the pool is used up.
    Budget: "disruption budget of the pool is used up";
    /// The budget of the pool cannot be evaluated.
    BudgetInvalid: "disruption budget of the pool cannot be evaluated";
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
