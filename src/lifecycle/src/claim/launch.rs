//! Launch: from a claim with a finalizer to a machine that is starting (spec disruption 1.3).
//!
//! Runs while `Launched` is unknown. The provider call is idempotent per claim, so nothing is remembered between
//! tries: a success whose status could not be written is simply asked for again.

use karpenter_model::names::reason;
use karpenter_model::{Claim, ConditionStatus, ConditionType, Pod};

use crate::step::{About, Change, DeletionCause, Effect, Event, Launched, Milestone, PodRef, Step, Wake};

/// Most bytes of a provider's error text that are shown.
pub const MESSAGE_MAX: usize = 300;

/// The result of asking the provider to launch.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// There is a machine.
    Launched(Box<Launched>),
    /// Every offering that would have done is out of capacity.
    NoCapacity {
        /// Message of the provider.
        message: String,
    },
    /// The node class is missing, being deleted or not ready.
    NodeClassNotReady {
        /// Message of the provider.
        message: String,
    },
    /// Anything else; worth another try.
    Failed {
        /// Condition reason that the provider gives, if any; the message is then shown whole.
        reason: Option<String>,
        /// Message of the provider.
        message: String,
    },
}

/// Asks for a launch while it is not decided; afterwards only keeps the observed generation current.
pub fn step(claim: &Claim) -> Step {
    match claim.status(ConditionType::Launched) {
        None | Some(ConditionStatus::Unknown) => Step::of([Effect::Launch]),
        Some(ConditionStatus::True | ConditionStatus::False) => {
            Step::idle().and_condition(Change::restamp(claim, ConditionType::Launched))
        }
    }
}

/// Returns the step after an answer of the provider, for the claim and for the pods that were promised a place on it.
pub fn answered<'a>(claim: &Claim, answer: Answer, promised: impl IntoIterator<Item = &'a Pod>) -> Step {
    match answer {
        Answer::Launched(machine) => {
            let id = machine.provider_id.clone();
            Step::of([
                Effect::RecordLaunch(Box::new(merged(claim, *machine))),
                Effect::Milestone(Milestone::Launched(id)),
            ])
            .and_condition(Change::holds(ConditionType::Launched))
        }
        // No retry: the pods are planned for again, without the offerings that the provider has just found empty.
        Answer::NoCapacity { message } => {
            let events = no_capacity(claim, &truncated(&message), promised).into_iter().map(Effect::Event);
            Step::of(events.chain([Effect::DeleteClaim(DeletionCause::InsufficientCapacity)]))
        }
        // No retry: this claim cannot leave its class, and a new plan leaves out pools whose class is not ready.
        Answer::NodeClassNotReady { .. } => Step::of([Effect::DeleteClaim(DeletionCause::NodeClassNotReady)]),
        Answer::Failed { reason: Some(reason), message } => Step::idle()
            .and_condition(Change::unknown(ConditionType::Launched, &reason, message))
            .and_wake(Wake::Backoff),
        Answer::Failed { reason: None, message } => Step::idle()
            .and_condition(Change::unknown(
                ConditionType::Launched,
                reason::LAUNCH_FAILED,
                truncated(&message),
            ))
            .and_wake(Wake::Backoff),
    }
}

/// Returns the events about a claim that was refused for lack of capacity, and about each pod that still waits for it. None
/// for a pod of a capacity buffer, which exists nowhere an event could be read.
fn no_capacity<'a>(claim: &Claim, error: &str, promised: impl IntoIterator<Item = &'a Pod>) -> Vec<Event> {
    let name = &claim.name;
    let own = format!("NodeClaim {name} event: {error}");
    let mut events = vec![Event::new(About::Claim(name.clone()), reason::INSUFFICIENT_CAPACITY, own)];
    let waits = |pod: &&Pod| pod.is_active() && pod.node_name.is_none() && !pod.is_virtual();
    events.extend(promised.into_iter().filter(waits).map(|pod| {
        let message = format!("NodeClaim {name} nominated for this pod failed to launch: {error}");
        Event::new(About::Pod(PodRef::of(pod)), reason::INSUFFICIENT_CAPACITY, message)
    }));
    events
}

/// Labels: the claim's own win. Annotations: the provider's win.
fn merged(claim: &Claim, mut launched: Launched) -> Launched {
    launched.labels.extend(claim.labels.clone());
    let annotations = claim.annotations.clone().into_iter().chain(launched.annotations).collect();
    Launched { annotations, ..launched }
}

/// The first [`MESSAGE_MAX`] bytes, cut between characters, with `...` when something was cut.
pub fn truncated(message: &str) -> String {
    if message.len() <= MESSAGE_MAX {
        return message.to_owned();
    }
    format!("{}...", &message[..message.floor_char_boundary(MESSAGE_MAX)])
}

#[cfg(test)]
mod tests {
    use karpenter_model::names::label;
    use karpenter_model::{Annotations, BufferKey, ConditionStatus, Labels, PodKey, PodPhase, Resources};

    use super::*;
    use crate::fixture::{at, claim, holding, with_condition};

    fn failed(reason: Option<&str>, message: &str) -> Step {
        let reason = reason.map(ToOwned::to_owned);
        answered(&claim(), Answer::Failed { reason, message: message.to_owned() }, [])
    }

    #[test]
    fn asks_only_while_undecided() {
        let launch = Step::of([Effect::Launch]);
        assert_eq!(step(&claim()), launch);
        let unknown = with_condition(claim(), ConditionType::Launched, ConditionStatus::Unknown, 0);
        assert_eq!(step(&unknown), launch);
        let launched = holding(claim(), &[ConditionType::Launched]);
        assert_eq!(step(&launched), Step::idle().and_condition(Change::holds(ConditionType::Launched)));
    }

    #[test]
    fn claim_labels_win_and_provider_annotations_win() {
        let mut claim = claim();
        claim.labels.insert("zone".into(), "claim".into());
        claim.annotations.insert("a".to_owned(), "claim".to_owned());
        let machine = Launched {
            provider_id: "cloud:///i-1".into(),
            image_id: None,
            labels: Labels::from([("zone".into(), "cloud".into()), ("type".into(), "small".into())]),
            annotations: Annotations::from([("a".to_owned(), "cloud".to_owned())]),
            capacity: Resources::new(),
            allocatable: Resources::new(),
        };
        let step = answered(&claim, Answer::Launched(Box::new(machine)), []);
        let [Effect::RecordLaunch(record), Effect::Milestone(Milestone::Launched(_))] = &step.effects[..]
        else {
            panic!("{step:?}");
        };
        let labels: Vec<_> =
            record.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(labels, [(label::NODE_POOL, "web"), ("type", "small"), ("zone", "claim")]);
        assert_eq!(record.annotations["a"], "cloud");
        assert_eq!(step.conditions, [Change::holds(ConditionType::Launched)]);
    }

    #[test]
    fn no_capacity_is_told_and_ends_the_claim() {
        let step = answered(&claim(), Answer::NoCapacity { message: "none left".to_owned() }, []);
        let [Effect::Event(event), Effect::DeleteClaim(cause)] = &step.effects[..] else {
            panic!("{step:?}")
        };
        assert_eq!(event.reason, "InsufficientCapacityError");
        assert_eq!(cause.label(), Some("insufficient_capacity"));
        assert_eq!(step.wake, Wake::OnEvent, "nothing is retried");
    }

    #[test]
    fn no_capacity_is_told_to_each_pod_that_waits_for_the_claim() {
        let pod = |name: &str, change: fn(&mut Pod)| {
            Pod::pending(PodKey::new("ns", name), name, at(0)).with(change)
        };
        let promised = [
            pod("first", |_| ()),
            pod("second", |_| ()),
            pod("bound", |pod| pod.node_name = Some("node".into())),
            pod("done", |pod| pod.phase = PodPhase::Succeeded),
            pod("going", |pod| pod.deletion = Some(at(1))),
            pod("room", |pod| pod.buffer = Some(BufferKey::new("ns", "spare").into())),
        ];
        let long = "x".repeat(400);
        let told = |answer| {
            let step = answered(&claim(), answer, &promised);
            let events = step.effects.into_iter().filter_map(|effect| match effect {
                Effect::Event(Event { about: About::Pod(pod), reason, message, .. }) => {
                    Some((pod.key.name.to_string(), reason, message))
                }
                _ => None,
            });
            events.collect::<Vec<_>>()
        };
        let said = format!(
            "NodeClaim {} nominated for this pod failed to launch: {}...",
            claim().name,
            "x".repeat(300)
        );
        let event = |pod: &str| (pod.to_owned(), "InsufficientCapacityError", said.clone());
        assert_eq!(told(Answer::NoCapacity { message: long.clone() }), [event("first"), event("second")]);
        assert_eq!(told(Answer::NodeClassNotReady { message: long.clone() }), []);
        assert_eq!(told(Answer::Failed { reason: None, message: long }), []);
    }

    #[test]
    fn an_unready_class_ends_the_claim_without_event() {
        let step = answered(&claim(), Answer::NodeClassNotReady { message: "x".to_owned() }, []);
        assert_eq!(step, Step::of([Effect::DeleteClaim(DeletionCause::NodeClassNotReady)]));
    }

    #[test]
    fn a_reason_of_the_provider_is_shown_verbatim_and_other_errors_are_cut() {
        let long = "x".repeat(400);
        let verdict = |step: Step| step.conditions[0].to.clone().expect("a verdict");
        let own = failed(Some("SubnetResolutionFailed"), &long);
        assert_eq!(own.wake, Wake::Backoff);
        assert_eq!(verdict(own).message, long);
        let other = verdict(failed(None, &long));
        assert_eq!((other.reason.as_str(), other.status), (reason::LAUNCH_FAILED, ConditionStatus::Unknown));
        assert_eq!(other.message, format!("{}...", "x".repeat(300)));
    }

    #[test]
    fn truncation_keeps_characters_whole() {
        assert_eq!(truncated(&"x".repeat(300)), "x".repeat(300));
        let wide = "é".repeat(200);
        assert_eq!(truncated(&format!("x{wide}")), format!("x{}...", "é".repeat(149)));
    }
}
