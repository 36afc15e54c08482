//! Spot requests that EC2 fails to carry out as such, for longer than a hiccup (aws#9616).
//!
//! An answer to a fleet names the offerings it lacks. A call that EC2 fails with an error of its own names none of
//! them, and asking for the same again can go on for an hour while on-demand works. One failure is repeated, as anywhere;
//! when they go on for a minute without a success between them, what was asked for counts as lacking, so that claims which
//! may be bought another way are.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::Clock;
use karpenter_model::clock::later;
use parking_lot::Mutex;

/// Time for which failures go on before they count: EC2's hiccups are over by then.
const PATIENCE: Duration = Duration::from_mins(1);
/// A failure this long after the one before begins from the beginning.
const FORGET: Duration = Duration::from_mins(10);

/// The failures since the last success.
#[derive(Debug)]
pub struct SpotFailure {
    clock: Arc<dyn Clock>,
    failing: Mutex<Option<Failing>>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    since: Timestamp,
    last: Timestamp,
}

impl SpotFailure {
    /// None yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, failing: Mutex::default() }
    }

    /// EC2 has answered a request for spot with instances or with what it lacks.
    pub(super) fn is_over(&self) {
        *self.failing.lock() = None;
    }

    /// EC2 has failed a request for spot. Whether it has done so for long.
    pub(super) fn lasts(&self) -> bool {
        let now = self.clock.now();
        let mut failing = self.failing.lock();
        let since =
            failing.filter(|failing| now < later(failing.last, FORGET)).map_or(now, |failing| failing.since);
        *failing = Some(Failing { since, last: now });
        now >= later(since, PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::ManualClock;

    use super::*;

    #[test]
    fn only_failures_that_go_on_without_a_success_count() {
        let clock = Arc::new(ManualClock::default());
        let failure = SpotFailure::new(Arc::clone(&clock) as _);
        let after = |seconds: u64| {
            clock.advance(Duration::from_secs(seconds));
            failure.lasts()
        };
        assert_eq!([0, 0, 20, 39].map(after), [false; 4], "many at once are one hiccup");
        assert_eq!([1, 30, 599].map(after), [true; 3]);
        assert!(!after(600), "that one is forgotten");
        assert!(after(60));
        failure.is_over();
        assert_eq!([0, 59, 1].map(after), [false, false, true]);
    }
}
