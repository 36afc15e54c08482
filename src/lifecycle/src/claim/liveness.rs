//! Liveness: claims that do not get a machine, or whose machine never joins, are given up so that a fresh
//! decision can be made (spec disruption 1.6).
//!
//! The clocks start at the last transition of the condition, which for a condition that was never written is
//! the claim's creation. Unlike the reference, a claim given up for its launch is not given up a second time
//! for its registration in the same pass (spec disruption 9.16).

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::reason;
use karpenter_model::{Claim, ConditionStatus, ConditionType};

use crate::step::{DeletionCause, Effect, Milestone, RegistrationOutcome, Step, Wake};

/// How long a launch may take.
const LAUNCH_TIMEOUT: Duration = Duration::from_mins(5);

/// Gives the claim up when its launch has not succeeded within five minutes, or its Node not registered within
/// `registration`.
pub fn step(claim: &Claim, registration: Duration, now: Timestamp) -> Step {
    if claim.is_true(ConditionType::Registered) {
        return Step::idle();
    }
    let mut left = registration.saturating_sub(waiting(claim, ConditionType::Registered, now));
    if !claim.is_true(ConditionType::Launched) {
        let to_launch = LAUNCH_TIMEOUT.saturating_sub(waiting(claim, ConditionType::Launched, now));
        if to_launch.is_zero() {
            return given_up(claim, DeletionCause::LaunchTimeout, LAUNCH_TIMEOUT);
        }
        left = left.min(to_launch);
    }
    if left.is_zero() {
        return given_up(claim, DeletionCause::RegistrationTimeout, registration);
    }
    Step::idle().and_wake(Wake::After(left))
}

fn waiting(claim: &Claim, kind: ConditionType, now: Timestamp) -> Duration {
    let start = claim.conditions.get(&kind).map_or(claim.created_at, |condition| condition.last_transition);
    since(start, now)
}

fn given_up(claim: &Claim, cause: DeletionCause, timeout: Duration) -> Step {
    Step::of([
        // First: where it fails, the step is tried again, and one claim must not count twice.
        Effect::DeleteClaim(cause),
        Effect::RegistrationHealth(failure(claim)),
        Effect::Milestone(Milestone::TimedOut(cause, timeout)),
    ])
}

/// A claim that had a machine failed to register; one that had none shows why it could not launch.
fn failure(claim: &Claim) -> RegistrationOutcome {
    match claim.conditions.get(&ConditionType::Launched) {
        Some(launched) if launched.status != ConditionStatus::True => RegistrationOutcome::Failure {
            reason: launched.reason.clone(),
            message: launched.message.clone(),
        },
        _ => RegistrationOutcome::Failure {
            reason: reason::REGISTRATION_FAILED.to_owned(),
            message: "Failed to register node".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, claim, holding, with_condition};

    const QUARTER: Duration = Duration::from_mins(15);

    fn cause(claim: &Claim, now: i64) -> Option<DeletionCause> {
        cause_within(QUARTER, claim, now)
    }

    fn cause_within(registration: Duration, claim: &Claim, now: i64) -> Option<DeletionCause> {
        step(claim, registration, at(now)).effects.iter().find_map(|effect| match effect {
            Effect::DeleteClaim(cause) => Some(*cause),
            _ => None,
        })
    }

    #[test]
    fn timeouts_count_from_the_transition_else_from_creation() {
        use ConditionStatus::Unknown;
        let unlaunched = |since| with_condition(claim(), ConditionType::Launched, Unknown, since);
        let launched = || holding(claim(), &[ConditionType::Launched]);
        let joining = |since| with_condition(launched(), ConditionType::Registered, Unknown, since);
        let launch = Some(DeletionCause::LaunchTimeout);
        let registration = Some(DeletionCause::RegistrationTimeout);
        let table = [
            (claim(), 299, None),
            (claim(), 300, launch),
            (unlaunched(100), 300, None),
            (unlaunched(100), 400, launch),
            (launched(), 899, None),
            (launched(), 900, registration),
            (joining(100), 900, None),
            (joining(100), 1000, registration),
            (unlaunched(0), 2000, launch),
            (holding(claim(), &[ConditionType::Launched, ConditionType::Registered]), 100_000, None),
        ];
        for (claim, now, expected) in table {
            assert_eq!(cause(&claim, now), expected, "{:?} at {now}", claim.conditions);
        }
    }

    #[test]
    fn a_node_has_as_long_to_register_as_the_settings_say() {
        let launched = holding(claim(), &[ConditionType::Launched]);
        let registration = Some(DeletionCause::RegistrationTimeout);
        for (minutes, now, expected) in
            [(40, 2_399, None), (40, 2_400, registration), (3, 179, None), (3, 180, registration)]
        {
            assert_eq!(
                cause_within(Duration::from_mins(minutes), &launched, now),
                expected,
                "{minutes} {now}"
            );
        }
        // The launch has its own time, unless registration has less.
        assert_eq!(cause_within(Duration::from_mins(40), &claim(), 300), Some(DeletionCause::LaunchTimeout));
        assert_eq!(cause_within(Duration::from_mins(3), &claim(), 180), registration);
    }

    #[test]
    fn an_outcome_counts_after_the_deletion_that_may_fail() {
        let effects = step(&claim(), QUARTER, at(300)).effects;
        let deleted = effects.iter().position(|effect| matches!(effect, Effect::DeleteClaim(_)));
        let counted = effects.iter().position(|effect| matches!(effect, Effect::RegistrationHealth(_)));
        assert_eq!((deleted, counted), (Some(0), Some(1)));
    }

    #[test]
    fn several_nodes_of_one_machine_end_the_claim_fifteen_minutes_later() {
        let launched = holding(claim(), &[ConditionType::Launched]);
        let ambiguous = with_condition(launched, ConditionType::Registered, ConditionStatus::False, 60);
        assert_eq!(cause(&ambiguous, 959), None);
        assert_eq!(cause(&ambiguous, 960), Some(DeletionCause::RegistrationTimeout));
    }

    #[test]
    fn wakes_at_the_nearest_timeout() {
        assert_eq!(step(&claim(), QUARTER, at(100)).wake, Wake::After(Duration::from_secs(200)));
        let launched = holding(claim(), &[ConditionType::Launched]);
        assert_eq!(step(&launched, QUARTER, at(100)).wake, Wake::After(Duration::from_secs(800)));
    }

    #[test]
    fn health_tells_why_it_could_not_launch_or_that_it_did_not_register() {
        let reason = |claim: &Claim, now| match &step(claim, QUARTER, at(now)).effects[1] {
            Effect::RegistrationHealth(RegistrationOutcome::Failure { reason, .. }) => reason.clone(),
            other => panic!("{other:?}"),
        };
        let mut failing = with_condition(claim(), ConditionType::Launched, ConditionStatus::Unknown, 0);
        failing.conditions.get_mut(&ConditionType::Launched).expect("set above").reason =
            "LaunchFailed".to_owned();
        assert_eq!(reason(&failing, 300), "LaunchFailed");
        assert_eq!(reason(&holding(claim(), &[ConditionType::Launched]), 900), reason::REGISTRATION_FAILED);
    }
}
