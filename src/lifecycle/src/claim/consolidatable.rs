//! The `Consolidatable` condition: a node has been quiet for its pool's `consolidateAfter` (spec disruption 1.12). Only
//! for dynamic pools; without a pool nothing is decided.

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{Claim, ConditionType, Pool};

use crate::step::{Change, Step, Wake};

/// Sets or removes the condition, and wakes when the window ends.
pub fn step(claim: &Claim, pool: Option<&Pool>, now: Timestamp) -> Step {
    let kind = ConditionType::Consolidatable;
    let Some(pool) = pool.filter(|pool| pool.replicas.is_none()) else { return Step::idle() };
    if claim.deletion.is_some() {
        return Step::idle();
    }
    let removed = claim.conditions.contains_key(&kind).then(|| Change::removed(kind));
    let Some(quiet) = pool.disruption.consolidate_after else { return Step::idle().and_condition(removed) };
    // Pods come and go before the machine is complete, too.
    let Some(quiet_since) = claim.quiet_since().filter(|_| claim.is_true(ConditionType::Initialized)) else {
        return Step::idle().and_condition(removed);
    };
    let left = quiet.saturating_sub(since(quiet_since, now));
    if left.is_zero() {
        return Step::idle().and_condition(Change::holds(kind));
    }
    Step::idle().and_condition(removed).and_wake(Wake::After(left))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karpenter_model::ConditionStatus;

    use super::*;
    use crate::fixture::{at, claim, pool, with_condition};

    fn quiet_after(seconds: Option<u64>) -> Pool {
        let mut pool = pool();
        pool.disruption.consolidate_after = seconds.map(Duration::from_secs);
        pool
    }

    fn initialized(at_seconds: i64) -> Claim {
        with_condition(claim(), ConditionType::Initialized, ConditionStatus::True, at_seconds)
    }

    #[test]
    fn counts_from_the_last_pod_event_else_from_initialization() {
        let holds = Step::idle().and_condition(Change::holds(ConditionType::Consolidatable));
        let after = |seconds| Step::idle().and_wake(Wake::After(Duration::from_secs(seconds)));
        let busy = |last| Claim { last_pod_event: Some(at(last)), ..initialized(0) };
        let table = [
            (initialized(0), Some(0), 0, holds.clone()),
            (initialized(0), Some(30), 29, after(1)),
            (initialized(0), Some(30), 30, holds.clone()),
            (busy(20), Some(30), 30, after(20)),
            (busy(20), Some(30), 50, holds),
            (initialized(0), None, 1000, Step::idle()),
            (claim(), Some(0), 1000, Step::idle()),
        ];
        for (claim, seconds, now, expected) in table {
            assert_eq!(step(&claim, Some(&quiet_after(seconds)), at(now)), expected, "{seconds:?} at {now}");
        }
    }

    #[test]
    fn is_removed_when_it_no_longer_holds() {
        let set = |claim| with_condition(claim, ConditionType::Consolidatable, ConditionStatus::True, 0);
        let removed = Step::idle().and_condition(Change::removed(ConditionType::Consolidatable));
        assert_eq!(step(&set(initialized(0)), Some(&quiet_after(None)), at(9)), removed);
        assert_eq!(step(&set(claim()), Some(&quiet_after(Some(0))), at(9)), removed);
        for status in [ConditionStatus::Unknown, ConditionStatus::False] {
            let not_yet = with_condition(claim(), ConditionType::Initialized, status, 0);
            assert_eq!(step(&set(not_yet), Some(&quiet_after(Some(0))), at(9)), removed, "{status:?}");
        }
        let busy = Claim { last_pod_event: Some(at(5)), ..set(initialized(0)) };
        let expected = removed.and_wake(Wake::After(Duration::from_secs(26)));
        assert_eq!(step(&busy, Some(&quiet_after(Some(30))), at(9)), expected);
    }

    #[test]
    fn static_pools_and_claims_without_pool_are_left_alone() {
        let fixed = Pool { replicas: Some(3), ..quiet_after(Some(0)) };
        assert_eq!(step(&initialized(0), Some(&fixed), at(9)), Step::idle());
        assert_eq!(step(&initialized(0), None, at(9)), Step::idle());
    }
}
