//! A token bucket without tokens: it remembers when it will be full again. Pure: the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use super::Limits;

/// Says how long to wait after each request.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Time in which one request is earned; zero when there is no limit.
    interval: Duration,
    /// How far ahead of its time a request may be.
    ahead: Duration,
    /// When all requests so far have been earned.
    full: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(limits: Limits, now: Instant) -> Self {
        let interval = Duration::from_secs(1).checked_div(limits.per_second).unwrap_or(Duration::ZERO);
        Self { interval, ahead: interval * limits.burst.saturating_sub(1), full: now }
    }

    /// Takes note of a request; the wait before the next one, if there is one.
    pub(super) fn take(&mut self, now: Instant) -> Option<Duration> {
        self.full = self.full.max(now) + self.interval;
        let wait = self.full.saturating_duration_since(now).saturating_sub(self.ahead);
        (!wait.is_zero()).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Limits { per_second: 10, burst: 3 }, start);
        let at = |millis| start + Duration::from_millis(millis);
        let wait = |millis| Some(Duration::from_millis(millis));
        assert_eq!(bucket.take(at(0)), None);
        assert_eq!(bucket.take(at(0)), None);
        assert_eq!(bucket.take(at(0)), wait(100), "the third of three is the last at once");
        assert_eq!(bucket.take(at(100)), wait(100));
        assert_eq!(bucket.take(at(1000)), None, "full again");
    }

    #[test]
    fn no_rate_is_no_limit() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Limits { per_second: 0, burst: 0 }, start);
        assert!((0..1000).all(|_| bucket.take(start).is_none()));
    }
}
