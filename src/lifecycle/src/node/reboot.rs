//! Reboot of the machine of a claim in place of its replacement (core #3336).
//!
//! The condition `Rebooting` has its stage: requested, while the node drains behind a taint of its own; issued, once the
//! cloud was asked; then over. The boot id of before is written ahead of the call, so that a process that starts in between
//! sees on the Node that the machine has booted, and asks no second time. Deadlines count from transitions of conditions;
//! only the time for which a call that fails is repeated is that of one process.
//!
//! What fails ends with the claim: its machine was broken before, and provisioning launches what the pods need.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::{annotation, label, reason};
use karpenter_model::repair::Repair;
use karpenter_model::{Claim, ConditionStatus, ConditionType, NodeObject, Pod, Taint};

use crate::node::drain;
use crate::node::termination::{self, MIN_DRAIN};
use crate::step::{
    About, Change, ConditionValue, DeletionCause, Effect, Event, Milestone, NodePatch, RebootResult, Step,
    Wake,
};

/// Delay of the next look at a machine that boots.
const POLL: Duration = Duration::from_secs(15);
/// Time for which one process repeats a call that fails, and for which a Node that is gone is waited for before the call.
const ISSUE: Duration = Duration::from_mins(5);
/// Time after the call within which the Node must be ready again.
const RECOVERY: Duration = Duration::from_mins(20);
/// Annotations that a reboot puts on its claim.
const ANNOTATIONS: [&str; 2] = [annotation::REBOOT_GRACE_PERIOD, annotation::PRE_BOOT_ID];

/// Inputs of the step.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The Node of the claim, if there is exactly one.
    pub node: Option<&'a NodeObject>,
    /// All pods bound to it.
    pub pods: &'a [&'a Pod],
    /// The instant of the pass.
    pub now: Timestamp,
}

/// Answer of the provider to the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The machine is going to boot.
    Accepted,
    /// It failed, and may succeed later.
    Failed(String),
    /// There is no such machine, or the provider cannot do it.
    Refused(String),
}

/// Returns the step that begins a reboot for `repair`: conditions and annotations of the claim. Nothing for one that is being
/// rebooted or deleted.
pub fn request(claim: &Claim, repair: &Repair) -> Option<Step> {
    if claim.deletion.is_some() || claim.is_true(ConditionType::Rebooting) {
        return None;
    }
    let grace = repair.drain.map(|drain| {
        Effect::annotate_claim(annotation::REBOOT_GRACE_PERIOD, format!("{}s", drain.as_secs()))
    });
    let message = format!("rebooting for {}/{}", repair.condition, repair.reason);
    let unhealthy = reason_of_disruption();
    let step = Step::of([forget()].into_iter().chain(grace));
    Some(
        step.and_condition(Change { kind: ConditionType::DisruptionReason, to: Some(unhealthy) })
            .and_condition(rebooting(ConditionStatus::True, reason::REBOOT_REQUESTED, message)),
    )
}

/// Returns whether the Node of `claim` drains for a reboot.
pub fn drains(claim: &Claim) -> bool {
    claim.deletion.is_none() && claim.is_true(ConditionType::Rebooting) && !is_issued(claim)
}

/// Returns whether the next thing to do is to ask the provider, or to ask it again, and feed its answer to [`answered`].
pub fn asks_provider(claim: &Claim, node: &NodeObject) -> bool {
    drains(claim) && claim.annotations.contains_key(annotation::PRE_BOOT_ID) && !has_booted(claim, node)
}

/// The next thing to do for a claim whose machine is being rebooted, unless the provider is to be asked.
pub fn step(claim: &Claim, facts: Facts<'_>) -> Step {
    // Termination takes over from a reboot.
    let Some(requested) = claim.true_since(ConditionType::Rebooting).filter(|_| claim.deletion.is_none())
    else {
        return Step::idle();
    };
    let waited = since(requested, facts.now);
    if is_issued(claim) {
        return recovering(claim, facts, waited);
    }
    let Some(node) = facts.node else {
        return match ISSUE.saturating_sub(waited) {
            Duration::ZERO => failed(claim, facts, RebootResult::ProviderError, "the node is gone"),
            left => Step::idle().and_wake(Wake::After(left.min(POLL))),
        };
    };
    // A process asked, and ended before it could record that.
    if has_booted(claim, node) {
        return issued(node);
    }
    match bound(claim) {
        Ok(bound) => fenced(node).then(draining(node, facts, waited, bound)),
        Err(text) => refused(claim, node, waited, &text),
    }
}

/// The step after the provider's answer to a call that is being repeated since `trying`.
pub fn answered(claim: &Claim, facts: Facts<'_>, answer: &Answer, trying: Timestamp) -> Step {
    match (answer, facts.node) {
        (Answer::Accepted, Some(node)) => issued(node),
        // Its Node has gone meanwhile; the next look finds that out.
        (Answer::Accepted, None) => Step::idle().and_wake(Wake::After(POLL)),
        (Answer::Failed(_), _) if since(trying, facts.now) < ISSUE => Step::idle().and_wake(Wake::Backoff),
        (Answer::Failed(why) | Answer::Refused(why), _) => {
            failed(claim, facts, RebootResult::ProviderError, why)
        }
    }
}

/// Drains until no pod is left or the bound is reached; pods that are left then ride along. Deletes none ahead of it.
fn draining(node: &NodeObject, facts: Facts<'_>, waited: Duration, bound: Option<Duration>) -> Step {
    let drain = drain::drain(facts.pods.iter().copied(), None, facts.now);
    let over = drain.waiting == 0 || bound.is_some_and(|bound| waited >= bound);
    let mut step = Step::of(drain.effects);
    // At least as long as before a termination, for pods that were bound just before the taint.
    if over && waited >= MIN_DRAIN {
        // Stored before the cloud is asked: the write brings the claim back, and the next pass makes the
        // call. A kubelet that has reported no id gets an empty one, so that the first it reports counts as a
        // boot.
        let before = node.boot_id.clone().unwrap_or_default();
        step.effects.push(Effect::annotate_claim(annotation::PRE_BOOT_ID, before));
        return step;
    }
    if drain.waiting > 0 {
        let text = format!("Failed to drain node, {} pods are waiting to be evicted", drain.waiting);
        step.effects.push(Effect::Event(Event::new(
            About::Node(node.name.clone()),
            reason::FAILED_DRAINING,
            text,
        )));
    }
    step.and_wake(Wake::After(termination::POLL))
}

/// The cloud was asked: the Node is not initialized until it is back.
fn issued(node: &NodeObject) -> Step {
    let mut patch = NodePatch::of(&node.name);
    patch.remove_labels = vec![label::INITIALIZED.into()];
    Step::of([Effect::PatchNode(patch)])
        .and_condition(Change::unknown(ConditionType::Initialized, reason::REBOOTING, "node is rebooting"))
        .and_condition(rebooting(
            ConditionStatus::True,
            reason::REBOOT_ISSUED,
            "reboot was requested from the cloud",
        ))
        .and_wake(Wake::After(POLL))
}

/// Waits until the machine has booted and its Node is ready.
fn recovering(claim: &Claim, facts: Facts<'_>, waited: Duration) -> Step {
    let asked = claim.conditions.get(&ConditionType::Initialized).map(|condition| condition.last_transition);
    // One that was not initialized before has been `Unknown` for longer than that.
    let recovering = asked.map_or(waited, |asked| since(asked, facts.now).min(waited));
    let booted = facts.node.filter(|node| has_booted(claim, node));
    let step = booted.map_or_else(Step::idle, observed);
    if booted.is_some_and(NodeObject::is_ready) {
        let ended =
            Milestone::Rebooted { result: RebootResult::Succeeded, took: waited, recovery: Some(recovering) };
        let over = Step::of([forget(), Effect::Milestone(ended)]).and_condition(rebooting(
            ConditionStatus::False,
            reason::REBOOT_SUCCEEDED,
            "node rebooted and rejoined the cluster",
        ));
        return step.then(over).and_condition(Change::removed(ConditionType::DisruptionReason));
    }
    match RECOVERY.saturating_sub(recovering) {
        Duration::ZERO => {
            let minutes = RECOVERY.as_secs() / 60;
            let why = format!("the node was not ready {minutes}m after its reboot");
            failed(claim, facts, RebootResult::RecoveryTimeout, &why)
        }
        left => step.and_wake(Wake::After(left.min(POLL))),
    }
}

/// The machine of `node` has booted: pods may come again once the kubelet is ready.
fn observed(node: &NodeObject) -> Step {
    let patch = unfenced(node);
    if patch.is_empty() {
        return Step::idle();
    }
    let event = Event::new(
        About::Node(node.name.clone()),
        reason::REBOOT_OBSERVED,
        "Instance of the node has rebooted",
    );
    Step::of([Effect::PatchNode(patch), Effect::Event(event)])
}

/// The reboot cannot be carried out as it was requested: the node stays, and repair decides again.
fn refused(claim: &Claim, node: &NodeObject, waited: Duration, text: &str) -> Step {
    let message = format!(
        "annotation {} is not a duration: {text:?}; remove it or write one like `5m`",
        annotation::REBOOT_GRACE_PERIOD
    );
    let patch = unfenced(node);
    let unfence = (!patch.is_empty()).then_some(Effect::PatchNode(patch));
    let ended = Milestone::Rebooted { result: RebootResult::InvalidRequest, took: waited, recovery: None };
    let event = Event::new(About::Claim(claim.name.clone()), reason::REBOOT_FAILED, message.as_str());
    Step::of(unfence.into_iter().chain([forget(), Effect::Event(event), Effect::Milestone(ended)]))
        .and_condition(rebooting(ConditionStatus::False, reason::REBOOT_FAILED, message))
        .and_condition(Change::removed(ConditionType::DisruptionReason))
}

/// Gives the machine up.
fn failed(claim: &Claim, facts: Facts<'_>, result: RebootResult, why: &str) -> Step {
    let took = claim.true_since(ConditionType::Rebooting).map_or(Duration::ZERO, |at| since(at, facts.now));
    let about = facts.node.map(|node| About::Node(node.name.clone()));
    let events = about.into_iter().chain([About::Claim(claim.name.clone())]);
    let message = format!("Reboot failed, the node is replaced: {why}");
    let events =
        events.map(|about| Effect::Event(Event::new(about, reason::REBOOT_FAILED, message.as_str())));
    // First: where it fails, the step is tried again, and one claim must not count twice.
    let deleted = [Effect::DeleteClaim(DeletionCause::Unhealthy)];
    let ended = Effect::Milestone(Milestone::Rebooted { result, took, recovery: None });
    Step::of(deleted.into_iter().chain(events).chain([ended]))
}

fn is_issued(claim: &Claim) -> bool {
    let condition = claim.conditions.get(&ConditionType::Rebooting);
    condition.is_some_and(|condition| condition.reason == reason::REBOOT_ISSUED)
}

/// Returns whether the machine of `node` has booted since the boot id on `claim` was written.
fn has_booted(claim: &Claim, node: &NodeObject) -> bool {
    let before = claim.annotations.get(annotation::PRE_BOOT_ID);
    before.is_some_and(|before| node.boot_id.as_ref().is_some_and(|now| now != before))
}

/// Longest time of the drain, `None` without an end; the text if it cannot be read.
fn bound(claim: &Claim) -> Result<Option<Duration>, String> {
    let Some(text) = claim.annotations.get(annotation::REBOOT_GRACE_PERIOD) else { return Ok(None) };
    let parsed: Option<jiff::SignedDuration> = text.parse().ok();
    parsed.and_then(|span| Duration::try_from(span).ok()).map(Some).ok_or_else(|| text.clone())
}

/// Keeps new pods away from `node` until it has booted.
fn fenced(node: &NodeObject) -> Step {
    let fence = Taint::rebooting();
    if node.taints.iter().any(|taint| taint.matches(&fence)) {
        return Step::idle();
    }
    let told = Effect::Milestone(Milestone::Tainted(node.name.clone()));
    let patch = NodePatch { add_taints: vec![fence], ..NodePatch::of(&node.name) };
    Step::of([Effect::PatchNode(patch), told])
}

fn unfenced(node: &NodeObject) -> NodePatch {
    let fence = Taint::rebooting();
    let there = node.taints.iter().any(|taint| taint.matches(&fence));
    NodePatch { remove_taints: there.then_some(fence).into_iter().collect(), ..NodePatch::of(&node.name) }
}

fn forget() -> Effect {
    Effect::ForgetAnnotations(ANNOTATIONS.map(str::to_owned).to_vec())
}

fn rebooting(status: ConditionStatus, reason: &str, message: impl Into<String>) -> Change {
    let value = ConditionValue { status, reason: reason.to_owned(), message: message.into() };
    Change { kind: ConditionType::Rebooting, to: Some(value) }
}

fn reason_of_disruption() -> ConditionValue {
    let word = karpenter_model::DisruptionReason::Unhealthy.to_string();
    ConditionValue { status: ConditionStatus::True, reason: word.clone(), message: word }
}

#[cfg(test)]
mod tests;
