//! Instances that each reservation has left, between one answer of EC2 and the next (spec aws-provider 9).
//!
//! A reservation nothing is known about has none left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::Clock;
use karpenter_model::clock::later;
use parking_lot::Mutex;

/// Time that a count outlives the last answer about it.
const REMEMBERED: Duration = Duration::from_hours(24);

/// The counts.
pub struct Availability {
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    counts: BTreeMap<String, Count>,
    revision: u64,
}

#[derive(Clone, Copy)]
struct Count {
    left: u32,
    total: u32,
    counted_at: Timestamp,
}

/// Remaining instances at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Changes whenever a count does, including by time.
    pub revision: u64,
    counts: BTreeMap<String, u32>,
}

impl Left {
    /// Instances left in a reservation.
    pub fn of(&self, reservation: &str) -> u32 {
        self.counts.get(reservation).copied().unwrap_or_default()
    }
}

impl Availability {
    /// Creates it with nothing known.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, inner: Mutex::default() }
    }

    /// EC2 has reported the number left and the total.
    pub fn counted(&self, reservation: &str, left: u32, total: u32) {
        let counted_at = self.clock.now();
        let mut inner = self.inner.lock();
        let old = inner.counts.insert(reservation.to_owned(), Count { left, total, counted_at });
        if old.is_none_or(|old| old.left != left) {
            inner.revision += 1;
        }
    }

    /// An instance was launched into it at `at`. A count taken later includes it already.
    pub fn launched(&self, reservation: &str, at: Timestamp) {
        self.change(reservation, |count| {
            if count.counted_at <= at {
                count.left = count.left.saturating_sub(1);
            }
        });
    }

    /// An instance of it has ended.
    pub fn terminated(&self, reservation: &str) {
        self.change(reservation, |count| count.left = count.left.saturating_add(1).min(count.total));
    }

    /// EC2 had nothing left.
    pub fn exhausted(&self, reservation: &str) {
        self.change(reservation, |count| count.left = 0);
    }

    /// Revision of a view taken now, without taking it.
    pub(crate) fn revision(&self) -> u64 {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        inner.sweep(now);
        inner.revision
    }

    /// A frozen view for many questions at once.
    pub fn left(&self) -> Left {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        inner.sweep(now);
        let counts = inner.counts.iter().map(|(id, count)| (id.clone(), count.left)).collect();
        Left { revision: inner.revision, counts }
    }

    fn change(&self, reservation: &str, change: impl FnOnce(&mut Count)) {
        let mut inner = self.inner.lock();
        if let Some(count) = inner.counts.get_mut(reservation) {
            let before = count.left;
            change(count);
            if count.left != before {
                inner.revision += 1;
            }
        }
    }
}

impl Inner {
    /// Drops counts that are too old, which is a change.
    fn sweep(&mut self, now: Timestamp) {
        let before = self.counts.len();
        self.counts.retain(|_, count| later(count.counted_at, REMEMBERED) > now);
        if self.counts.len() != before {
            self.revision += 1;
        }
    }
}

impl std::fmt::Debug for Availability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Availability").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_model::ManualClock;

    /// Report, the call that makes it, and the remaining instances afterwards.
    type Step<'a> = (&'a str, &'a dyn Fn(&Availability), u32);

    fn world() -> (Arc<ManualClock>, Availability) {
        let clock = Arc::new(ManualClock::default());
        (Arc::clone(&clock), Availability::new(clock))
    }

    #[test]
    fn launches_and_ends_count_on_from_the_last_answer() {
        let (clock, all) = world();
        assert_eq!(all.left().of("cr-1"), 0, "nothing known is nothing left");
        all.counted("cr-1", 1, 2);
        let launch = |all: &Availability| all.launched("cr-1", clock.now());
        let steps: [Step; 7] = [
            ("a launch takes one", &launch, 0),
            ("never below none", &launch, 0),
            ("an end gives one back", &|all| all.terminated("cr-1"), 1),
            ("and another", &|all| all.terminated("cr-1"), 2),
            ("never above the total", &|all| all.terminated("cr-1"), 2),
            ("a refusal leaves nothing", &|all| all.exhausted("cr-1"), 0),
            ("an unknown one stays unknown", &|all| all.terminated("cr-2"), 0),
        ];
        for (what, step, left) in steps {
            step(&all);
            assert_eq!(all.left().of("cr-1"), left, "{what}");
        }
        assert_eq!(all.left().of("cr-2"), 0);
    }

    #[test]
    fn a_launch_before_the_last_count_is_in_it_already() {
        let (clock, all) = world();
        let before = clock.now();
        clock.advance(Duration::from_secs(1));
        all.counted("cr-1", 1, 2);
        all.launched("cr-1", before);
        assert_eq!(all.left().of("cr-1"), 1);
    }

    #[test]
    fn the_revision_follows_every_change_and_nothing_else() {
        let (clock, all) = world();
        all.counted("cr-1", 1, 2);
        let first = all.left().revision;
        all.counted("cr-1", 1, 2);
        all.exhausted("cr-2");
        assert_eq!(all.left().revision, first);
        all.exhausted("cr-1");
        let second = all.left().revision;
        assert_ne!(second, first);
        clock.advance(REMEMBERED);
        assert_ne!(all.revision(), second, "forgetting is a change too");
        let third = all.left();
        assert_eq!(third.revision, all.revision());
        assert_eq!(third.of("cr-1"), 0);
    }
}
