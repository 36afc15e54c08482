//! Repair: a node that has shown a bad condition for too long is given up (spec core-disruption 4.2).
//!
//! Nothing protects such a node: its deadline is now. What protects the others is the breaker: when more than a
//! fifth of a pool looks broken, the cause is probably not the machines.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::{Annotations, Claim, ConditionStatus, NodeObject, label};

use crate::elapsed::since;
use crate::step::{About, DeletionCause, Effect, Event, Step, Wake};

/// How soon to look again when the breaker is open.
pub const BREAKER_POLL: Duration = Duration::from_mins(5);
/// Largest share of nodes, in percent and rounded up, that may look broken for repairs to go on.
const BREAKER_PERCENT: usize = 20;

/// A condition that justifies a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Type of the node condition.
    pub condition: String,
    /// Its bad status.
    pub status: ConditionStatus,
    /// How long the status is tolerated, from its transition.
    pub toleration: Duration,
}

/// Gives up the one claim of a broken node. `peers` are all nodes of its pool, itself included; all nodes of the
/// cluster for a claim without pool.
pub fn step(
    claim: &Claim,
    node: &NodeObject,
    peers: &[&NodeObject],
    policies: &[Policy],
    now: Timestamp,
) -> Step {
    let Some(at) = policies.iter().filter_map(|policy| patience_ends(node, policy)).min() else {
        return Step::idle();
    };
    if now < at {
        return Step::idle().and_wake(Wake::After(since(now, at)));
    }
    let broken = peers
        .iter()
        .filter(|peer| policies.iter().any(|policy| patience_ends(peer, policy).is_some()))
        .count();
    let most = (peers.len() * BREAKER_PERCENT).div_ceil(100);
    if broken > most {
        let event = Event::warning(
            About::Node(node.name.clone()),
            "NodeRepairBlocked",
            format!("more than {BREAKER_PERCENT}% of nodes are unhealthy ({broken} of {})", peers.len()),
        );
        return Step::of([Effect::Event(event)]).and_wake(Wake::After(BREAKER_POLL));
    }
    let deletion = claim.deletion.is_none().then_some(Effect::DeleteClaim(DeletionCause::Unhealthy));
    Step::of(deadline(claim, now).into_iter().chain(deletion))
}

/// When the node has shown the policy's bad status for too long; `None` while it does not show it.
fn patience_ends(node: &NodeObject, policy: &Policy) -> Option<Timestamp> {
    let condition = node.conditions.get(&policy.condition)?;
    (condition.status == policy.status).then(|| condition.last_transition + policy.toleration)
}

/// The deadline is now; only one that has passed already stays.
fn deadline(claim: &Claim, now: Timestamp) -> Option<Effect> {
    let key = label::TERMINATION_TIMESTAMP;
    let set: Option<Timestamp> = claim.annotations.get(key).and_then(|text| text.parse().ok());
    if set.is_some_and(|set| set < now) {
        return None;
    }
    let text = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Some(Effect::AnnotateClaim(Annotations::from([(key.to_owned(), text)])))
}

#[cfg(test)]
mod tests {
    use karpenter_model::NodeCondition;

    use super::*;
    use crate::fixture::{at, claim, node};

    fn policy(condition: &str, minutes: u64) -> Policy {
        let toleration = Duration::from_mins(minutes);
        Policy { condition: condition.to_owned(), status: ConditionStatus::False, toleration }
    }

    fn with(node: NodeObject, condition: &str, status: ConditionStatus, since: i64) -> NodeObject {
        let mut node = node;
        node.conditions.insert(condition.to_owned(), NodeCondition { status, last_transition: at(since) });
        node
    }

    fn sick(since: i64) -> NodeObject {
        with(node(), "Ready", ConditionStatus::False, since)
    }

    fn deletes(step: &Step) -> bool {
        step.effects.contains(&Effect::DeleteClaim(DeletionCause::Unhealthy))
    }

    #[test]
    fn other_types_and_statuses_are_no_reason_and_time_is_given() {
        let policies = [policy("Ready", 30)];
        let run = |node: &NodeObject, now| step(&claim(), node, &[node], &policies, at(now));
        assert_eq!(run(&node(), 9999), Step::idle());
        assert_eq!(run(&with(node(), "Ready", ConditionStatus::Unknown, 0), 9999), Step::idle());
        assert_eq!(run(&with(node(), "Disk", ConditionStatus::False, 0), 9999), Step::idle());
        assert_eq!(run(&sick(0), 1799), Step::idle().and_wake(Wake::After(Duration::from_secs(1))));
        assert!(deletes(&run(&sick(0), 1800)));
    }

    #[test]
    fn the_earliest_end_of_patience_counts() {
        let node = with(sick(0), "Gpu", ConditionStatus::False, 600);
        let policies = [policy("Ready", 30), policy("Gpu", 10)];
        assert!(!deletes(&step(&claim(), &node, &[&node], &policies, at(1199))));
        assert!(deletes(&step(&claim(), &node, &[&node], &policies, at(1200))));
    }

    #[test]
    fn a_fifth_rounded_up_may_be_broken_and_no_more() {
        // (nodes, broken among them, repaired)
        for (count, broken, repaired) in
            [(1, 1, true), (2, 2, false), (5, 1, true), (5, 2, false), (6, 2, true)]
        {
            let (bad, good) = (sick(0), node());
            let peers: Vec<&NodeObject> =
                (0..count).map(|number| if number < broken { &bad } else { &good }).collect();
            let step = step(&claim(), &bad, &peers, &[policy("Ready", 30)], at(1800));
            assert_eq!(deletes(&step), repaired, "{broken} of {count}");
            assert_eq!(step.wake == Wake::After(BREAKER_POLL), !repaired);
        }
    }

    #[test]
    fn the_deadline_becomes_now_unless_it_has_passed() {
        let run = |deadline: Option<&str>| {
            let mut claim = claim();
            if let Some(text) = deadline {
                claim.annotations.insert(label::TERMINATION_TIMESTAMP.to_owned(), text.to_owned());
            }
            let node = sick(0);
            step(&claim, &node, &[&node], &[policy("Ready", 30)], at(1800)).effects
        };
        let rewritten = |effects: &[Effect]| matches!(effects[0], Effect::AnnotateClaim(_));
        assert!(rewritten(&run(None)));
        assert!(rewritten(&run(Some(&at(9999).to_string()))), "a future one is overwritten");
        assert!(rewritten(&run(Some("soon"))), "an unreadable one too");
        assert_eq!(run(Some(&at(10).to_string())), [Effect::DeleteClaim(DeletionCause::Unhealthy)]);
    }

    #[test]
    fn a_claim_being_deleted_only_gets_its_deadline() {
        let node = sick(0);
        let deleting = Claim { deletion: Some(at(1)), ..claim() };
        let step = step(&deleting, &node, &[&node], &[policy("Ready", 30)], at(1800));
        assert!(matches!(&step.effects[..], [Effect::AnnotateClaim(_)]), "{step:?}");
    }
}
