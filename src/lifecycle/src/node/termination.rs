//! Termination: from a deleted Node to no Node and no machine (spec disruption 2.2).
//!
//! The order is fixed: claim deleted, node tainted, pods drained, volumes detached, machine gone, finalizer
//! removed. Each pass starts from what is true and stops at the first thing to wait for. The Node stays until the
//! machine is really gone, by a consistent read. Without a claim there is no deadline, no minimum drain time and
//! no machine to terminate.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::{annotation, finalizer, label, reason};
use karpenter_model::{Claim, ConditionStatus, ConditionType, LabelKey, NodeObject, Pod};

use crate::claim::finalize::{Answer, TERMINATING_POLL, refused};
use crate::node::drain;
use crate::step::{About, Change, DeletionCause, Effect, Event, Milestone, NodePatch, Step, Wake};

/// Value of the label that keeps load balancers away, on a node that is being removed.
pub(crate) const EXCLUDED_BY: &str = "karpenter";
/// Shortest drain of a node with a claim: lets pods appear that were bound just before the taint.
pub(crate) const MIN_DRAIN: Duration = Duration::from_secs(5);
/// Delay of the next look while pods or volumes hold a node up.
pub const POLL: Duration = Duration::from_secs(1);
/// Most volume attachments named in an event.
const ATTACHMENTS_SHOWN: usize = 5;

/// Inputs of the step.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub node: &'a NodeObject,
    /// The one claim with the Node's provider id; none if there is none or more than one.
    pub claim: Option<&'a Claim>,
    /// Node class labels of the provider; a Node without any is not ours.
    pub class_labels: &'a [LabelKey],
    /// All pods bound to the Node.
    pub pods: &'a [&'a Pod],
    /// Presence of the machine; needed only if [`asks_presence`].
    pub presence: Presence,
    /// Names of the volume attachments to wait for (see [`crate::node::volumes::blocking`]).
    pub attachments: &'a [String],
    /// The instant of the pass.
    pub now: Timestamp,
}

/// Result of a consistent read of the machine of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// There was no read, or the answer was an error other than "not found".
    Unknown,
    Exists,
    /// It does not exist any more.
    Gone,
}

/// A termination deadline that is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to read termination deadline `{text}` of nodeclaim `{claim}`; set annotation \
     `karpenter.sh/nodeclaim-termination-timestamp` to an RFC 3339 time or remove it"
)]
pub struct InvalidDeadline {
    pub claim: String,
    /// Value of its annotation.
    pub text: String,
}

/// Returns whether a Node is being deleted, has our finalizer, and is one of ours: every other is not ours to touch, nor is
/// its machine one the provider could be asked about. `class_labels` are the node class labels of the provider.
pub fn concerns(node: &NodeObject, class_labels: &[LabelKey]) -> bool {
    let finalizer = node.finalizers.iter().any(|name| name == finalizer::TERMINATION);
    let managed = class_labels.iter().any(|key| node.labels.contains_key(key));
    node.deletion.is_some() && finalizer && managed
}

/// True when the provider has to be asked first about the machine of a Node that [`concerns`] us: the kubelet is not
/// answering, so there may be nothing left to drain.
pub fn asks_presence(node: &NodeObject) -> bool {
    node.provider_id.is_some() && !node.is_ready()
}

/// The next thing to do for a deleted Node.
pub fn step(facts: Facts<'_>) -> Result<Step, InvalidDeadline> {
    let Facts { node, claim, .. } = facts;
    let Some(deletion) = node.deletion.filter(|_| concerns(node, facts.class_labels)) else {
        return Ok(Step::idle());
    };
    let mut step = Step::idle();
    // First, because the deletion of the claim sets the deadline that ends the drain below.
    if claim.is_some_and(|claim| claim.deletion.is_none()) {
        step = step.then(Step::of([Effect::DeleteClaim(DeletionCause::NodeDeleted)]));
    }
    // Nothing is left to drain or to detach from. A Node that is ready contradicts the cloud, and is drained.
    if !node.is_ready() && facts.presence == Presence::Gone {
        return Ok(step.then(removed(node, deletion, facts.now)));
    }
    let deadline = deadline(claim)?;
    if let Some(deadline) = deadline {
        step = step.then(Step::of([Effect::Event(Event::new(
            About::Node(node.name.clone()),
            reason::TERMINATION_GRACE_PERIOD_EXPIRING,
            format!("All pods will be deleted by {deadline}"),
        ))]));
    }
    step = step.then(tainted(node));
    let (drain, drained) = drain_stage(facts, deadline);
    step = step.then(drain);
    if !drained {
        return Ok(step);
    }
    let (volumes, detached) = volume_stage(facts, deadline);
    step = step.then(volumes);
    if !detached {
        return Ok(step);
    }
    Ok(step.then(match claim.and_then(|claim| claim.provider_id.clone()) {
        Some(id) => Step::of([Effect::Terminate(id)]),
        None => removed(node, deletion, facts.now),
    }))
}

/// Returns the step of the Node after the provider's answer to the termination.
pub fn terminated(node: &NodeObject, answer: &Answer, now: Timestamp) -> Step {
    match answer {
        Answer::Started => Step::idle()
            .and_condition(Change::holds(ConditionType::InstanceTerminating))
            .and_wake(Wake::After(TERMINATING_POLL)),
        Answer::Gone => removed(node, node.deletion.unwrap_or(now), now)
            .and_condition(Change::holds(ConditionType::InstanceTerminating)),
        Answer::Failed(_) => Step::idle().and_wake(Wake::Backoff),
        Answer::Refused(message) => refused(About::Node(node.name.clone()), message),
    }
}

/// The instant after which a termination no longer waits, if the claim has one.
pub fn deadline(claim: Option<&Claim>) -> Result<Option<Timestamp>, InvalidDeadline> {
    let Some(claim) = claim else { return Ok(None) };
    let Some(text) = claim.annotations.get(annotation::TERMINATION_TIMESTAMP) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| InvalidDeadline { claim: claim.name.to_string(), text: text.clone() })
}

/// Keeps new pods and load balancers away from the node.
fn tainted(node: &NodeObject) -> Step {
    let mut patch = NodePatch::with_disrupted_taint(&node.name, &node.taints);
    let is_news = !patch.is_empty();
    if node.labels.get(label::EXCLUDE_FROM_LOAD_BALANCERS).is_none_or(|value| value.as_str() != EXCLUDED_BY) {
        patch.labels.insert(label::EXCLUDE_FROM_LOAD_BALANCERS.into(), EXCLUDED_BY.into());
    }
    if patch.is_empty() {
        return Step::idle();
    }
    let told = is_news.then(|| Effect::Milestone(Milestone::Tainted(node.name.clone())));
    Step::of([Effect::PatchNode(patch)].into_iter().chain(told))
}

/// Drains; true when nothing is left to wait for.
fn drain_stage(facts: Facts<'_>, deadline: Option<Timestamp>) -> (Step, bool) {
    let drain = drain::drain(facts.pods.iter().copied(), deadline, facts.now);
    let kind = ConditionType::Drained;
    let drained = facts.claim.is_some_and(|claim| claim.is_true(kind));
    // `Drained` is not taken back when a pod appears afterwards, although the drain waits for it (spec
    // disruption 2.3).
    let draining = (facts.claim.is_some() && !drained)
        .then(|| Change::unknown(kind, reason::DRAINING, reason::DRAINING));
    let mut step = Step::of(drain.effects);
    if drain.waiting > 0 {
        step.effects.push(Effect::Event(Event::new(
            About::Node(facts.node.name.clone()),
            reason::FAILED_DRAINING,
            format!("Failed to drain node, {} pods are waiting to be evicted", drain.waiting),
        )));
        return (step.and_condition(draining).and_wake(Wake::After(POLL)), false);
    }
    // The minimum drain time is measured by a condition of the claim; a Node without a claim has none.
    let Some(claim) = facts.claim.filter(|_| !drained) else { return (step, true) };
    let long_enough = claim.conditions.get(&kind).is_some_and(|condition| {
        condition.status == ConditionStatus::Unknown
            && since(condition.last_transition, facts.now) >= MIN_DRAIN
    });
    if !long_enough {
        return (step.and_condition(draining).and_wake(Wake::After(POLL)), false);
    }
    step.effects.push(Effect::Milestone(Milestone::Drained(facts.node.name.clone())));
    (step.and_condition(Change::holds(kind)), true)
}

/// Waits for volumes; true when none is left or the deadline has passed.
fn volume_stage(facts: Facts<'_>, deadline: Option<Timestamp>) -> (Step, bool) {
    let kind = ConditionType::VolumesDetached;
    let with_claim = |change: Change| facts.claim.is_some().then_some(change);
    if facts.attachments.is_empty() {
        return (Step::idle().and_condition(with_claim(Change::holds(kind))), true);
    }
    if deadline.is_some_and(|deadline| facts.now > deadline) {
        let late = Change::fails(
            kind,
            reason::TERMINATION_GRACE_PERIOD_ELAPSED,
            reason::TERMINATION_GRACE_PERIOD_ELAPSED,
        );
        return (Step::idle().and_condition(with_claim(late)), true);
    }
    let event = Event::new(
        About::Node(facts.node.name.clone()),
        reason::AWAITING_VOLUME_DETACHMENT,
        format!("Awaiting deletion of bound volumeattachments ({})", listed(facts.attachments)),
    );
    let waiting =
        Change::unknown(kind, reason::AWAITING_VOLUME_DETACHMENT, reason::AWAITING_VOLUME_DETACHMENT);
    let step = Step::of([Effect::Event(event)]);
    (step.and_condition(with_claim(waiting)).and_wake(Wake::After(POLL)), false)
}

fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(ATTACHMENTS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if let Some(others) = names.len().checked_sub(ATTACHMENTS_SHOWN).filter(|others| *others > 0) {
        write!(text, " and {others} other(s)").expect("invariant: writing to a string cannot fail");
    }
    text
}

fn removed(node: &NodeObject, deletion: Timestamp, now: Timestamp) -> Step {
    Step::of([
        Effect::RemoveNodeFinalizer(node.name.clone()),
        Effect::Milestone(Milestone::NodeDeleted {
            node: node.name.clone(),
            terminating: since(deletion, now),
            lifetime: since(node.created_at, now),
        }),
    ])
}

#[cfg(test)]
mod orders;
#[cfg(test)]
mod tests;
