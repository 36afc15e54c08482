//! A disruption command: machines that go together, and what takes their place (spec disruption 3.15).
//!
//! Invariants: at least one candidate; no machine twice; every pod of the candidates that needs a new home has
//! one in `replacements` or `nominations`, unless the candidates go before what takes their place, or the one candidate is
//! rebooted and takes them again.

use jiff::Timestamp;
use serde::Serialize;

use crate::id::{CapacityType, InstanceTypeName, NodeId, OwnerUid, PodKey, PoolName, Zone};
use crate::money::Price;
use crate::node::repair::{Repair, RepairAction};
use crate::plan::{Launch, Nomination, RemovalTarget};
use crate::pool::DisruptionReason;

/// Machines to remove together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    /// Method that proposed it.
    pub method: Method,
    pub reason: DisruptionReason,
    /// Machines to remove, in the order they were chosen.
    pub candidates: Vec<Candidate>,
    /// Claims that must be initialized before the candidates go.
    pub replacements: Vec<Launch>,
    /// Set when the candidates are removed before anything takes their place, because nothing can be staged: a reservation is
    /// full, or a static pool is at its limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminate_first: bool,
    /// Pods of the candidates that existing machines take.
    pub nominations: Vec<Nomination>,
    /// Price of the candidates less the cheapest price of the replacements, per hour.
    pub savings: Price,
    /// Earliest instant at which it may start, after it has been confirmed by another look (spec disruption 3.14); the
    /// instant of the plan for methods without a second look.
    pub not_before: Timestamp,
    /// Reason why the machine is broken; of repairs alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

/// A machine to remove, with what events, logs and metrics say about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Its names.
    pub target: RemovalTarget,
    pub pool: PoolName,
    /// Its instance type, if labelled.
    pub instance_type: Option<InstanceTypeName>,
    /// Its zone, if labelled.
    pub zone: Option<Zone>,
    /// Its capacity type, if labelled.
    pub capacity_type: Option<CapacityType>,
    /// Its price per hour; zero when unknown.
    pub price: Price,
    /// Pods on it that need a new home.
    pub pods: Vec<PodKey>,
    /// Owners that create those pods again once they are gone, each once.
    #[serde(skip)]
    pub workloads: Vec<OwnerUid>,
}

/// The method behind a command, in the order in which they run (spec disruption 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Method {
    /// Broken machines.
    Repair,
    /// Machines nothing would have to leave.
    Emptiness,
    /// Drifted machines of pools with a fixed number of nodes.
    StaticDrift,
    /// Drifted machines.
    Drift,
    /// Several machines, replaced by at most one.
    MultiNode,
    /// Several machines, replaced by several; opt-in. Before one by one, which would take the group apart.
    ManyToMany,
    /// One machine, replaced by at most one.
    SingleNode,
}

/// Replacement in a command: none, before or after the removal, or a reboot in its place; a metric label and part of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum CommandDecision {
    /// Nothing is launched.
    Delete,
    /// Replacements are launched.
    Replace,
    /// The machines go first, and what takes their place is launched afterwards.
    TerminateFirst,
    /// The machine stays, and its instance is rebooted.
    Reboot,
}

impl Method {
    /// All methods, in the order in which they run.
    pub const ALL: [Self; 7] = [
        Self::Repair,
        Self::Emptiness,
        Self::StaticDrift,
        Self::Drift,
        Self::MultiNode,
        Self::ManyToMany,
        Self::SingleNode,
    ];

    /// The value of the `consolidation_type` label of metrics; empty for drift and repair.
    pub const fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
            Self::Repair | Self::StaticDrift | Self::Drift => "",
            Self::MultiNode => "multi",
            Self::SingleNode => "single",
            Self::ManyToMany => "many",
        }
    }

    /// The reason of its commands, which is also whose budgets they use.
    pub const fn reason(self) -> DisruptionReason {
        match self {
            Self::Repair => DisruptionReason::Unhealthy,
            Self::Emptiness => DisruptionReason::Empty,
            Self::StaticDrift | Self::Drift => DisruptionReason::Drifted,
            Self::MultiNode | Self::SingleNode | Self::ManyToMany => DisruptionReason::Underutilized,
        }
    }
}

impl CommandDecision {
    /// The spelling in metrics and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Replace => "replace",
            Self::TerminateFirst => "terminate-first",
            Self::Reboot => "reboot",
        }
    }
}

impl Command {
    /// Returns whether it reboots its machine, which stays.
    pub fn is_reboot(&self) -> bool {
        self.repair.as_ref().is_some_and(|repair| repair.action == RepairAction::Reboot)
    }

    /// Returns whether it replaces anything.
    pub fn decision(&self) -> CommandDecision {
        if self.is_reboot() {
            return CommandDecision::Reboot;
        }
        match (self.terminate_first, self.replacements.is_empty()) {
            (true, _) => CommandDecision::TerminateFirst,
            (false, true) => CommandDecision::Delete,
            (false, false) => CommandDecision::Replace,
        }
    }

    /// Keys of the machines it removes.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.candidates.iter().map(|candidate| &candidate.target.id)
    }
}
