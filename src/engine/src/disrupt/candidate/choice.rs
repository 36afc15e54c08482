//! Choice of the policy for the repair of a node. Nothing is remembered: instants come from the conditions of the Node, so a
//! process that starts again goes on counting where the last one stopped.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::{later, since};
use karpenter_model::repair::{NEVER, Repair, RepairPolicy};
use karpenter_model::{Claim, Node, NodeCondition};

/// Seconds by which a condition has to be older to outweigh one step of priority.
const STEP: u64 = 30 * 60;

/// The policy that counts among those whose time is over, and what the others of them add to it.
#[derive(Debug, Clone)]
pub(crate) struct Choice<'a> {
    policy: &'a RepairPolicy,
    condition: &'a NodeCondition,
    eligible_at: Timestamp,
    /// The shortest drain any of them allows.
    grace: Option<Duration>,
    /// Urgency: steps of priority and half hours, in seconds.
    pub(crate) score: u64,
}

/// Returns what `policies` ask for `node` at `now`, if one of its conditions has been tolerated for long enough: a replacement
/// rather than a reboot, then the highest priority, then the condition whose time was over first.
pub(crate) fn choice<'a>(node: &'a Node, policies: &'a [RepairPolicy], now: Timestamp) -> Option<Choice<'a>> {
    if node.conditions.is_empty() {
        return None;
    }
    let eligible: Vec<_> = meant(node, policies).filter(|meant| meant.eligible_at <= now).collect();
    let best = eligible.iter().max_by_key(|meant| {
        let policy = meant.policy;
        // The condition last, so that the order of the policies does not matter.
        (policy.action, policy.priority, Reverse(meant.eligible_at), Reverse(&policy.condition))
    })?;
    let priorities: BTreeSet<u8> = policies.iter().map(|policy| policy.priority).collect();
    let score = |meant: &Meant<'_>| {
        let rank = priorities.range(..meant.policy.priority).count();
        u64::try_from(rank).unwrap_or(u64::MAX).saturating_mul(STEP) + since(meant.eligible_at, now).as_secs()
    };
    Some(Choice {
        policy: best.policy,
        condition: best.condition,
        eligible_at: best.eligible_at,
        grace: eligible.iter().filter_map(|meant| meant.policy.termination_grace).min(),
        score: eligible.iter().map(score).max().unwrap_or_default(),
    })
}

/// Returns when the conditions of `node` will have been, or were, tolerated for long enough.
pub(crate) fn eligible_at<'a>(
    node: &'a Node,
    policies: &'a [RepairPolicy],
) -> impl Iterator<Item = Timestamp> + 'a {
    meant(node, policies).map(|meant| meant.eligible_at)
}

/// Returns whether `node` shows a condition that a policy is for.
pub(crate) fn is_covered(node: &Node, policies: &[RepairPolicy]) -> bool {
    meant(node, policies).next().is_some()
}

/// A policy and the condition of the node that it is for.
struct Meant<'a> {
    policy: &'a RepairPolicy,
    condition: &'a NodeCondition,
    eligible_at: Timestamp,
}

/// Policies that are for a condition of `node`: those whose pattern is found in its reason, else the one without.
fn meant<'a>(node: &'a Node, policies: &'a [RepairPolicy]) -> impl Iterator<Item = Meant<'a>> {
    let rebooted = node.claim.as_deref().and_then(Claim::rebooted_at);
    policies.iter().filter_map(move |policy| {
        let shown = node.conditions.get(&policy.condition);
        let condition = shown.filter(|shown| shown.status == policy.status)?;
        let listed = |other: &RepairPolicy| {
            (&other.condition, other.status) == (&policy.condition, policy.status)
                && other.reason.as_ref().is_some_and(|pattern| pattern.is_in(&condition.reason))
        };
        let is_for = match policy.reason {
            Some(_) => listed(policy),
            None => !policies.iter().any(listed),
        };
        // A condition may be older than the Node whose name it was written under, and outlast the reboot that was to end it.
        let from = [Some(condition.last_transition), rebooted]
            .into_iter()
            .flatten()
            .fold(node.created_at, Timestamp::max);
        (is_for && policy.toleration != NEVER).then(|| Meant {
            policy,
            condition,
            eligible_at: later(from, policy.toleration),
        })
    })
}

impl Choice<'_> {
    /// Returns its entry in a command, for the node of `claim`.
    pub(crate) fn repair(&self, claim: &Claim) -> Repair {
        Repair {
            condition: self.policy.condition.clone(),
            status: self.policy.status,
            reason: self.condition.reason.clone(),
            pattern: self.policy.reason.as_ref().map(ToString::to_string),
            action: self.policy.action,
            eligible_at: self.eligible_at,
            drain: [self.grace, claim.termination_grace_period].into_iter().flatten().min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::repair::{ReasonPattern, RepairAction};
    use karpenter_model::{ConditionStatus, NodeId};
    use std::sync::Arc;

    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    /// `condition`, a pattern if not empty, minutes of toleration and of grace, priority.
    fn policy(condition: &str, pattern: &str, after: u64, grace: u64, priority: u8) -> RepairPolicy {
        RepairPolicy {
            condition: condition.to_owned(),
            status: ConditionStatus::False,
            reason: (!pattern.is_empty()).then(|| ReasonPattern::new(pattern).unwrap()),
            toleration: Duration::from_mins(after),
            termination_grace: (grace > 0).then(|| Duration::from_mins(grace)),
            priority,
            action: RepairAction::Replace,
        }
    }

    fn reboot(policy: RepairPolicy) -> RepairPolicy {
        RepairPolicy { action: RepairAction::Reboot, ..policy }
    }

    /// A Node of minute zero with conditions that are false: type, reason, since.
    fn node(conditions: &[(&str, &str, i64)]) -> Node {
        let shown = conditions.iter().map(|(kind, reason, since)| {
            let reason = (*reason).to_owned();
            let status = ConditionStatus::False;
            ((*kind).to_owned(), NodeCondition { status, reason, last_transition: at(*since) })
        });
        Node { conditions: Arc::new(shown.collect()), ..Node::new(NodeId::from("n"), at(0)) }
    }

    /// Condition, action and grace in minutes of the repair at `minute`.
    fn chosen(
        conditions: &[(&str, &str, i64)],
        policies: &[RepairPolicy],
        minute: i64,
    ) -> Option<(String, RepairAction, Option<u64>)> {
        let node = node(conditions);
        let repair = choice(&node, policies, at(minute))?.repair(&Claim::bare("c", at(0)));
        Some((repair.condition, repair.action, repair.drain.map(|drain| drain.as_secs() / 60)))
    }

    #[test]
    fn a_condition_is_tolerated_from_its_transition_or_the_creation_of_the_node() {
        let policies = [policy("Ready", "", 30, 10, 0)];
        assert_eq!(chosen(&[("Ready", "", 5)], &policies, 34), None);
        assert!(chosen(&[("Ready", "", 5)], &policies, 35).is_some());
        assert_eq!(chosen(&[("Ready", "", -20)], &policies, 29), None, "older than the Node");
        assert!(chosen(&[("Ready", "", -20)], &policies, 30).is_some());
        assert_eq!(chosen(&[("Other", "", 0)], &policies, 99), None);
    }

    #[test]
    fn a_reason_that_no_pattern_is_for_has_the_policy_without_one() {
        let policies = [policy("Gpu", "XID(46|48)", 10, 5, 0), policy("Gpu", "", 30, 10, 0)];
        assert_eq!(chosen(&[("Gpu", "NvidiaXID48", 0)], &policies, 10).unwrap().2, Some(5));
        assert_eq!(chosen(&[("Gpu", "NvidiaXID13", 0)], &policies, 29), None);
        assert_eq!(chosen(&[("Gpu", "NvidiaXID13", 0)], &policies, 30).unwrap().2, Some(10));
        assert_eq!(chosen(&[("Gpu", "NvidiaXID48", 0)], &policies, 30).unwrap().2, Some(5), "not both");
    }

    #[test]
    fn what_is_never_repaired_is_not_covered_either() {
        let never = |pattern| RepairPolicy { toleration: NEVER, ..policy("Gpu", pattern, 0, 5, 0) };
        let policies = [never("XID13"), policy("Gpu", "", 30, 10, 0)];
        let is_covered = |reason| is_covered(&node(&[("Gpu", reason, 0)]), &policies);
        assert!(!is_covered("XID13") && is_covered("XID48"));
        assert_eq!(chosen(&[("Gpu", "XID13", 0)], &policies, 9_999), None);
        assert_eq!(chosen(&[("Gpu", "XID48", 0)], &[never("XID13"), never("")], 9_999), None);
    }

    #[test]
    fn a_condition_that_outlasts_a_reboot_is_tolerated_again_from_its_end() {
        let policies = [reboot(policy("Gpu", "XID", 10, 5, 0)), policy("Gpu", "", 30, 10, 0)];
        let rebooted = |status| {
            let condition = karpenter_model::Condition {
                status,
                reason: String::new(),
                message: String::new(),
                last_transition: at(60),
                observed_generation: 1,
            };
            let mut claim = Claim::bare("c", at(0));
            claim.conditions.insert(karpenter_model::ConditionType::Rebooting, condition);
            Node { claim: Some(Arc::new(claim)), ..node(&[("Gpu", "XID48", 0)]) }
        };
        let over = rebooted(ConditionStatus::False);
        assert!(choice(&over, &policies, at(69)).is_none() && choice(&over, &policies, at(70)).is_some());
        assert!(choice(&rebooted(ConditionStatus::True), &policies, at(69)).is_some(), "not over");
    }

    #[test]
    fn a_replacement_wins_over_a_reboot_and_the_shortest_grace_counts() {
        let policies = [
            reboot(policy("Gpu", "XID", 10, 5, 100)),
            policy("Gpu", "", 30, 10, 0),
            policy("Disk", "", 30, 20, 0),
        ];
        let both = [("Gpu", "XID48", 0), ("Disk", "", 0)];
        let told = |condition: &str, action, grace| Some((condition.to_owned(), action, Some(grace)));
        assert_eq!(chosen(&both, &policies, 29), told("Gpu", RepairAction::Reboot, 5));
        assert_eq!(chosen(&both, &policies, 30), told("Disk", RepairAction::Replace, 5));
    }

    #[test]
    fn priority_then_time_then_the_name_decide_among_equals() {
        let conditions = [("A", "", 1), ("B", "", 0), ("C", "", 0)];
        let of = |policies: [RepairPolicy; 3]| chosen(&conditions, &policies, 99).unwrap().0;
        assert_eq!(
            of([policy("A", "", 30, 0, 1), policy("B", "", 30, 0, 0), policy("C", "", 30, 0, 0)]),
            "A"
        );
        assert_eq!(
            of([policy("A", "", 30, 0, 0), policy("B", "", 30, 0, 0), policy("C", "", 29, 0, 0)]),
            "C"
        );
        assert_eq!(
            of([policy("A", "", 30, 0, 0), policy("C", "", 30, 0, 0), policy("B", "", 30, 0, 0)]),
            "B"
        );
    }

    #[test]
    fn the_drain_is_bound_by_the_policy_or_the_claim_whichever_is_less() {
        let minutes = |minutes: u64| (minutes > 0).then(|| Duration::from_mins(minutes));
        for (policy_grace, own, bound) in [(10, 0, 10), (10, 5, 5), (10, 20, 10), (0, 5, 5), (0, 0, 0)] {
            let policies = [policy("Ready", "", 30, policy_grace, 0)];
            let node = node(&[("Ready", "", 0)]);
            let claim = Claim { termination_grace_period: minutes(own), ..Claim::bare("c", at(0)) };
            let repair = choice(&node, &policies, at(30)).unwrap().repair(&claim);
            assert_eq!(repair.drain, minutes(bound), "{policy_grace} and {own}");
        }
    }

    #[test]
    fn half_an_hour_outweighs_one_step_of_priority_however_far_apart_the_numbers_are() {
        let policies = [policy("A", "", 30, 0, 0), policy("B", "", 30, 0, 7), policy("C", "", 30, 0, 90)];
        let score = |kind: &str, since: i64, now| {
            let node = node(&[(kind, "", since)]);
            choice(&node, &policies, at(now)).unwrap().score
        };
        assert_eq!(score("A", 0, 30), 0);
        assert_eq!(score("B", 0, 30), 1800);
        assert_eq!(score("C", 0, 30), 3600);
        assert_eq!(score("A", 0, 90), score("C", 60, 90));
        assert!(score("A", 0, 91) > score("C", 60, 90));
    }
}
