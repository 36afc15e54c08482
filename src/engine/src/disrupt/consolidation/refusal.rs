//! Refusal to consolidate a node: the reason for reports, and the text of its event.

use karpenter_model::Reason;
use karpenter_model::report::ReasonCode;

/// Refusal to act on a node, or on several at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Reason for reports, with operands.
    pub(crate) reason: Reason,
    /// Text of the event `Unconsolidatable`; `None` for nodes that consolidation does not handle at all.
    pub(crate) event: Option<String>,
}

impl Refusal {
    /// A refusal without an event.
    pub(crate) fn silent(code: ReasonCode, detail: impl std::fmt::Display) -> Self {
        Self { reason: Reason::new(code, detail), event: None }
    }

    /// A refusal with an event.
    pub(crate) fn with_event(
        code: ReasonCode,
        detail: impl std::fmt::Display,
        event: impl Into<String>,
    ) -> Self {
        Self { reason: Reason::new(code, detail), event: Some(event.into()) }
    }
}
