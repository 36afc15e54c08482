//! Conditions in the status of an object, opened for changes, and verdicts of decisions written into them.

use karpenter_api::conditions::{Conditions, Dependents};
use karpenter_api::{Condition, ConditionStatus, NodePool};
use karpenter_lifecycle::pool::status::readiness::{NodeClass, verdict};
use karpenter_lifecycle::step::{Change, ConditionValue};
use karpenter_model::names::{condition, reason};

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
    conditions.set(kind, verdict.status, &verdict.reason, &verdict.message);
}

/// Carries out a change of a condition. One that must exist is not removed, which no step asks for.
pub fn change(conditions: &mut Conditions<'_>, change: &Change) {
    match &change.to {
        Some(verdict) => set(conditions, change.kind.as_str(), verdict),
        None => drop(conditions.clear(change.kind.as_str())),
    }
}

/// Writes whether a pool is valid and its node class ready, which together make it ready; returns the verdict on the class.
pub fn judge(conditions: &mut Conditions<'_>, problems: &[String], class: NodeClass) -> ConditionValue {
    if problems.is_empty() {
        conditions.set_true(condition::VALIDATION_SUCCEEDED);
    } else {
        let message = problems.join("; ");
        conditions.set_false(condition::VALIDATION_SUCCEEDED, reason::NODE_POOL_VALIDATION_FAILED, &message);
    }
    let ready = verdict(class);
    set(conditions, condition::NODE_CLASS_READY, &ready);
    ready
}
