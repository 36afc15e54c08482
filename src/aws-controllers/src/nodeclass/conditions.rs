//! Conditions of a `NodeClass` while a pass changes them, and the events their changes are worth.

use karpenter_api::conditions::{AWAITING_RECONCILIATION, Conditions};
use karpenter_api::{Condition, ConditionStatus, EC2NodeClass};
use karpenter_telemetry::events::{Reason, Severity};

use crate::AwsContext;

/// What a part of the status needs to say about itself.
pub(super) struct Part<'a, 'b> {
    pub(super) context: &'a AwsContext,
    pub(super) class: &'a EC2NodeClass,
    pub(super) conditions: &'a mut Conditions<'b>,
}

impl Part<'_, '_> {
    /// AWS gave no answer: the condition stays what it is, people are told, the pass is tried again.
    ///
    /// A condition that was never decided carries the text, because it is the first thing people look at.
    pub(super) fn unanswered(
        &mut self,
        kind: &'static str,
        reason: &'static str,
        error: &dyn std::fmt::Display,
    ) {
        let message = error.to_string();
        self.context.tell(self.class, Reason::unlisted(reason, Severity::Warning), message.as_str());
        let undecided = |condition: &Condition| condition.status == ConditionStatus::Unknown;
        if self.conditions.get(kind).is_none_or(undecided) {
            self.conditions.set_unknown(kind, AWAITING_RECONCILIATION, &message);
        }
    }

    /// The answer is a clear no.
    pub(super) fn refuse(&mut self, kind: &'static str, reason: &'static str, message: &str) {
        self.conditions.set_false(kind, reason, message);
        self.context.tell(self.class, Reason::unlisted(reason, Severity::Warning), message);
    }
}
