//! The batching window of the provisioner, as a state machine without timers (spec scheduling 11.2).
//!
//! The first trigger opens a window. It closes when nothing new has arrived for the idle duration, or when the
//! maximum is over, whichever comes first. An element already seen in this window does not extend it; another
//! one does. Triggers that arrive while a pass is running arm the next window, whose time starts when the pass
//! ends.
//!
//! While a window is kept open by what arrives, the caller may look at what has come so far: every idle duration, and only if
//! something new has come ([`Batcher::until_look`]). A look changes nothing about when the window closes.
//!
//! The caller sleeps for [`Batcher::left`] or until the next trigger, then asks [`Batcher::close`]. A clock that is set back
//! does not keep a window open: one that was opened in the future is over.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;

/// Collects triggers into windows. `K` identifies what triggered: the uid of a pod, node or buffer.
#[derive(Debug, Clone)]
pub struct Batcher<K> {
    idle: Duration,
    max: Duration,
    seen: BTreeSet<K>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing has been triggered.
    Waiting,
    /// A window is open; what came until `looked` has been looked at.
    Open { opened: Timestamp, last_new: Timestamp, looked: Timestamp },
    /// A window was closed and its pass has not ended.
    Passing,
}

impl Phase {
    /// A window that opens now.
    fn opened(now: Timestamp) -> Self {
        Self::Open { opened: now, last_new: now, looked: now }
    }
}

impl<K: Ord> Batcher<K> {
    /// A batcher with these windows (`BATCH_IDLE_DURATION`, 1 s; `BATCH_MAX_DURATION`, 10 s).
    pub fn new(idle: Duration, max: Duration) -> Self {
        Self { idle, max, seen: BTreeSet::new(), phase: Phase::Waiting }
    }

    /// Notes a trigger; true when the element is new in its window.
    pub fn trigger(&mut self, element: K, now: Timestamp) -> bool {
        let new = self.seen.insert(element);
        if new {
            self.phase = match self.phase {
                Phase::Waiting => Phase::opened(now),
                Phase::Open { opened, looked, .. } => Phase::Open { opened, last_new: now, looked },
                // Kept for the window that opens when the pass ends.
                Phase::Passing => Phase::Passing,
            };
        }
        new
    }

    /// Time for which the open window stays open if nothing new arrives; `None` when no window is open.
    pub fn left(&self, now: Timestamp) -> Option<Duration> {
        let deadline = self.deadline()?;
        // A window that opens in the future: the clock was set back, and the deadline may be far away.
        Some(if self.opened()? > now { Duration::ZERO } else { since(now, deadline) })
    }

    /// Time at which the open window closes if nothing new arrives.
    fn deadline(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Open { opened, last_new, .. } => Some((last_new + self.idle).min(opened + self.max)),
            Phase::Waiting | Phase::Passing => None,
        }
    }

    /// Time until the triggers so far are worth a look; `None` when no window is open, or nothing has arrived since the last
    /// look.
    pub fn until_look(&self, now: Timestamp) -> Option<Duration> {
        match self.phase {
            Phase::Open { last_new, looked, .. } if last_new > looked => Some(since(now, looked + self.idle)),
            Phase::Open { .. } | Phase::Waiting | Phase::Passing => None,
        }
    }

    /// Records that the triggers so far have been looked at.
    pub fn looked(&mut self, now: Timestamp) {
        if let Phase::Open { looked, .. } = &mut self.phase {
            *looked = now;
        }
    }

    /// Time at which the open window was opened; `None` when no window is open.
    pub fn opened(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Open { opened, .. } => Some(opened),
            Phase::Waiting | Phase::Passing => None,
        }
    }

    /// Closes the window if its deadline has come, and returns what triggered it. A pass follows, and
    /// [`Self::pass_ended`] after it.
    pub fn close(&mut self, now: Timestamp) -> Option<BTreeSet<K>> {
        if self.left(now)? > Duration::ZERO {
            return None;
        }
        self.phase = Phase::Passing;
        Some(std::mem::take(&mut self.seen))
    }

    /// The pass is over; triggers that arrived meanwhile open the next window now.
    pub fn pass_ended(&mut self, now: Timestamp) {
        self.phase = if self.seen.is_empty() { Phase::Waiting } else { Phase::opened(now) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).expect("in range")
    }

    fn batcher() -> Batcher<&'static str> {
        Batcher::new(Duration::from_secs(1), Duration::from_secs(10))
    }

    #[test]
    fn without_a_trigger_no_window_is_open() {
        let mut batcher = batcher();
        assert_eq!(batcher.deadline(), None);
        assert_eq!(batcher.close(at(100_000)), None);
    }

    #[test]
    fn closes_after_the_idle_duration() {
        let mut batcher = batcher();
        batcher.trigger("a", at(0));
        assert_eq!(batcher.close(at(999)), None);
        assert_eq!(batcher.close(at(1000)), Some(BTreeSet::from(["a"])));
        assert_eq!(batcher.deadline(), None);
    }

    #[test]
    fn a_seen_element_does_not_extend_the_window_and_another_one_does() {
        let mut batcher = batcher();
        assert!(batcher.trigger("a", at(0)));
        assert!(!batcher.trigger("a", at(900)));
        assert_eq!(batcher.deadline(), Some(at(1000)));
        assert!(batcher.trigger("b", at(950)));
        assert_eq!(batcher.deadline(), Some(at(1950)));
    }

    #[test]
    fn a_clock_that_is_set_back_ends_the_window() {
        let mut batcher = batcher();
        batcher.trigger("a", at(3_600_000));
        assert_eq!(batcher.left(at(0)), Some(Duration::ZERO));
        assert_eq!(batcher.close(at(0)), Some(BTreeSet::from(["a"])));
    }

    #[test]
    fn a_steady_stream_ends_at_the_maximum() {
        let mut batcher = Batcher::new(Duration::from_secs(1), Duration::from_secs(10));
        for number in 0..20_u32 {
            batcher.trigger(number, at(i64::from(number) * 500));
        }
        assert_eq!(batcher.deadline(), Some(at(10_000)));
        assert_eq!(batcher.close(at(10_000)).map(|elements| elements.len()), Some(20));
    }

    #[test]
    fn triggers_during_a_pass_open_the_next_window_when_it_ends() {
        let mut batcher = batcher();
        batcher.trigger("a", at(0));
        batcher.close(at(1000)).expect("window is over");
        batcher.trigger("a", at(1500));
        assert_eq!(batcher.deadline(), None);
        batcher.pass_ended(at(5000));
        assert_eq!(batcher.deadline(), Some(at(6000)));
        assert!(!batcher.trigger("a", at(5500)), "already an element of this window");
        assert_eq!(batcher.close(at(6000)), Some(BTreeSet::from(["a"])));
    }

    #[test]
    fn what_keeps_a_window_open_is_looked_at_every_idle_duration() {
        let mut batcher = batcher();
        batcher.trigger("a", at(0));
        assert_eq!(batcher.until_look(at(0)), None, "the window may close before anything else comes");
        batcher.trigger("b", at(600));
        assert_eq!(batcher.until_look(at(600)), Some(Duration::from_millis(400)));
        batcher.looked(at(1100));
        assert_eq!(batcher.until_look(at(1100)), None, "nothing has come since");
        assert_eq!(batcher.deadline(), Some(at(1600)), "a look does not keep it open");
        batcher.trigger("c", at(1200));
        assert_eq!(batcher.until_look(at(1200)), Some(Duration::from_millis(900)));
        batcher.close(at(2200)).expect("window is over");
        assert_eq!(batcher.until_look(at(2200)), None);
    }

    #[test]
    fn elements_are_forgotten_when_a_window_closes() {
        let mut batcher = batcher();
        batcher.trigger("a", at(0));
        batcher.close(at(1000)).expect("window is over");
        batcher.pass_ended(at(1100));
        assert_eq!(batcher.deadline(), None);
        assert!(batcher.trigger("a", at(2000)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_trigger_is_in_exactly_one_window_and_no_window_is_longer_than_the_maximum(
            gaps in proptest::collection::vec((0..3000_i64, 0..5_u8), 1..60),
            pass in 0..5000_i64,
        ) {
            let mut batcher = Batcher::new(Duration::from_secs(1), Duration::from_secs(10));
            let (mut now, mut waiting, mut opened) = (0, BTreeSet::new(), None);
            for (gap, element) in gaps {
                let arrival = now + gap;
                // Windows that close before this trigger arrives.
                while let Some(deadline) = batcher.deadline().filter(|deadline| *deadline <= at(arrival)) {
                    let start: i64 = opened.take().expect("a window is open");
                    prop_assert!(deadline <= at(start + 10_000), "opened at {start}, closes at {deadline}");
                    prop_assert_eq!(batcher.close(deadline), Some(std::mem::take(&mut waiting)));
                    let ended = deadline + Duration::from_millis(u64::try_from(pass).expect("not negative"));
                    batcher.pass_ended(ended.max(at(now)));
                }
                now = arrival;
                let new = batcher.trigger(element, at(now));
                prop_assert_eq!(new, waiting.insert(element));
                opened.get_or_insert(now);
            }
        }
    }
}
