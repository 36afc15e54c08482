//! Registration health of a pool: do its machines join (spec disruption 1.8)?
//!
//! The last four outcomes are kept per pool. Two failures among them are unhealthy; the divisor is always four, so
//! a single failure of a young pool is not. Informational: it never blocks scheduling.

use std::collections::VecDeque;

use karpenter_model::ConditionStatus;
use karpenter_model::names::condition;

use crate::step::{ConditionValue, RegistrationOutcome};

/// Outcomes remembered, and the divisor of the failure share.
const REMEMBERED: usize = 4;
/// Failures among them that make a pool unhealthy: half.
const UNHEALTHY_FAILURES: usize = 2;

/// The last outcomes of one pool, oldest first; true is a success.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tracker(VecDeque<bool>);

/// Health of a pool by its outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// No outcome yet.
    Unknown,
    /// Fewer than two failures.
    Healthy,
    /// Two failures or more.
    Unhealthy,
}

impl Tracker {
    /// Tracker after a restart, from the pool's condition.
    pub fn seeded(condition: Option<ConditionStatus>) -> Self {
        match condition {
            Some(ConditionStatus::True) => Self([true].into()),
            // As many failures as the condition stands for; fewer would read as healthy.
            Some(ConditionStatus::False) => Self([false; UNHEALTHY_FAILURES].into()),
            Some(ConditionStatus::Unknown) | None => Self::default(),
        }
    }

    /// Health by the outcomes.
    pub fn health(&self) -> Health {
        if self.0.is_empty() {
            return Health::Unknown;
        }
        let failures = self.0.iter().filter(|success| !**success).count();
        if failures >= UNHEALTHY_FAILURES { Health::Unhealthy } else { Health::Healthy }
    }

    /// Records an outcome and returns the pool's new condition, if it changes. `condition` is its present
    /// status.
    pub fn note(
        &mut self,
        outcome: &RegistrationOutcome,
        condition: Option<ConditionStatus>,
    ) -> Option<ConditionValue> {
        self.0.push_back(*outcome == RegistrationOutcome::Success);
        if self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
        match (outcome, self.health()) {
            (RegistrationOutcome::Success, Health::Healthy) if condition != Some(ConditionStatus::True) => {
                Some(ConditionValue {
                    status: ConditionStatus::True,
                    reason: condition::NODE_REGISTRATION_HEALTHY.to_owned(),
                    message: String::new(),
                })
            }
            (RegistrationOutcome::Failure { reason, message }, Health::Unhealthy)
                if condition != Some(ConditionStatus::False) =>
            {
                Some(ConditionValue {
                    status: ConditionStatus::False,
                    reason: reason.clone(),
                    message: message.clone(),
                })
            }
            // The condition says so already, or the outcome does not tip the balance: a success while two
            // failures are remembered, or the first failure (spec disruption 1.8).
            _ => None,
        }
    }
}

/// Remembered generations of a pool and its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generations {
    /// `metadata.generation` of the pool.
    pub pool: i64,
    /// Generation the pool's condition was observed at; `None` when it has no such condition.
    pub observed: Option<i64>,
    /// `metadata.generation` of the node class.
    pub class: i64,
    /// `status.nodeClassObservedGeneration` of the pool.
    pub class_observed: i64,
}

/// True when what is remembered belongs to an older configuration: the condition goes back to unknown and the
/// tracker is emptied.
pub fn outdated(generations: Generations) -> bool {
    generations.observed != Some(generations.pool) || generations.class_observed != generations.class
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> RegistrationOutcome {
        RegistrationOutcome::Failure { reason: "RegistrationFailed".to_owned(), message: "m".to_owned() }
    }

    #[test]
    fn two_failures_are_needed_from_true_and_from_unknown() {
        for before in [Some(ConditionStatus::True), Some(ConditionStatus::Unknown), None] {
            let mut tracker = Tracker::seeded(before);
            assert_eq!(tracker.note(&failure(), before), None);
            let verdict = tracker.note(&failure(), before).expect("the condition changes");
            assert_eq!(
                (verdict.status, verdict.reason.as_str()),
                (ConditionStatus::False, "RegistrationFailed")
            );
        }
    }

    #[test]
    fn one_success_after_two_failures_stays_false_and_three_recover() {
        let no = Some(ConditionStatus::False);
        let mut tracker = Tracker::seeded(no);
        assert_eq!(tracker.note(&RegistrationOutcome::Success, no), None);
        assert_eq!(tracker.note(&RegistrationOutcome::Success, no), None);
        let verdict = tracker.note(&RegistrationOutcome::Success, no).expect("the condition changes");
        assert_eq!(verdict.status, ConditionStatus::True);
    }

    #[test]
    fn every_history_of_four_is_unhealthy_exactly_from_two_failures_on() {
        for bits in 0..16_u32 {
            let mut tracker = Tracker::default();
            // Older outcomes must not matter.
            for _ in 0..4 {
                tracker.note(&failure(), None);
            }
            for bit in 0..4 {
                let outcome = if bits >> bit & 1 == 1 { failure() } else { RegistrationOutcome::Success };
                tracker.note(&outcome, None);
            }
            let expected = if bits.count_ones() >= 2 { Health::Unhealthy } else { Health::Healthy };
            assert_eq!(tracker.health(), expected, "{bits:04b}");
        }
    }

    #[test]
    fn a_verdict_is_written_only_when_it_changes_something() {
        let mut tracker = Tracker::default();
        assert!(tracker.note(&RegistrationOutcome::Success, None).is_some());
        assert_eq!(tracker.note(&RegistrationOutcome::Success, Some(ConditionStatus::True)), None);
    }

    #[test]
    fn a_new_generation_of_pool_or_class_outdates() {
        let current = Generations { pool: 2, observed: Some(2), class: 5, class_observed: 5 };
        assert!(!outdated(current));
        assert!(outdated(Generations { observed: None, ..current }));
        assert!(outdated(Generations { observed: Some(1), ..current }));
        assert!(outdated(Generations { class_observed: 4, ..current }));
    }
}
