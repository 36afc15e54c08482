//! Conditions of a `NodeClass` while a pass changes them, and the events their changes are worth.

use karpenter_api::conditions::Conditions;
use karpenter_api::{Condition, ConditionStatus, EC2NodeClass};
use karpenter_telemetry::events::{Reason, Severity};

use crate::AwsContext;

/// Access of a part of the status to its conditions and events.
pub(super) struct Part<'a, 'b> {
    pub(super) context: &'a AwsContext,
    pub(super) class: &'a EC2NodeClass,
    pub(super) conditions: &'a mut Conditions<'b>,
}

impl Part<'_, '_> {
    /// Nothing could be decided: an event is published and the pass is tried again.
    ///
    /// A decision about this generation stays. A decision about an older one does not hold for this one (aws#8312), so the
    /// condition becomes Unknown and carries the text, because it is the first thing people look at. The text is written
    /// again only for another call or code: one that differs in every answer would wake the next pass by itself.
    pub(super) fn unanswered(
        &mut self,
        kind: &'static str,
        reason: &'static str,
        error: &dyn std::fmt::Display,
    ) {
        let message = without_request_id(&error.to_string());
        self.context.publish_event(self.class, Reason::unlisted(reason, Severity::Warning), message.as_str());
        let message = format!("{LEAD}{message}");
        let generation = self.class.metadata.generation;
        let says_so = |one: &Condition| one.reason == reason && same_refusal(&one.message, &message);
        let decided = |one: &Condition| one.status != ConditionStatus::Unknown || says_so(one);
        let stays = |one: &Condition| one.observed_generation == generation && decided(one);
        if !self.conditions.get(kind).is_some_and(stays) {
            self.conditions.set_unknown(kind, reason, &message);
        }
    }

    /// The answer is an error that concerns the object.
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
const LEAD: &str = "not decided yet: ";

/// Returns whether two texts are of the same call and the same code of AWS, which come before the part that differs in each
/// answer.
fn same_refusal(one: &str, other: &str) -> bool {
    one.split(": ").take(3).eq(other.split(": ").take(3))
}

/// The text of an AWS error without the id of the request, which is another one every time.
pub(super) fn without_request_id(text: &str) -> String {
    let Some((before, rest)) = text.split_once(" (request ") else { return text.to_owned() };
    match rest.split_once(')') {
        Some((_, after)) => format!("{before}{after}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{same_refusal, without_request_id};

    #[test]
    fn another_call_or_code_is_another_refusal() {
        let one = "not decided yet: cannot DescribeSubnets `a`: Throttling: slow down, 1 s";
        assert!(same_refusal(one, "not decided yet: cannot DescribeSubnets `a`: Throttling: slow down, 2 s"));
        assert!(!same_refusal(one, "not decided yet: cannot DescribeSubnets `a`: AccessDenied: no"));
        assert!(!same_refusal(one, "not decided yet: cannot GetRole `a`: Throttling: slow down, 1 s"));
        assert!(!same_refusal(one, "object is awaiting reconciliation"));
    }

    #[test]
    fn equal_failures_have_equal_texts() {
        let told = without_request_id("cannot DescribeSubnets `a`: Denied: no (request r-1); grant it");
        assert_eq!(told, "cannot DescribeSubnets `a`: Denied: no; grant it");
        assert_eq!(without_request_id("plain (text)"), "plain (text)");
    }
}
