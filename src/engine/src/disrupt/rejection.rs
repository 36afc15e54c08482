//! Reason why a command may not start after its second look.

use std::fmt;

use karpenter_model::NodeId;

/// Refusal to start a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Kind of the reason.
    pub kind: RejectionKind,
    /// Nodes that are the reason.
    pub nodes: Vec<NodeId>,
    /// Text for people.
    pub detail: String,
}

/// Kinds of rejections; part of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RejectionKind {
    /// Nodes no longer qualify.
    Churn,
    /// Nodes are nominated, or budgets are used up.
    Budget,
    /// Pods would not find the places they were promised.
    Scheduling,
    /// The command would no longer be cheaper.
    Price,
    /// The command would no longer be worth it.
    Score,
}

impl RejectionKind {
    /// Returns the word in events. The reference has `budget`, `scheduling` and `churn`; it does not check prices again.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
            Self::Price => "price",
            Self::Score => "score",
        }
    }
}

impl fmt::Display for RejectionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
