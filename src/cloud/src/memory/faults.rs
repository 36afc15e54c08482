//! Faults to inject and the log of what was called.

use std::collections::{BTreeMap, VecDeque};

use crate::Kind;

/// The operations of the port that reach the cloud, for faults and for the call log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `launch`
    Launch,
    /// `terminate`
    Terminate,
    /// `reboot`
    Reboot,
    /// `instance`
    Instance,
    /// `machine_of`
    MachineOf,
    /// `instances`
    Instances,
    /// `instance_types`
    InstanceTypes,
    /// `drift`
    Drift,
    /// `tag`
    Tag,
}

impl Operation {
    /// The verb phrase used in errors.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Launch => "launch instance",
            Self::Terminate => "terminate instance",
            Self::Reboot => "reboot instance",
            Self::Instance => "describe instance",
            Self::MachineOf => "find instance of claim",
            Self::Instances => "list instances",
            Self::InstanceTypes => "list instance types",
            Self::Drift => "compare instance",
            Self::Tag => "tag instance",
        }
    }
}

/// Way in which one call goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens and the call fails with this kind.
    Refused(Kind),
    /// The operation happens, but its answer is lost on the way back (a transient error).
    AnswerLost,
}

/// One call that reached the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Operation that was called.
    pub operation: Operation,
    /// About what: claim name, provider id or pool; empty for lists.
    pub subject: String,
    /// The fault it met, if any.
    pub fault: Option<Fault>,
}

/// Faults waiting for their call, first in first out per operation.
#[derive(Debug, Default)]
pub(super) struct Faults(BTreeMap<Operation, VecDeque<Fault>>);

impl Faults {
    pub(super) fn push(&mut self, operation: Operation, fault: Fault) {
        self.0.entry(operation).or_default().push_back(fault);
    }

    pub(super) fn pop(&mut self, operation: Operation) -> Option<Fault> {
        self.0.get_mut(&operation)?.pop_front()
    }
}
