//! Result of a pass, and the words of its metrics.

use std::collections::BTreeMap;

use karpenter_model::report::ReasonCode;
use karpenter_model::{
    Command, ConsolidationPolicy, DisruptionReason, Method, NodeId, NodeOutcome, PoolName,
};

use crate::disrupt::budget::BudgetState;
use crate::disrupt::note::Note;
use crate::disrupt::score::Score;

/// The result of [`decide`](crate::disrupt::decide).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Commands to start at their `not_before`, after [`confirm`](crate::disrupt::confirm) if that lies ahead; in the
    /// order of their methods.
    pub commands: Vec<Command>,
    /// Method that removes each node, or the first reason why it stays.
    pub nodes: BTreeMap<NodeId, NodeOutcome>,
    /// Events to publish, in the order they came up.
    pub notes: Vec<Note>,
    /// Consolidation moves that were weighed, for metrics.
    pub moves: Vec<Move>,
    /// Statistics of each method that ran, for metrics.
    pub methods: BTreeMap<Method, MethodStats>,
    /// Nodes each brake held back, for metrics.
    pub held: BTreeMap<Brake, u32>,
    /// Budgets per pool and reason, for metrics and reports.
    pub budgets: BTreeMap<(PoolName, DisruptionReason), BudgetState>,
}

impl Decision {
    /// Returns whether it proposes nothing and took no simulation to find out: the next pass over the same cluster
    /// would decide the same.
    pub(crate) fn is_idle(&self) -> bool {
        let quiet = |stats: &MethodStats| stats.simulations == 0 && !stats.unfinished;
        self.commands.is_empty() && self.methods.values().all(quiet)
    }
}

/// Statistics of one method in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MethodStats {
    /// Nodes it could have chosen.
    pub eligible: u32,
    /// Simulations it ran.
    pub simulations: u32,
    /// The simulations of the pass were used up before it had looked at everything; the next pass goes on.
    pub unfinished: bool,
    /// Set when the method has not finished within its time limit, counted once for each such span.
    pub timed_out: bool,
}

/// A consolidation move that was weighed, once per pool it touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub pool: PoolName,
    pub policy: ConsolidationPolicy,
    /// Result of weighing the move.
    pub decision: MoveDecision,
    /// Its score; pools that are not `Balanced` have none.
    pub score: Option<Score>,
}

/// Result of weighing a move; a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveDecision {
    /// The move is worth it.
    Approved,
    /// The move is not worth it.
    Rejected,
}

impl MoveDecision {
    /// The spelling in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Rejected => "rejected",
        }
    }
}

/// The brakes; a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Brake {
    /// Too many nodes drifted at once.
    MassDrift,
    /// Replacements of the pool do not come up.
    HealthGate,
    /// Nothing could be launched in place of the node.
    NoCapacity,
    /// Back to what it just was.
    AntiFlap,
    /// Too many commands within a minute.
    CommandRate,
}

impl Brake {
    /// All brakes.
    pub const ALL: [Self; 5] =
        [Self::MassDrift, Self::HealthGate, Self::NoCapacity, Self::AntiFlap, Self::CommandRate];

    /// The spelling in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MassDrift => "mass_drift",
            Self::HealthGate => "health_gate",
            Self::NoCapacity => "no_capacity",
            Self::AntiFlap => "anti_flap",
            Self::CommandRate => "command_rate",
        }
    }

    /// Returns the brake as a reason in reports.
    pub(crate) const fn code(self) -> ReasonCode {
        match self {
            Self::MassDrift => ReasonCode::MassDrift,
            Self::HealthGate => ReasonCode::HealthGate,
            Self::NoCapacity => ReasonCode::NoCapacity,
            Self::AntiFlap => ReasonCode::AntiFlap,
            Self::CommandRate => ReasonCode::CommandRate,
        }
    }
}
