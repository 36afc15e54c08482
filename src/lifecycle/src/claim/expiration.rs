//! Expiration: a claim older than its own `expireAfter` is deleted, whatever runs on it (spec disruption 1.10).
//!
//! The value is the claim's, not the pool's present one. No budget, no simulation, no replacement first; the drain
//! still respects disruption budgets of pods and `do-not-disrupt`.
//!
//! A pool whose machines take about as long to come as they may live would do nothing but launch. So a machine is given
//! time to come, and one that could not run for at least as long as it took to come does not expire: what takes its place
//! would be no better. Both follow from the claim alone, whichever process leads. The reference launches and deletes such
//! claims without end.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::reason;
use karpenter_model::{Claim, ConditionType};

use crate::step::{About, DeletionCause, Effect, Event, PodRef, Step, Wake};

/// Time that a machine may take to come before it expires: the default for a launch and a registration.
const COMING: Duration = Duration::from_mins(15);
/// Period of the events that report that a claim does not expire.
const REMINDER: Duration = Duration::from_mins(30);

/// Time before expiry at which events warn that nothing can take the place of a node; half its life where that is less.
const WARNED: Duration = Duration::from_hours(1);
/// Delay until the lack of a replacement is checked again.
const AGAIN: Duration = Duration::from_mins(5);

/// Deletes the claim at its expiry, and sets the wake-up to exactly then.
pub fn step(claim: &Claim, now: Timestamp) -> Step {
    if claim.deletion.is_some() {
        return Step::idle();
    }
    if let Some((life, boot)) = held(claim) {
        return Step::of(events(claim, life, boot)).and_wake(Wake::After(REMINDER));
    }
    match left(claim, now) {
        None => Step::idle(),
        Some(Duration::ZERO) => Step::of([Effect::DeleteClaim(DeletionCause::Expired)]),
        Some(left) => Step::idle().and_wake(Wake::After(left)),
    }
}

/// Reason why the pool of a claim launches nothing, and the effect on the claim.
#[derive(Clone, Copy, Debug)]
pub struct Unready<'a> {
    /// The conditions of the pool that are False, with their messages.
    pub why: &'a str,
    /// Pods of the claim's node that need another place.
    pub pods: &'a [PodRef],
    /// Nodes are to be replaced before they expire (`DISRUPTION_EXPIRY_LEAD`), so this one waits for a pool that launches.
    pub replaced_first: bool,
}

/// Step of a claim whose pool launches nothing: claim, pool and pods are warned before the node goes (aws#8707).
pub fn without_replacement(claim: &Claim, unready: Unready<'_>, now: Timestamp) -> Step {
    let (Some(life), Some(left)) = (claim.expire_after, left(claim, now)) else { return step(claim, now) };
    if claim.deletion.is_some() {
        return Step::idle();
    }
    let ahead = WARNED.min(life / 2);
    if left > ahead {
        return Step::idle().and_wake(Wake::After(left.saturating_sub(ahead)));
    }
    let (Unready { why, pods, replaced_first }, name) = (unready, &claim.name);
    let then = if replaced_first { "waits until it does" } else { "goes all the same, and its pods wait" };
    let message = format!(
        "NodeClaim {name} expires in {}s and its NodePool launches nothing, so its node {then}: {why}; correct that, or delete \
         the claim when its pods may go",
        left.as_secs()
    );
    let objects =
        [Some(About::Claim(name.clone())), claim.pool.clone().map(About::Pool)].into_iter().flatten();
    let about = objects.chain(pods.iter().cloned().map(About::Pod));
    let warnings =
        about.map(|about| Effect::Event(Event::new(about, reason::EXPIRES_UNREPLACED, message.clone())));
    let warned = Step::of(warnings);
    if left.is_zero() && !replaced_first {
        return Step::of(warned.effects.into_iter().chain([Effect::DeleteClaim(DeletionCause::Expired)]));
    }
    // Zero would be a loop: a node that waits past its time is looked at again after a pause.
    let again = if left.is_zero() { AGAIN } else { AGAIN.min(left) };
    warned.and_wake(Wake::After(again))
}

/// Time until the claim expires, zero from then on; `None` for one that never does.
pub(super) fn left(claim: &Claim, now: Timestamp) -> Option<Duration> {
    let life = claim.expire_after.filter(|_| held(claim).is_none())?;
    let coming = !claim.is_true(ConditionType::Initialized);
    let life = if coming { life.max(COMING) } else { life };
    Some(life.saturating_sub(since(claim.created_at, now)))
}

/// Life of the claim and the time it took to come, where it could run for less than that.
fn held(claim: &Claim) -> Option<(Duration, Duration)> {
    let life = claim.expire_after?;
    let boot = since(claim.created_at, claim.true_since(ConditionType::Initialized)?);
    // A life counts from the creation, so a machine runs for `life - boot`, which must not be less than
    // `boot`.
    (life < boot.saturating_mul(2)).then_some((life, boot))
}

fn events(claim: &Claim, life: Duration, boot: Duration) -> impl Iterator<Item = Effect> {
    let objects = [Some(About::Claim(claim.name.clone())), claim.pool.clone().map(About::Pool)];
    let message = format!(
        "Nodes do not expire: expireAfter is {}s and a node took {}s to come; raise spec.template.spec.expireAfter and delete the \
         node",
        life.as_secs(),
        boot.as_secs()
    );
    objects
        .into_iter()
        .flatten()
        .map(move |about| Effect::Event(Event::new(about, reason::EXPIRY_HELD, message.clone())))
}

#[cfg(test)]
mod tests {
    use karpenter_model::{ConditionStatus, PodKey};

    use super::*;
    use crate::fixture::{at, claim, with_condition};

    #[test]
    fn deletes_at_expiry_exactly_and_wakes_then() {
        let expiring = living(600, Some(60));
        assert_eq!(step(&expiring, at(200)), Step::idle().and_wake(Wake::After(Duration::from_secs(400))));
        let expired = Step::of([Effect::DeleteClaim(DeletionCause::Expired)]);
        assert_eq!(step(&expiring, at(600)), expired);
        assert_eq!(step(&expiring, at(6000)), expired);
    }

    /// A claim that may live this number of seconds, initialized after that number.
    fn living(life: u64, initialized: Option<i64>) -> Claim {
        let claim = Claim { expire_after: Some(Duration::from_secs(life)), ..claim() };
        match initialized {
            Some(after) => with_condition(claim, ConditionType::Initialized, ConditionStatus::True, after),
            None => claim,
        }
    }

    #[test]
    fn a_machine_has_time_to_come_and_none_expires_that_could_not_run_as_long_as_that_took() {
        let deleted = |claim: &Claim, now| {
            step(claim, at(now)).effects.contains(&Effect::DeleteClaim(DeletionCause::Expired))
        };
        let table = [
            // It is coming.
            (living(0, None), 1, false),
            (living(0, None), 899, false),
            (living(0, None), 900, true),
            (living(60, None), 120, false),
            (living(3_600, None), 3_599, false),
            (living(3_600, None), 3_600, true),
            // It has come.
            (living(0, Some(45)), 100_000, false),
            (living(30, Some(45)), 100_000, false),
            (living(60, Some(45)), 100_000, false),
            (living(89, Some(45)), 100_000, false),
            (living(90, Some(45)), 90, true),
            (living(3_600, Some(600)), 3_600, true),
        ];
        for (claim, now, expected) in table {
            assert_eq!(deleted(&claim, now), expected, "{:?} at {now}", claim.expire_after);
        }
    }

    #[test]
    fn claim_and_pool_are_told_that_nothing_expires() {
        let claim = Claim { pool: Some("web".into()), ..living(0, Some(45)) };
        let Step { effects, wake, .. } = step(&claim, at(50));
        let about = effects.iter().map(|effect| match effect {
            Effect::Event(event) => (event.about.clone(), event.reason),
            other => panic!("{other:?}"),
        });
        let about: Vec<_> = about.collect();
        let expected = [About::Claim(claim.name.clone()), About::Pool("web".into())];
        assert_eq!(about, expected.map(|about| (about, reason::EXPIRY_HELD)));
        assert_eq!(wake, Wake::After(REMINDER));
    }

    /// aws#8707.
    #[test]
    fn claim_pool_and_pods_are_warned_before_a_node_goes_that_cannot_be_replaced() {
        let pods = [PodRef { key: PodKey::new("default", "web"), uid: "1".into() }];
        for (life, now, replaced_first, warned, deleted, wake) in [
            (7_200, 100, false, false, false, Wake::After(Duration::from_secs(3_500))),
            (7_200, 3_600, false, true, false, Wake::After(AGAIN)),
            (7_200, 7_100, false, true, false, Wake::After(Duration::from_secs(100))),
            (7_200, 7_200, false, true, true, Wake::OnEvent),
            (7_200, 7_200, true, true, false, Wake::After(AGAIN)),
            (1_800, 800, false, false, false, Wake::After(Duration::from_secs(100))),
            (1_800, 900, false, true, false, Wake::After(AGAIN)),
        ] {
            let claim = Claim { pool: Some("web".into()), ..living(life, Some(45)) };
            let unready = Unready { why: "NodeClassReady: no subnets", pods: &pods, replaced_first };
            let step = without_replacement(&claim, unready, at(now));
            let events = step.effects.iter().filter_map(|effect| match effect {
                Effect::Event(event) => Some((event.about.clone(), event.message.contains("no subnets"))),
                _ => None,
            });
            let all = [
                (About::Claim(claim.name.clone()), true),
                (About::Pool("web".into()), true),
                (About::Pod(pods[0].clone()), true),
            ];
            assert_eq!(
                events.collect::<Vec<_>>(),
                if warned { all.to_vec() } else { Vec::new() },
                "{life} {now}"
            );
            let goes = step.effects.contains(&Effect::DeleteClaim(DeletionCause::Expired));
            assert_eq!((goes, step.wake), (deleted, wake), "{life} {now} {replaced_first}");
        }
    }

    #[test]
    fn never_expires_without_a_value_nor_twice() {
        assert_eq!(step(&claim(), at(1_000_000)), Step::idle());
        let deleting =
            Claim { expire_after: Some(Duration::from_mins(1)), deletion: Some(at(60)), ..claim() };
        assert_eq!(step(&deleting, at(61)), Step::idle());
        let unready = Unready { why: "no subnets", pods: &[], replaced_first: false };
        for now in [30, 61, 2_000] {
            assert_eq!(without_replacement(&deleting, unready, at(now)), Step::idle(), "{now}");
        }
    }
}
