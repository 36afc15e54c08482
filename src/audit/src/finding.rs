//! Faults of a plan.

use std::collections::BTreeSet;
use std::fmt;

use karpenter_model::{BinId, NodeId, PodKey, PoolName, ReservationId, ResourceClaimKey, Target};

/// The rules a plan must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The plan was made from another snapshot.
    Stale,
    /// A pod has two places.
    PlacedTwice,
    /// A pod needs no place, or does not exist.
    NotWaiting,
    /// A machine or pool is not there, or cannot be used.
    Unusable,
    /// A claim does not match the template of its pool.
    Template,
    /// The list of instance types is empty, too long, unknown, or has repetitions.
    InstanceTypes,
    /// An instance type has no available offering the claim accepts.
    Offering,
    /// Instance types are not in price order, or the cheapest offering is not.
    PriceOrder,
    /// `minValues` do not hold.
    MinValues,
    /// Requirements of a pod do not hold.
    Requirements,
    /// A pod does not tolerate a hard taint.
    Taint,
    /// Pods and daemons do not fit.
    Capacity,
    /// Two pods request the same host port.
    HostPort,
    /// Required anti-affinity of a running pod forbids the place.
    AntiAffinity,
    /// A pod's required affinity or anti-affinity does not hold.
    PodAffinity,
    /// A hard topology spread constraint does not hold.
    Spread,
    /// A volume of a pod cannot be attached at the pod's place.
    Volume,
    /// A reservation is promised more often than it has instances.
    Reservation,
    /// A claim of a placed pod gets no devices, or a device is given twice.
    Devices,
    /// A placed pod needs something plans do not provide yet.
    Unmodelled,
    /// A pool overruns its limits.
    Limits,
    /// A machine may not be removed.
    Removal,
    /// More machines of a pool are removed than its budget allows.
    Budget,
    /// A command is not one its method may propose.
    Command,
    /// A pod of a removed machine has no place in the command.
    Displaced,
    /// A command may end up costing more than it saves, or states a wrong price.
    Price,
    /// Spot machines are replaced as they must not be.
    Spot,
    /// A command is not worth what it disturbs.
    Score,
}

/// Part of a plan that breaks a rule: what would have to be left out for the rest of the plan to keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The plan as a whole.
    Plan,
    /// The place of one pod.
    Pod(PodKey),
    /// One launch.
    Bin(BinId),
    /// All launches for one pool.
    Pool(PoolName),
    /// All pods sent to one machine.
    Target(Target),
    /// Every launch into one reservation.
    Reservation(ReservationId),
    /// Every pod that uses one of these claims, which have a device or a counter in common.
    Claims {
        /// Property that they have in common.
        of: String,
        claims: BTreeSet<ResourceClaimKey>,
    },
    /// A command or a part of one.
    Command(String),
}

impl From<&PodKey> for Subject {
    fn from(pod: &PodKey) -> Self {
        Self::Pod(pod.clone())
    }
}

impl From<BinId> for Subject {
    fn from(bin: BinId) -> Self {
        Self::Bin(bin)
    }
}

impl From<&PoolName> for Subject {
    fn from(pool: &PoolName) -> Self {
        Self::Pool(pool.clone())
    }
}

impl From<&Target> for Subject {
    fn from(target: &Target) -> Self {
        Self::Target(target.clone())
    }
}

impl From<&ResourceClaimKey> for Subject {
    fn from(claim: &ResourceClaimKey) -> Self {
        Self::Claims { of: claim.to_string(), claims: [claim.clone()].into() }
    }
}

impl From<&NodeId> for Subject {
    fn from(node: &NodeId) -> Self {
        Self::Command(node.to_string())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan => f.write_str("plan"),
            Self::Pod(pod) => pod.fmt(f),
            Self::Bin(bin) => bin.fmt(f),
            Self::Pool(pool) => pool.fmt(f),
            Self::Target(Target::Node(node)) => node.fmt(f),
            Self::Target(Target::Claim(claim)) => claim.fmt(f),
            Self::Reservation(id) => id.fmt(f),
            Self::Claims { of: text, .. } | Self::Command(text) => f.write_str(text),
        }
    }
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Rule that is broken.
    pub rule: Rule,
    /// Part of the plan that breaks it.
    pub subject: Subject,
    /// Text that describes how the rule is broken.
    pub detail: String,
}

impl Finding {
    pub(crate) fn new(rule: Rule, subject: impl Into<Subject>, detail: impl fmt::Display) -> Self {
        Self { rule, subject: subject.into(), detail: detail.to_string() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: `{}`: {}", self.rule, self.subject, self.detail)
    }
}
