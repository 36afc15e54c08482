//! Interruption: what a notice of the cloud means for one claim (spec aws-provider 14).
//!
//! A claim whose machine goes is deleted, which drains it in the time that is left; protections of pods hold until the
//! machine is gone. Only a machine that has failed is given up at once: its deadline is now, also where the drain has
//! begun already. Notices come more than once and late; a claim that is being deleted is not deleted again.

use jiff::Timestamp;
use karpenter_model::names::{annotation, reason};
use karpenter_model::{
    CapacityType, Claim, ConditionType, InstanceTypeName, LabelRegistry, NodeName, NoticeKind, ReservationId,
    Zone,
};

use crate::step::{About, DeletionCause, Effect, Event, Step, whole_seconds};

/// Consequences of a notice.
#[derive(Debug, Clone, PartialEq)]
pub struct Reaction {
    /// Capacity that the provider has to mark as used up before anything else happens, so that the replacement is sought
    /// elsewhere.
    pub exhausted: Option<Exhausted>,
    /// Step of the claim.
    pub step: Step,
}

/// Capacity that a notice reports used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exhausted {
    /// One type in one zone, bought in one way.
    Offering {
        instance_type: InstanceTypeName,
        zone: Zone,
        capacity_type: CapacityType,
    },
    Reservation(ReservationId),
}

/// Reacts to a notice about the machine of a claim. `node` is its Node, if it has joined. `on_rebalance` remembers
/// recommendations, so that drift replaces the machine ([`crate::claim::drift`]).
pub fn react(
    kind: NoticeKind,
    claim: &Claim,
    node: Option<&NodeName>,
    registry: &LabelRegistry,
    on_rebalance: bool,
    now: Timestamp,
) -> Reaction {
    if is_our_doing(kind, claim) {
        return Reaction { exhausted: None, step: Step::idle() };
    }
    let (reason, message) = notice_event(kind);
    let mut effects = pair(claim, node, reason, message, message);
    // Before the deletion: a crash between the two writes must not leave a drain without an end.
    effects.extend(deadline(kind, claim, now));
    effects.extend(on_rebalance.then(|| recommendation(kind, claim, now)).flatten());
    if gives_up(kind) && claim.deletion.is_none() {
        effects.extend(pair(
            claim,
            node,
            reason::TERMINATING_ON_INTERRUPTION,
            "Interruption triggered termination for the NodeClaim",
            "Interruption triggered termination for the Node",
        ));
        effects.push(Effect::DeleteClaim(DeletionCause::Interrupted(kind)));
    }
    Reaction { exhausted: exhausted(kind, claim, registry), step: Step::of(effects) }
}

/// Returns whether the notice says no more than that a machine ends whose termination was requested here.
fn is_our_doing(kind: NoticeKind, claim: &Claim) -> bool {
    kind == NoticeKind::InstanceTerminated && claim.is_true(ConditionType::InstanceTerminating)
}

/// A rebalance recommendation ends nothing: most such machines live on.
fn gives_up(kind: NoticeKind) -> bool {
    kind != NoticeKind::RebalanceRecommendation
}

/// A machine that has failed runs nothing that a drain could wait for: its pods are not ready, so their budgets would
/// hold it for ever. A deadline that is set already stays.
fn deadline(kind: NoticeKind, claim: &Claim, now: Timestamp) -> Option<Effect> {
    let failed = matches!(kind, NoticeKind::InstanceStatus | NoticeKind::SystemStatus);
    let key = annotation::TERMINATION_TIMESTAMP;
    let ends = claim.is_true(ConditionType::InstanceTerminating);
    if !failed || ends || claim.annotations.contains_key(key) {
        return None;
    }
    Some(Effect::annotate_claim(key, whole_seconds(now)))
}

/// The first recommendation to move off a machine that is to stay; drift reads it.
fn recommendation(kind: NoticeKind, claim: &Claim, now: Timestamp) -> Option<Effect> {
    let key = annotation::REBALANCE_RECOMMENDED;
    let is_news = claim.deletion.is_none() && !claim.annotations.contains_key(key);
    (kind == NoticeKind::RebalanceRecommendation && is_news)
        .then(|| Effect::annotate_claim(key, whole_seconds(now)))
}

/// Returns what is used up. Only a notice that the cloud takes capacity back means that there is none.
fn exhausted(kind: NoticeKind, claim: &Claim, registry: &LabelRegistry) -> Option<Exhausted> {
    match kind {
        NoticeKind::SpotInterrupted => Some(Exhausted::Offering {
            instance_type: claim.instance_type()?,
            zone: claim.zone()?,
            capacity_type: CapacityType::Spot,
        }),
        NoticeKind::CapacityReservationInterrupted => {
            let id = claim.labels.get(registry.reservation_id.as_ref()?)?;
            Some(Exhausted::Reservation(id.as_str().into()))
        }
        NoticeKind::ScheduledChange
        | NoticeKind::InstanceStopped
        | NoticeKind::InstanceTerminated
        | NoticeKind::RebalanceRecommendation
        | NoticeKind::InstanceStatus
        | NoticeKind::SystemStatus
        | NoticeKind::EventStatus => None,
    }
}

/// Reason and text of the event about a notice.
fn notice_event(kind: NoticeKind) -> (&'static str, &'static str) {
    match kind {
        NoticeKind::SpotInterrupted => (reason::SPOT_INTERRUPTED, "Spot interruption warning was triggered"),
        NoticeKind::CapacityReservationInterrupted => (
            reason::CAPACITY_RESERVATION_INTERRUPTED,
            "Capacity Reservation Instance interruption warning was triggered",
        ),
        NoticeKind::RebalanceRecommendation => {
            (reason::SPOT_REBALANCE, "Spot rebalance recommendation was triggered")
        }
        NoticeKind::InstanceStopped => (reason::INSTANCE_STOPPING, "Instance is stopping"),
        NoticeKind::InstanceTerminated => (reason::INSTANCE_TERMINATING, "Instance is terminating"),
        NoticeKind::ScheduledChange
        | NoticeKind::InstanceStatus
        | NoticeKind::SystemStatus
        | NoticeKind::EventStatus => {
            (reason::INSTANCE_UNHEALTHY, "An unhealthy warning was triggered for the instance")
        }
    }
}

/// One event on the claim and one on the Node, each with its text.
fn pair(
    claim: &Claim,
    node: Option<&NodeName>,
    reason: &'static str,
    of_claim: &str,
    of_node: &str,
) -> Vec<Effect> {
    let event = |about, message: &str| Effect::Event(Event::new(about, reason, message));
    let claim = event(About::Claim(claim.name.clone()), of_claim);
    let node = node.map(|node| event(About::Node(node.clone()), of_node));
    [claim].into_iter().chain(node).collect()
}

#[cfg(test)]
mod tests {
    use karpenter_model::names::label;

    use super::*;
    use crate::fixture::{at, claim, holding};

    fn spot() -> Claim {
        let mut claim = claim();
        for (key, value) in [
            (label::INSTANCE_TYPE, "m5.large"),
            (label::ZONE, "a"),
            (label::CAPACITY_TYPE, "spot"),
            ("cloud/reservation", "cr-1"),
        ] {
            claim.labels.insert(key.into(), value.into());
        }
        claim
    }

    fn registry() -> LabelRegistry {
        LabelRegistry { reservation_id: Some("cloud/reservation".into()), ..LabelRegistry::core() }
    }

    fn run(kind: NoticeKind, claim: &Claim) -> Reaction {
        react(kind, claim, Some(&"node-1".into()), &registry(), false, at(100))
    }

    fn reasons(step: &Step) -> Vec<&'static str> {
        let told = step.effects.iter().filter_map(|effect| match effect {
            Effect::Event(event) => Some(event.reason),
            _ => None,
        });
        told.collect()
    }

    #[test]
    fn each_kind_has_its_event_and_all_but_one_end_the_claim() {
        use NoticeKind as Kind;
        // (kind, event, ends the claim, at once)
        let table = [
            (Kind::SpotInterrupted, "SpotInterrupted", true, false),
            (Kind::CapacityReservationInterrupted, "CapacityReservationInstanceInterrupted", true, false),
            (Kind::ScheduledChange, "InstanceUnhealthy", true, false),
            (Kind::InstanceStopped, "InstanceStopping", true, false),
            (Kind::InstanceTerminated, "InstanceTerminating", true, false),
            (Kind::RebalanceRecommendation, "SpotRebalanceRecommendation", false, false),
            (Kind::InstanceStatus, "InstanceUnhealthy", true, true),
            (Kind::SystemStatus, "InstanceUnhealthy", true, true),
            (Kind::EventStatus, "InstanceUnhealthy", true, false),
        ];
        assert_eq!(table.map(|row| row.0), Kind::ALL);
        for (kind, event, ends, at_once) in table {
            let step = run(kind, &spot()).step;
            let mut expected = vec![event; 2];
            if ends {
                expected.extend(["TerminatingOnInterruption"; 2]);
            }
            assert_eq!(reasons(&step), expected, "{kind}: claim and Node each");
            let deletion = Effect::DeleteClaim(DeletionCause::Interrupted(kind));
            assert_eq!(step.effects.last() == Some(&deletion), ends, "{kind}");
            let deadline = step.effects.iter().any(|effect| matches!(effect, Effect::AnnotateClaim(_)));
            assert_eq!(deadline, at_once, "{kind}");
            assert_eq!(DeletionCause::Interrupted(kind).label(), Some(kind.as_str()));
        }
    }

    #[test]
    fn the_first_recommendation_is_remembered_where_that_is_asked_for() {
        let key = annotation::REBALANCE_RECOMMENDED;
        let noted = |kind, claim: &Claim| {
            let step = react(kind, claim, None, &registry(), true, at(100)).step;
            let mut annotations = step.effects.into_iter().filter_map(|effect| match effect {
                Effect::AnnotateClaim(annotations) => annotations.get(key).cloned(),
                _ => None,
            });
            annotations.next()
        };
        for kind in NoticeKind::ALL {
            let expected = (kind == NoticeKind::RebalanceRecommendation).then(|| at(100).to_string());
            assert_eq!(noted(kind, &spot()), expected, "{kind}");
        }
        let recommendation = NoticeKind::RebalanceRecommendation;
        let mut known = spot();
        known.annotations.insert(key.to_owned(), at(1).to_string());
        assert_eq!(noted(recommendation, &known), None, "the first one counts");
        assert_eq!(
            noted(recommendation, &Claim { deletion: Some(at(1)), ..spot() }),
            None,
            "it goes already"
        );
    }

    #[test]
    fn only_capacity_taken_back_is_used_up() {
        let offering = Exhausted::Offering {
            instance_type: "m5.large".into(),
            zone: "a".into(),
            capacity_type: CapacityType::Spot,
        };
        for kind in NoticeKind::ALL {
            let expected = match kind {
                NoticeKind::SpotInterrupted => Some(offering.clone()),
                NoticeKind::CapacityReservationInterrupted => Some(Exhausted::Reservation("cr-1".into())),
                _ => None,
            };
            assert_eq!(run(kind, &spot()).exhausted, expected, "{kind}");
            assert_eq!(run(kind, &claim()).exhausted, None, "{kind}: the labels do not say what it is");
        }
    }

    #[test]
    fn a_claim_that_goes_already_is_not_deleted_again() {
        let deleting = Claim { deletion: Some(at(1)), ..spot() };
        for kind in NoticeKind::ALL {
            let reaction = run(kind, &deleting);
            let deleted = reaction.step.effects.iter().any(|effect| matches!(effect, Effect::DeleteClaim(_)));
            assert!(!deleted && reasons(&reaction.step).len() == 2, "{kind}: {:?}", reaction.step);
        }
        assert!(
            run(NoticeKind::SpotInterrupted, &deleting).exhausted.is_some(),
            "the offering is gone all the same"
        );
    }

    #[test]
    fn a_drain_on_a_machine_that_fails_ends_now() {
        let draining = Claim { deletion: Some(at(1)), ..spot() };
        for kind in NoticeKind::ALL {
            let deadlines = run(kind, &draining).step.effects.into_iter().filter_map(|effect| match effect {
                Effect::AnnotateClaim(annotations) => {
                    annotations.get(annotation::TERMINATION_TIMESTAMP).cloned()
                }
                _ => None,
            });
            let failed = matches!(kind, NoticeKind::InstanceStatus | NoticeKind::SystemStatus);
            let expected = failed.then(|| at(100).to_string());
            assert_eq!(deadlines.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>(), "{kind}");
        }
        let ours = holding(draining, &[ConditionType::InstanceTerminating]);
        let told = run(NoticeKind::SystemStatus, &ours).step;
        assert!(told.effects.iter().all(|effect| matches!(effect, Effect::Event(_))), "{told:?}: it ends");
    }

    #[test]
    fn the_end_of_a_machine_we_have_terminated_is_no_interruption() {
        let ours = holding(Claim { deletion: Some(at(1)), ..spot() }, &[ConditionType::InstanceTerminating]);
        for kind in NoticeKind::ALL {
            let silent = run(kind, &ours).step == Step::idle();
            assert_eq!(silent, kind == NoticeKind::InstanceTerminated, "{kind}");
        }
        let draining = Claim { deletion: Some(at(1)), ..spot() };
        let told = reasons(&run(NoticeKind::InstanceTerminated, &draining).step);
        assert_eq!(told, ["InstanceTerminating"; 2], "another client has ended it under its pods");
    }

    #[test]
    fn a_deadline_somebody_has_set_stays() {
        let mut claim = spot();
        claim.annotations.insert(annotation::TERMINATION_TIMESTAMP.to_owned(), at(9999).to_string());
        let step = run(NoticeKind::SystemStatus, &claim).step;
        assert!(!step.effects.iter().any(|effect| matches!(effect, Effect::AnnotateClaim(_))), "{step:?}");
    }

    #[test]
    fn without_a_node_only_the_claim_is_told() {
        let reaction = react(NoticeKind::InstanceStopped, &spot(), None, &registry(), false, at(0));
        assert_eq!(reasons(&reaction.step), ["InstanceStopping", "TerminatingOnInterruption"]);
    }
}
