//! Tells about status conditions that change and about finalizers that are gone (spec core-disruption 6 and 7).

use std::time::Duration;

use karpenter_api::{Condition, ConditionStatus, NodeClaim, NodePool, conditions};
use karpenter_model::{ConditionType, label};
use karpenter_telemetry::events::{Event, ObjectRef, Reason, reason};
use karpenter_telemetry::metrics::{Counter, Histogram};
use kube::ResourceExt;

use crate::Context;
use crate::view::StatusSeen;

/// Conditions of pools, which claims do not have.
const OF_POOLS: [&str; 4] = [
    conditions::READY,
    conditions::nodepool::VALIDATION_SUCCEEDED,
    conditions::nodepool::NODE_CLASS_READY,
    conditions::nodepool::NODE_REGISTRATION_HEALTHY,
];

/// Publishes what follows from a change.
pub(crate) fn tell(context: &Context, seen: &StatusSeen) {
    let metrics = &context.metrics.operator;
    match seen {
        StatusSeen::Claim { old, new } => {
            let conditions = (of_claim(old), of_claim(new));
            let metrics = (
                &metrics.nodeclaim_condition_transitions_total,
                &metrics.nodeclaim_condition_transition_seconds,
            );
            transitions(context, &**new, &about("NodeClaim", &**new), conditions, metrics);
        }
        StatusSeen::Pool { old, new } => {
            let conditions = (of_pool(old), of_pool(new));
            let metrics = (
                &metrics.nodepool_condition_transitions_total,
                &metrics.nodepool_condition_transition_seconds,
            );
            transitions(context, &**new, &about("NodePool", &**new), conditions, metrics);
        }
        StatusSeen::ClaimGone(claim) => {
            let ours = claim.finalizers().iter().any(|name| name == label::TERMINATION_FINALIZER);
            if ours && claim.metadata.deletion_timestamp.is_some() {
                let message = format!("Finalized {}", label::TERMINATION_FINALIZER);
                context.recorder.publish(Event::new(
                    about("NodeClaim", &**claim),
                    reason::FINALIZED,
                    message,
                ));
            }
        }
    }
}

fn transitions(
    context: &Context,
    object: &impl ResourceExt,
    about: &ObjectRef,
    (old, new): (&[Condition], &[Condition]),
    (count, lasted): (&Counter<3>, &Histogram<2>),
) {
    for Transition { kind, before, after } in changed(old, new) {
        count.inc([kind, after.status.as_str(), &after.reason]);
        let began = before.map(|before| before.last_transition_time.0);
        let began = began.or_else(|| object.creation_timestamp().map(|time| time.0)).unwrap_or_default();
        let span = Duration::try_from(after.last_transition_time.0.duration_since(began)).unwrap_or_default();
        lasted.observe([kind, status(before)], span);
        let message = text(kind, status(before), after);
        context.recorder.publish(Event::new(about.clone(), Reason::condition(kind), message));
    }
}

struct Transition<'a> {
    kind: &'static str,
    before: Option<&'a Condition>,
    after: &'a Condition,
}

/// Conditions whose status changed; one that was not there was unknown.
fn changed<'a>(old: &'a [Condition], new: &'a [Condition]) -> impl Iterator<Item = Transition<'a>> {
    new.iter().filter_map(|after| {
        let before = old.iter().find(|before| before.kind == after.kind);
        let kind = known(&after.kind).filter(|_| status(before) != after.status.as_str())?;
        Some(Transition { kind, before, after })
    })
}

fn status(condition: Option<&Condition>) -> &'static str {
    condition.map_or(ConditionStatus::Unknown, |condition| condition.status).as_str()
}

fn known(kind: &str) -> Option<&'static str> {
    let of_claims = ConditionType::parse(kind).map(|kind| kind.as_str());
    of_claims.or_else(|| OF_POOLS.into_iter().find(|known| *known == kind))
}

fn text(kind: &str, was: &str, after: &Condition) -> String {
    let is = after.status.as_str();
    let text = format!(
        "Status condition transitioned, Type: {kind}, Status: {was} -> {is}, Reason: {}",
        after.reason
    );
    if after.message.is_empty() || after.status == ConditionStatus::True {
        return text;
    }
    format!("{text}, Message: {}", after.message)
}

fn of_claim(claim: &NodeClaim) -> &[Condition] {
    claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
}

fn of_pool(pool: &NodePool) -> &[Condition] {
    pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
}

fn about(kind: &str, object: &impl ResourceExt) -> ObjectRef {
    ObjectRef {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: kind.to_owned(),
        namespace: None,
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
    }
}
