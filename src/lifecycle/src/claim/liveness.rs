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
pub(crate) const LAUNCH_TIMEOUT: Duration = Duration::from_mins(5);
/// How long it may take until the Node has registered.
pub(crate) const REGISTRATION_TIMEOUT: Duration = Duration::from_mins(15);

/// Gives the claim up when one of its timeouts has passed.
pub fn step(claim: &Claim, now: Timestamp) -> Step {
    if claim.is_true(ConditionType::Registered) {
        return Step::idle();
    }
    let mut left = REGISTRATION_TIMEOUT.saturating_sub(waiting(claim, ConditionType::Registered, now));
    if !claim.is_true(ConditionType::Launched) {
        let to_launch = LAUNCH_TIMEOUT.saturating_sub(waiting(claim, ConditionType::Launched, now));
        if to_launch.is_zero() {
            return given_up(claim, DeletionCause::LaunchTimeout, LAUNCH_TIMEOUT);
        }
        left = left.min(to_launch);
    }
    if left.is_zero() {
        return given_up(claim, DeletionCause::RegistrationTimeout, REGISTRATION_TIMEOUT);
    }
    Step::idle().and_wake(Wake::After(left))
}

fn waiting(claim: &Claim, kind: ConditionType, now: Timestamp) -> Duration {
    let start = claim.conditions.get(&kind).map_or(claim.created_at, |condition| condition.last_transition);
    since(start, now)
}

fn given_up(claim: &Claim, cause: DeletionCause, timeout: Duration) -> Step {
    Step::of([
        Effect::RegistrationHealth(failure(claim)),
        Effect::Milestone(Milestone::TimedOut(cause, timeout)),
        Effect::DeleteClaim(cause),
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

    fn cause(claim: &Claim, now: i64) -> Option<DeletionCause> {
        step(claim, at(now)).effects.iter().find_map(|effect| match effect {
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
    fn several_nodes_of_one_machine_end_the_claim_fifteen_minutes_later() {
        let launched = holding(claim(), &[ConditionType::Launched]);
        let ambiguous = with_condition(launched, ConditionType::Registered, ConditionStatus::False, 60);
        assert_eq!(cause(&ambiguous, 959), None);
        assert_eq!(cause(&ambiguous, 960), Some(DeletionCause::RegistrationTimeout));
    }

    #[test]
    fn wakes_at_the_nearest_timeout() {
        assert_eq!(step(&claim(), at(100)).wake, Wake::After(Duration::from_secs(200)));
        let launched = holding(claim(), &[ConditionType::Launched]);
        assert_eq!(step(&launched, at(100)).wake, Wake::After(Duration::from_secs(800)));
    }

    #[test]
    fn health_tells_why_it_could_not_launch_or_that_it_did_not_register() {
        let reason = |claim: &Claim, now| match &step(claim, at(now)).effects[0] {
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
