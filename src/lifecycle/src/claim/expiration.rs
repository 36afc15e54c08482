//! Expiration: a claim older than its own `expireAfter` is deleted, whatever runs on it (spec disruption 1.10).
//!
//! The value is the claim's, not the pool's present one. No budget, no simulation, no replacement first; the drain
//! still respects disruption budgets of pods and `do-not-disrupt`.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::Claim;
use karpenter_model::clock::since;

use crate::step::{DeletionCause, Effect, Step, Wake};

/// Deletes the claim at its expiry, and asks to be woken exactly then.
pub fn step(claim: &Claim, now: Timestamp) -> Step {
    if claim.deletion.is_some() {
        return Step::idle();
    }
    match left(claim, now) {
        None => Step::idle(),
        Some(Duration::ZERO) => Step::of([Effect::DeleteClaim(DeletionCause::Expired)]),
        Some(left) => Step::idle().and_wake(Wake::After(left)),
    }
}

/// How long it is until the claim expires, zero from then on; `None` for one that never does.
pub(super) fn left(claim: &Claim, now: Timestamp) -> Option<Duration> {
    Some(claim.expire_after?.saturating_sub(since(claim.created_at, now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, claim};

    #[test]
    fn deletes_at_expiry_exactly_and_wakes_then() {
        let expiring = Claim { expire_after: Some(Duration::from_mins(1)), ..claim() };
        assert_eq!(step(&expiring, at(20)), Step::idle().and_wake(Wake::After(Duration::from_secs(40))));
        let expired = Step::of([Effect::DeleteClaim(DeletionCause::Expired)]);
        assert_eq!(step(&expiring, at(60)), expired);
        assert_eq!(step(&expiring, at(6000)), expired);
    }

    #[test]
    fn never_expires_without_a_value_nor_twice() {
        assert_eq!(step(&claim(), at(1_000_000)), Step::idle());
        let deleting =
            Claim { expire_after: Some(Duration::from_mins(1)), deletion: Some(at(60)), ..claim() };
        assert_eq!(step(&deleting, at(61)), Step::idle());
    }
}
