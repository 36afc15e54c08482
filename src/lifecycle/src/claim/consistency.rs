//! Consistency of the node with what was bought (spec disruption 1.13). Only reported, never acted on.

use std::time::Duration;

use karpenter_model::names::reason;
use karpenter_model::{Claim, ConditionType, NodeObject, Quantity};

use crate::step::{About, Change, Effect, Event, Step, Wake};

/// Period between looks at one claim.
pub const PERIOD: Duration = Duration::from_mins(10);

/// The least share of an expected resource, in thousandths, that the node must have.
const LEAST_PER_MILLE: i128 = 900;

/// Compares the capacity of the one Node of a claim with the promised capacity.
pub fn step(claim: &Claim, node: &NodeObject) -> Step {
    let kind = ConditionType::ConsistentStateFound;
    if claim.provider_id.is_none() || claim.deletion.is_some() {
        return Step::idle();
    }
    // Before the initialization amounts are still being registered, by device plugins for instance.
    let issues = if claim.is_true(ConditionType::Initialized) { issues(claim, node) } else { Vec::new() };
    let change = if issues.is_empty() {
        Change::holds(kind)
    } else {
        Change::fails(kind, reason::CONSISTENCY_CHECK_FAILED, "Consistency Check Failed")
    };
    let events = issues.into_iter().map(|message| {
        let about = About::Claim(claim.name.clone());
        Effect::Event(Event::new(about, reason::FAILED_CONSISTENCY_CHECK, message.clone()).on(message))
    });
    Step::of(events).and_condition(change).and_wake(Wake::After(PERIOD))
}

/// One sentence per requested resource of which the node has less than 90% of what was promised.
fn issues(claim: &Claim, node: &NodeObject) -> Vec<String> {
    let mut issues = Vec::new();
    for (name, requested) in claim.requests.iter() {
        let expected = claim.capacity.amount(name.as_str());
        let found = node.capacity.amount(name.as_str());
        // Only what was asked for counts (spec disruption 1.13); a share of nothing cannot be computed.
        if requested.is_zero() || expected <= Quantity::ZERO {
            continue;
        }
        let per_mille = found.nanos().saturating_mul(1000) / expected.nanos();
        if per_mille < LEAST_PER_MILLE {
            issues.push(format!(
                "expected {expected} of resource {name}, but found {found} ({}.{}% of expected)",
                per_mille / 10,
                per_mille % 10
            ));
        }
    }
    issues
}

#[cfg(test)]
mod tests {
    use karpenter_model::{ConditionStatus, Resources};

    use super::*;
    use crate::fixture::{claim, node, with_condition};

    fn cpu(units: i64) -> Resources {
        Resources::new().with("cpu", Quantity::from_units(units))
    }

    fn sized(promised: i64) -> Claim {
        let claim = Claim { requests: cpu(1), capacity: cpu(promised), ..claim() };
        with_condition(claim, ConditionType::Initialized, ConditionStatus::True, 0)
    }

    #[test]
    fn a_much_smaller_node_is_told_and_a_tenth_less_is_not() {
        let small = NodeObject { capacity: cpu(8), ..node() };
        let step = step(&sized(16), &small);
        let told = "expected 16 of resource cpu, but found 8 (50.0% of expected)";
        assert!(
            matches!(&step.effects[..], [Effect::Event(event)] if event.message == told
                && event.reason == "FailedConsistencyCheck"),
            "{step:?}"
        );
        let failed = step.conditions[0].to.as_ref().expect("a verdict");
        assert_eq!(
            (failed.status, failed.reason.as_str()),
            (ConditionStatus::False, "ConsistencyCheckFailed")
        );
        let nearly = NodeObject { capacity: cpu(9), ..node() };
        assert_eq!(super::step(&sized(10), &nearly).effects, []);
    }

    #[test]
    fn before_initialization_everything_is_consistent() {
        let early = Claim { conditions: std::collections::BTreeMap::new(), ..sized(16) };
        let step = step(&early, &NodeObject { capacity: cpu(1), ..node() });
        assert_eq!(step.conditions, [Change::holds(ConditionType::ConsistentStateFound)]);
    }
}
