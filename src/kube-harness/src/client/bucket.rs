//! A token bucket without tokens: it remembers when it will be full again. Pure: the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use super::Limits;

/// Share of the bucket that a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// All there is.
    First,
    /// Waits until the bucket is more than a quarter full.
    Second,
    /// Waits until the bucket is more than half full.
    Last,
}

/// Says how long to wait after each request.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Time in which one request is earned; zero when there is no limit.
    interval: Duration,
    /// Longest time that a request may be ahead of its turn.
    ahead: Duration,
    /// Time at which all requests so far have been earned.
    full: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(limits: Limits, now: Instant) -> Self {
        let interval = Duration::from_secs(1).checked_div(limits.per_second).unwrap_or(Duration::ZERO);
        Self { interval, ahead: interval * limits.burst.saturating_sub(1), full: now }
    }

    /// Records a request; returns the wait before the next one of that rank, if there is one.
    pub(super) fn take(&mut self, now: Instant, rank: Rank) -> Option<Duration> {
        self.full = self.full.max(now) + self.interval;
        let ahead = match rank {
            Rank::First => self.ahead,
            Rank::Second => self.ahead / 4 * 3,
            Rank::Last => self.ahead / 2,
        };
        let wait = self.full.saturating_duration_since(now).saturating_sub(ahead);
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
        assert_eq!(bucket.take(at(0), Rank::First), None);
        assert_eq!(bucket.take(at(0), Rank::First), None);
        assert_eq!(bucket.take(at(0), Rank::First), wait(100), "the third of three is the last at once");
        assert_eq!(bucket.take(at(100), Rank::First), wait(100));
        assert_eq!(bucket.take(at(1000), Rank::First), None, "full again");
    }

    #[test]
    fn those_of_a_lower_rank_leave_a_part_of_the_bucket_to_the_others() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Limits { per_second: 10, burst: 21 }, start);
        let waits: Vec<_> = (0..12).map(|_| bucket.take(start, Rank::Last)).collect();
        assert_eq!(waits.iter().position(Option::is_some), Some(10), "the eleventh of ten at once");
        assert!((0..3).all(|_| bucket.take(start, Rank::Second).is_none()));
        assert_eq!(bucket.take(start, Rank::Second), Some(Duration::from_millis(100)), "a quarter is left");
        assert!((0..3).all(|_| bucket.take(start, Rank::First).is_none()));
        assert_eq!(bucket.take(start, Rank::Last), Some(Duration::from_secs(1)));
    }

    #[test]
    fn no_rate_is_no_limit() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Limits { per_second: 0, burst: 0 }, start);
        assert!((0..1000).all(|_| bucket.take(start, Rank::First).is_none()));
    }
}
