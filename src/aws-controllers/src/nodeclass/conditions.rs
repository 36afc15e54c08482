//! Conditions of a `NodeClass` while a pass changes them, and the events their changes are worth.

use karpenter_api::conditions::Conditions;
use karpenter_api::{Condition, ConditionStatus, EC2NodeClass};
use karpenter_model::names::reason;
use karpenter_telemetry::events::{Reason, Severity};

use crate::AwsContext;

/// What a part of the status needs to say about itself.
pub(super) struct Part<'a, 'b> {
    pub(super) context: &'a AwsContext,
    pub(super) class: &'a EC2NodeClass,
    pub(super) conditions: &'a mut Conditions<'b>,
}

impl Part<'_, '_> {
    /// AWS gave no answer: the condition stays what it is, an event is published, the pass is tried again.
    ///
    /// A condition that was never decided carries the text, because it is the first thing people look at. It is
    /// written once per generation: a text that differs in every answer would wake the next pass by itself.
    pub(super) fn unanswered(
        &mut self,
        kind: &'static str,
        reason: &'static str,
        error: &dyn std::fmt::Display,
    ) {
        let message = without_request_id(&error.to_string());
        self.context.publish_event(self.class, Reason::unlisted(reason, Severity::Warning), message.as_str());
        let generation = self.class.metadata.generation;
        let told = |one: &Condition| one.observed_generation == generation && one.message.starts_with(LEAD);
        let undecided = |one: &Condition| one.status == ConditionStatus::Unknown && !told(one);
        if self.conditions.get(kind).is_none_or(undecided) {
            self.conditions.set_unknown(kind, reason::AWAITING_RECONCILIATION, &format!("{LEAD}{message}"));
        }
    }

    /// The answer is an error that says something about the object.
    pub(super) fn failed(&mut self, kind: &'static str, reason: &'static str, error: &dyn std::fmt::Display) {
        self.refuse(kind, reason, &without_request_id(&error.to_string()));
    }

    /// The answer is a clear no.
    pub(super) fn refuse(&mut self, kind: &'static str, reason: &'static str, message: &str) {
        self.conditions.set_false(kind, reason, message);
        self.context.publish_event(self.class, Reason::unlisted(reason, Severity::Warning), message);
    }
}

/// Begins the message of a condition that waits for an answer.
const LEAD: &str = "no answer from AWS yet: ";

/// The text of an AWS error without the id of the request, which is another one every time.
fn without_request_id(text: &str) -> String {
    let Some((before, rest)) = text.split_once(" (request ") else { return text.to_owned() };
    match rest.split_once(')') {
        Some((_, after)) => format!("{before}{after}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_request_id;

    #[test]
    fn equal_failures_have_equal_texts() {
        let told = without_request_id("cannot DescribeSubnets `a`: Denied: no (request r-1); grant it");
        assert_eq!(told, "cannot DescribeSubnets `a`: Denied: no; grant it");
        assert_eq!(without_request_id("plain (text)"), "plain (text)");
    }
}
