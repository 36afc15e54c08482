//! Status conditions of a `NodeClaim`, as far as decisions read them (spec scheduling 4).

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::condition;

/// The condition types a claim may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// Root: launched, registered and initialized.
    Ready,
    /// The cloud has created the instance.
    Launched,
    /// The Node has joined.
    Registered,
    /// The Node is ready for pods.
    Initialized,
    /// The consolidation window has passed.
    Consolidatable,
    /// The claim no longer matches its pool, class or instance type.
    Drifted,
    /// Every evictable pod has left.
    Drained,
    /// Every volume attachment is gone.
    VolumesDetached,
    /// The cloud has been asked to terminate the instance.
    InstanceTerminating,
    /// The node matches its claim.
    ConsistentStateFound,
    /// The Node had registered and is gone.
    NodeMissing,
    /// Its instance is being rebooted.
    Rebooting,
    /// Chosen for disruption.
    DisruptionReason,
}

impl ConditionType {
    /// All types.
    pub const ALL: [Self; 13] = [
        Self::Ready,
        Self::Launched,
        Self::Registered,
        Self::Initialized,
        Self::Consolidatable,
        Self::Drifted,
        Self::Drained,
        Self::VolumesDetached,
        Self::InstanceTerminating,
        Self::ConsistentStateFound,
        Self::NodeMissing,
        Self::Rebooting,
        Self::DisruptionReason,
    ];

    /// The type as it is spelled in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => condition::READY,
            Self::Launched => condition::LAUNCHED,
            Self::Registered => condition::REGISTERED,
            Self::Initialized => condition::INITIALIZED,
            Self::Consolidatable => condition::CONSOLIDATABLE,
            Self::Drifted => condition::DRIFTED,
            Self::Drained => condition::DRAINED,
            Self::VolumesDetached => condition::VOLUMES_DETACHED,
            Self::InstanceTerminating => condition::INSTANCE_TERMINATING,
            Self::ConsistentStateFound => condition::CONSISTENT_STATE_FOUND,
            Self::NodeMissing => condition::NODE_MISSING,
            Self::Rebooting => condition::REBOOTING,
            Self::DisruptionReason => condition::DISRUPTION_REASON,
        }
    }

    /// The type spelled `text`, if we know it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| condition.as_str() == text)
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Not known yet.
    Unknown,
}

impl ConditionStatus {
    /// Reads the word on the wire; any other is [`Self::Unknown`].
    pub fn parse(word: &str) -> Self {
        match word {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// One status condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// True, false or unknown.
    pub status: ConditionStatus,
    /// `CamelCase` reason, stable.
    pub reason: String,
    /// Text for people.
    pub message: String,
    /// Time at which `status` last changed.
    pub last_transition: Timestamp,
    /// Generation of the object the condition was computed for.
    pub observed_generation: i64,
}

impl Condition {
    /// A condition with this status since an instant, for this reason.
    pub fn since(last_transition: Timestamp, status: ConditionStatus, reason: &str) -> Self {
        Self {
            status,
            reason: reason.to_owned(),
            message: String::new(),
            last_transition,
            observed_generation: 1,
        }
    }
}
