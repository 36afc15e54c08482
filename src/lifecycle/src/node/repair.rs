//! Legacy repair: a node that has shown a bad condition for too long is given up (spec disruption 4.2).
//!
//! Runs only where it is asked for; otherwise repair is a method of disruption. Nothing protects such a node: its deadline is now. What protects the others is the breaker: when more than a
//! fifth of a pool looks broken, the cause is probably not the machines.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::{annotation, reason};
use karpenter_model::repair::{BREAKER_PERCENT, NEVER, RepairAction, RepairPolicy, broken_max};
use karpenter_model::{Claim, NodeObject};

use crate::step::{About, DeletionCause, Effect, Event, Milestone, Step, Wake, whole_seconds};

/// Delay of the next look when the breaker is open.
pub(crate) const BREAKER_POLL: Duration = Duration::from_mins(5);

/// Returns whether the peers of a node have to be counted: it has been broken for too long.
pub fn asks_peers(node: &NodeObject, policies: &[RepairPolicy], now: Timestamp) -> bool {
    exhausted(node, policies).is_some_and(|(at, _)| at <= now)
}

/// Gives up the one claim of a broken node. `peers` are all nodes of its pool, itself included; all nodes of the
/// cluster for a claim without pool. They are looked at only if [`asks_peers`].
pub fn step(
    claim: &Claim,
    node: &NodeObject,
    peers: &[&NodeObject],
    policies: &[RepairPolicy],
    now: Timestamp,
) -> Step {
    let Some((at, condition)) = exhausted(node, policies) else { return Step::idle() };
    if now < at {
        return Step::idle().and_wake(Wake::After(since(now, at)));
    }
    // A peer counts as soon as it shows a condition, whatever the policy tolerates (spec disruption 4.2).
    let broken = peers.iter().filter(|peer| exhausted(peer, policies).is_some()).count();
    if broken > broken_max(peers.len()) {
        return blocked(claim, node, broken, peers.len()).and_wake(Wake::After(BREAKER_POLL));
    }
    // A claim that is being deleted gets the deadline all the same: its drain may be waiting without one.
    let deletion = claim.deletion.is_none().then(|| {
        let told = Milestone::Unhealthy { node: node.name.clone(), condition: condition.to_owned() };
        [Effect::DeleteClaim(DeletionCause::Unhealthy), Effect::Milestone(told)]
    });
    // The deadline first: a crash between the two writes must not leave a drain without an end.
    Step::of(deadline(claim, now).into_iter().chain(deletion.into_iter().flatten()))
}

/// Returns a step of events for node, claim and pool: too much is broken for a repair.
fn blocked(claim: &Claim, node: &NodeObject, broken: usize, of: usize) -> Step {
    let place = if claim.pool.is_some() { "nodepool" } else { "cluster" };
    let message =
        format!("more than {BREAKER_PERCENT}% nodes are unhealthy in the {place} ({broken} of {of} nodes)");
    let about = [Some(About::Node(node.name.clone())), Some(About::Claim(claim.name.clone()))];
    let about = about.into_iter().chain([claim.pool.clone().map(About::Pool)]).flatten();
    Step::of(
        about.map(|about| Effect::Event(Event::new(about, reason::NODE_REPAIR_BLOCKED, message.clone()))),
    )
}

/// Returns the end of the patience with a node, and the condition it ends for; of several the first that ends.
fn exhausted<'a>(node: &NodeObject, policies: &'a [RepairPolicy]) -> Option<(Timestamp, &'a str)> {
    let ends = |policy: &'a RepairPolicy| Some((patience_ends(node, policy)?, policy.condition.as_str()));
    policies.iter().filter_map(ends).min()
}

/// Returns the instant at which the node will have shown the policy's bad status for too long; `None` while it does not
/// show it, or the policy asks for anything but a replacement.
fn patience_ends(node: &NodeObject, policy: &RepairPolicy) -> Option<Timestamp> {
    let condition = node.conditions.get(&policy.condition)?;
    let is_meant = policy.action == RepairAction::Replace
        && policy.toleration != NEVER
        && condition.status == policy.status
        && policy.reason.as_ref().is_none_or(|pattern| pattern.is_in(&condition.reason));
    is_meant.then(|| condition.last_transition + policy.toleration)
}

/// The deadline is now; only one that has passed already stays.
fn deadline(claim: &Claim, now: Timestamp) -> Option<Effect> {
    let key = annotation::TERMINATION_TIMESTAMP;
    let set: Option<Timestamp> = claim.annotations.get(key).and_then(|text| text.parse().ok());
    if set.is_some_and(|set| set < now) {
        return None;
    }
    Some(Effect::annotate_claim(key, whole_seconds(now)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_model::repair::ReasonPattern;
    use karpenter_model::{ConditionStatus, NodeCondition};

    use super::*;
    use crate::fixture::{at, claim, node};

    fn policy(condition: &str, minutes: u64) -> RepairPolicy {
        RepairPolicy {
            condition: condition.to_owned(),
            status: ConditionStatus::False,
            reason: None,
            toleration: Duration::from_mins(minutes),
            termination_grace: None,
            priority: 0,
            action: RepairAction::Replace,
        }
    }

    fn with(node: NodeObject, condition: &str, status: ConditionStatus, since: i64) -> NodeObject {
        let mut node = node;
        let known = NodeCondition { status, reason: "XID48".to_owned(), last_transition: at(since) };
        Arc::make_mut(&mut node.conditions).insert(condition.to_owned(), known);
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
        let late = step(&claim(), &node, &[&node], &policies, at(1200));
        assert!(deletes(&late));
        let told = Milestone::Unhealthy { node: "node-1".into(), condition: "Gpu".to_owned() };
        assert!(late.effects.contains(&Effect::Milestone(told)), "{late:?}");
        assert!(!asks_peers(&node, &policies, at(1199)) && asks_peers(&node, &policies, at(1200)));
    }

    #[test]
    fn policies_for_other_reasons_or_for_a_reboot_do_not_count() {
        let node = sick(0);
        let listed =
            |text| RepairPolicy { reason: Some(ReasonPattern::new(text).unwrap()), ..policy("Ready", 10) };
        let ends = |policy: &RepairPolicy| exhausted(&node, std::slice::from_ref(policy)).map(|(at, _)| at);
        assert_eq!(ends(&listed("XID(46|48)")), Some(at(600)));
        assert_eq!(ends(&listed("XID74")), None);
        assert_eq!(ends(&RepairPolicy { action: RepairAction::Reboot, ..policy("Ready", 10) }), None);
    }

    #[test]
    fn node_claim_and_pool_are_told_that_the_breaker_is_open() {
        let node = sick(0);
        let run = |claim: &Claim| step(claim, &node, &[&node, &node], &[policy("Ready", 30)], at(1800));
        let told = |step: &Step| -> Vec<About> {
            let events = step.effects.iter().filter_map(|effect| match effect {
                Effect::Event(event) if event.reason == "NodeRepairBlocked" => Some(event.about.clone()),
                _ => None,
            });
            events.collect()
        };
        let about = [About::Node("node-1".into()), About::Claim("web-1".into()), About::Pool("web".into())];
        assert_eq!(told(&run(&claim())), about);
        assert_eq!(told(&run(&Claim { pool: None, ..claim() })), about[..2]);
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
                claim.annotations.insert(annotation::TERMINATION_TIMESTAMP.to_owned(), text.to_owned());
            }
            let node = sick(0);
            step(&claim, &node, &[&node], &[policy("Ready", 30)], at(1800)).effects
        };
        let rewritten = |effects: &[Effect]| matches!(effects[0], Effect::AnnotateClaim(_));
        assert!(rewritten(&run(None)));
        assert!(rewritten(&run(Some(&at(9999).to_string()))), "a future one is overwritten");
        assert!(rewritten(&run(Some("soon"))), "an unreadable one too");
        assert_eq!(run(Some(&at(10).to_string()))[0], Effect::DeleteClaim(DeletionCause::Unhealthy));
    }

    #[test]
    fn a_claim_being_deleted_only_gets_its_deadline() {
        let node = sick(0);
        let deleting = Claim { deletion: Some(at(1)), ..claim() };
        let step = step(&deleting, &node, &[&node], &[policy("Ready", 30)], at(1800));
        assert!(matches!(&step.effects[..], [Effect::AnnotateClaim(_)]), "{step:?}");
    }
}
