//! Conditions in the status of an object, opened for changes, and verdicts of decisions written into them.

use karpenter_api::conditions::{Conditions, Dependents};
use karpenter_api::{Condition, ConditionStatus, NodePool};
use karpenter_lifecycle::step::ConditionValue;
use karpenter_model::names::condition;

use crate::Context;

/// Opens the conditions of a pool for changes.
pub(crate) fn open<'a>(list: &'a mut Vec<Condition>, pool: &NodePool, context: &Context) -> Conditions<'a> {
    Conditions::open(Dependents::NODE_POOL, list, &pool.metadata, context.now())
}

/// Texts of the conditions that keep a pool from being ready; empty when nothing does.
pub(crate) fn failing(conditions: &[Condition]) -> String {
    let needed = [condition::VALIDATION_SUCCEEDED, condition::NODE_CLASS_READY];
    let failing = conditions
        .iter()
        .filter(|one| one.status == ConditionStatus::False && needed.contains(&one.kind.as_str()));
    let words = failing.map(|one| {
        let words = if one.message.is_empty() { &one.reason } else { &one.message };
        format!("{}: {words}", one.kind)
    });
    words.collect::<Vec<_>>().join("; ")
}

/// Writes a verdict into a condition.
pub(crate) fn set(conditions: &mut Conditions<'_>, kind: &str, verdict: &ConditionValue) {
    let status = match verdict.status {
        karpenter_model::ConditionStatus::True => ConditionStatus::True,
        karpenter_model::ConditionStatus::False => ConditionStatus::False,
        karpenter_model::ConditionStatus::Unknown => ConditionStatus::Unknown,
    };
    conditions.set(kind, status, &verdict.reason, &verdict.message);
}
