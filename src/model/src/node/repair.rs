//! Repair policies: conditions of a Node object that make it broken, and how long each is tolerated (spec disruption 4.2).

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::claim::condition::ConditionStatus;

/// Largest share of nodes, in percent and rounded up, that may look broken for repairs to go on.
pub const BREAKER_PERCENT: usize = 20;

/// Returns the largest number among this number of `nodes` that may look broken for repairs to go on.
pub const fn broken_max(nodes: usize) -> usize {
    (nodes * BREAKER_PERCENT).div_ceil(100)
}

/// Toleration of a condition that is never repaired.
pub const NEVER: Duration = Duration::MAX;

/// A repair policy as a provider or a person writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenPolicy {
    /// Type of the node condition.
    pub condition: String,
    /// Its bad status: `True`, `False` or `Unknown`.
    pub status: String,
    /// Regular expression over the reason of the condition, if it is not for all others.
    pub reason: Option<String>,
    /// Time for which the status is tolerated, or [`NEVER`].
    pub toleration: Duration,
    /// Longest time the drain may take; `None` leaves that to the claim.
    pub termination_grace: Option<Duration>,
    /// 0 to 100.
    pub priority: u8,
    /// Action of the policy.
    pub action: RepairAction,
}

/// One condition that justifies a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the node condition.
    pub condition: String,
    /// Its bad status.
    pub status: ConditionStatus,
    /// Reasons of the condition it is for; without a pattern it is for those that no other policy of the same condition and
    /// status is for.
    pub reason: Option<ReasonPattern>,
    /// Time for which the status is tolerated, from its transition, or [`NEVER`].
    pub toleration: Duration,
    /// Longest time the drain may take; `None` leaves that to the claim.
    pub termination_grace: Option<Duration>,
    /// 0 to 100; the higher one counts where several policies ask for the same.
    pub priority: u8,
    /// Action of the policy.
    pub action: RepairAction,
}

/// Action of a policy, the least disruptive first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RepairAction {
    /// Restart the instance.
    Reboot,
    /// Replace the node by another one.
    Replace,
}

impl RepairAction {
    /// The spelling in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reboot => "RebootNode",
            Self::Replace => "ReplaceNode",
        }
    }
}

/// A regular expression over the reason of a condition, found anywhere in it.
#[derive(Debug, Clone)]
pub struct ReasonPattern(regex::Regex);

impl ReasonPattern {
    /// Compiles `text`; the error names what is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        regex::Regex::new(text).map(Self).map_err(|error| error.to_string())
    }

    /// Returns whether `reason` has a part that matches.
    pub fn is_in(&self, reason: &str) -> bool {
        self.0.is_match(reason)
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl PartialEq for ReasonPattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for ReasonPattern {}

impl fmt::Display for ReasonPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The policy a repair follows, and what it saw: part of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// Type of the node condition.
    pub condition: String,
    /// Its bad status.
    #[serde(skip)]
    pub status: ConditionStatus,
    /// Its reason, as the Node object has it.
    pub reason: String,
    /// The pattern that was found in the reason; `None` for a policy without one.
    pub pattern: Option<String>,
    /// Action of the policy.
    pub action: RepairAction,
    /// Instant when the condition had been tolerated long enough.
    pub eligible_at: Timestamp,
    /// Longest time the drain may take: what the policies allow or the claim does, whichever is less. `None` has no bound.
    pub drain: Option<Duration>,
}
