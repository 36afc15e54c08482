//! Notes of a pass for people: events about nodes and pools (spec disruption 7).

use karpenter_model::names::reason;
use karpenter_model::report::ReasonCode;
use karpenter_model::{NodeId, PoolName};

/// One event to publish.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    /// Object of the event.
    pub about: About,
    /// Kind of the event.
    pub kind: NoteKind,
    /// Its text.
    pub message: String,
    /// Text that distinguishes two events of one kind about one object.
    pub distinguished_by: String,
}

/// The objects an event is attached to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    /// Node and claim of a node, as far as they exist.
    Machine(NodeId),
    Pool(PoolName),
}

/// The events of disruption. All have type Normal but the last two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteKind {
    /// A node may not be disrupted, or a pool's budget is zero.
    DisruptionBlocked,
    /// Consolidation can do nothing with a node.
    Unconsolidatable,
    /// A replacement was found.
    ConsolidationCandidate,
    /// A `Balanced` pool approved.
    ConsolidationApproved,
    /// Too many nodes are broken for repairs.
    NodeRepairBlocked,
    /// A brake holds disruption back; not an event of the reference.
    DisruptionHeld,
}

impl NoteKind {
    /// The reason of the event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DisruptionBlocked => reason::DISRUPTION_BLOCKED,
            Self::Unconsolidatable => reason::UNCONSOLIDATABLE,
            Self::ConsolidationCandidate => reason::CONSOLIDATION_CANDIDATE,
            Self::ConsolidationApproved => reason::CONSOLIDATION_APPROVED,
            Self::NodeRepairBlocked => reason::NODE_REPAIR_BLOCKED,
            Self::DisruptionHeld => reason::DISRUPTION_HELD,
        }
    }
}

impl Note {
    /// An event about a node that needs nothing else to distinguish it.
    pub(crate) fn machine(id: &NodeId, kind: NoteKind, message: impl Into<String>) -> Self {
        Self {
            about: About::Machine(id.clone()),
            kind,
            message: message.into(),
            distinguished_by: String::new(),
        }
    }

    /// An event about a pool.
    pub(crate) fn pool(pool: &PoolName, kind: NoteKind, message: impl Into<String>) -> Self {
        Self {
            about: About::Pool(pool.clone()),
            kind,
            message: message.into(),
            distinguished_by: String::new(),
        }
    }

    /// An event about a node that may not be disrupted. It is published again when something else keeps the node: another
    /// reason, or another `operand`, such as the pod or the budget. Another text about the same is not news: texts list
    /// amounts and all pods concerned, which change all the time.
    pub(crate) fn blocked(id: &NodeId, why: ReasonCode, operand: &str, message: impl Into<String>) -> Self {
        Self::machine(id, NoteKind::DisruptionBlocked, message).distinguished_by(format!("{why} {operand}"))
    }

    /// Adds `values` that distinguish the note from others of its kind about the object.
    pub(crate) fn distinguished_by(self, values: impl Into<String>) -> Self {
        Self { distinguished_by: values.into(), ..self }
    }
}
