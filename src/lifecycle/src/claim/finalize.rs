//! Finalization: a deleted claim first loses its Nodes, then its machine, then its finalizer (spec disruption 1.9).
//!
//! Nodes are deleted only when they had registered: an unregistered machine may still be writing its Node, and
//! deleting the object under it would leak it. A Node carries the mark of its registration itself, so that a crash between
//! its patch and the claim's does not end a machine under running pods. The finalizer is removed only after the provider
//! reported, by a consistent read, that the machine is gone. A claim without a recorded machine may have one: it
//! may have been deleted while its launch was on the way, or the process may have died before it wrote the answer
//! down. So the provider is asked by the tags of the claim, and the machine it names is recorded and ended the usual way.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::{annotation, finalizer, label, reason};
use karpenter_model::{Claim, ConditionType, NodeObject, ProviderId};

use crate::step::{About, Change, Effect, Event, Milestone, Step, Wake, whole_seconds};

/// Delay before the next question about a terminating machine.
pub const TERMINATING_POLL: Duration = Duration::from_secs(5);

/// The result of asking the provider to terminate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is terminating.
    Started,
    /// It is gone, by a consistent read.
    Gone,
    /// The call failed; try again.
    Failed(String),
    /// The call failed, and will until a person changes something: a right is missing, or the instance is protected.
    Refused(String),
}

/// Answer of the provider about a claim without a recorded machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This one was started for it.
    Machine(ProviderId),
    /// None is there, by a consistent read.
    Nothing,
    /// The call failed; try again.
    Failed(String),
}

/// The next thing to do for a deleted claim. `nodes` are all Nodes with its provider id.
pub fn step(claim: &Claim, nodes: &[&NodeObject]) -> Step {
    let Some(deletion) = claim.deletion else { return Step::idle() };
    // Never added, so nothing was launched; or removed, so the machine is gone. The claim waits for a
    // finalizer of another client.
    if !claim.finalizers.iter().any(|name| name == finalizer::TERMINATION) {
        return Step::idle();
    }
    // The deadline is written before a Node is deleted: the drain that begins with the Node reads it.
    let step = restamped(claim).then(deadline(claim, deletion));
    let registered = claim.is_true(ConditionType::Registered);
    let mut to_drain =
        nodes.iter().filter(|node| registered || node.has_true_label(label::REGISTERED)).peekable();
    if to_drain.peek().is_some() {
        // The claim waits here until its last Node is gone: the termination of the Node drains the pods and ends the machine.
        let deletions = to_drain.filter(|node| node.deletion.is_none());
        return step.then(Step::of(deletions.map(|node| Effect::DeleteNode(node.name.clone()))));
    }
    match &claim.provider_id {
        Some(id) => step.then(Step::of([Effect::Terminate(id.clone())])),
        None => step.then(Step::of([Effect::LookUp])),
    }
}

/// Returns the step of a claim without a recorded machine after the provider was asked for it.
pub fn looked_up(claim: &Claim, found: &Found, now: Timestamp) -> Step {
    match found {
        // Its Nodes can be found only now, so everything starts over.
        Found::Machine(id) => {
            Step::of([Effect::RecordMachine(id.clone())]).and_wake(Wake::After(Duration::ZERO))
        }
        Found::Nothing => removed(claim.deletion.unwrap_or(now), now),
        Found::Failed(_) => Step::idle().and_wake(Wake::Backoff),
    }
}

/// Returns the step of the claim after the provider's answer to the termination.
pub fn terminated(claim: &Claim, answer: &Answer, now: Timestamp) -> Step {
    match answer {
        Answer::Started => Step::idle()
            .and_condition(Change::holds(ConditionType::InstanceTerminating))
            .and_wake(Wake::After(TERMINATING_POLL)),
        Answer::Failed(_) => Step::idle().and_wake(Wake::Backoff),
        Answer::Refused(message) => refused(About::Claim(claim.name.clone()), message),
        Answer::Gone => {
            // Without the condition the machine had ended before it was asked to, and there was nothing to
            // wait for.
            let asked = claim.true_since(ConditionType::InstanceTerminating).unwrap_or(now);
            Step::of([Effect::Milestone(Milestone::InstanceGone(since(asked, now)))])
                .then(removed(claim.deletion.unwrap_or(now), now))
        }
    }
}

/// Reports a refused termination on `about`, which stays until it is granted.
pub(crate) fn refused(about: About, message: &str) -> Step {
    let text = format!("Instance is not terminated, tried again: {message}");
    Step::of([Effect::Event(Event::new(about, reason::TERMINATION_FAILED, text))]).and_wake(Wake::Backoff)
}

/// Fixes the termination deadline, once; a value that another client has set stays.
fn deadline(claim: &Claim, deletion: Timestamp) -> Step {
    let Some(grace) = claim.termination_grace_period else { return Step::idle() };
    if claim.annotations.contains_key(annotation::TERMINATION_TIMESTAMP) {
        return Step::idle();
    }
    // A grace period that leaves the calendar is no deadline at all.
    let Ok(deadline) = deletion.checked_add(grace) else { return Step::idle() };
    let text = whole_seconds(deadline);
    Step::of([
        Effect::annotate_claim(annotation::TERMINATION_TIMESTAMP, text.clone()),
        Effect::Milestone(Milestone::DeadlineSet(deadline)),
        Effect::Event(Event::new(
            About::Claim(claim.name.clone()),
            reason::TERMINATION_GRACE_PERIOD_EXPIRING,
            format!("All pods will be deleted by {text}"),
        )),
    ])
}

/// Every condition of a deleted object follows its generation.
fn restamped(claim: &Claim) -> Step {
    // `Ready` is computed from the others when they are written (spec disruption 0.2).
    let kinds = claim.conditions.keys().filter(|kind| **kind != ConditionType::Ready);
    kinds.fold(Step::idle(), |step, kind| step.and_condition(Change::restamp(claim, *kind)))
}

fn removed(deletion: Timestamp, now: Timestamp) -> Step {
    Step::of([Effect::RemoveFinalizer, Effect::Milestone(Milestone::ClaimDeleted(since(deletion, now)))])
}

#[cfg(test)]
mod tests;
