//! Rate limit of a call: some at once after a quiet time, then one per interval.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// A rate of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Calls at once after a quiet time, at least 1.
    pub(crate) burst: u32,
    /// One more per interval.
    pub(crate) every: Duration,
}

/// Calls that a rate still allows.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Rate,
    left: u32,
    /// Since when the next call has been growing; of no meaning while none is missing.
    since: Instant,
}

impl Pace {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, left: rate.burst, since: Instant::now() }
    }

    /// Takes one call; the instant of the next one when there is none.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        while self.left < self.rate.burst && self.since + self.rate.every <= now {
            self.left += 1;
            self.since += self.rate.every;
        }
        // Nothing is missing, so time that has passed earns nothing: a quiet hour allows one burst, not more.
        if self.left == self.rate.burst {
            self.since = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.since + self.rate.every),
        }
    }
}

/// Turns at a pace, in the order in which they were asked for.
#[derive(Debug)]
pub(crate) struct Turns(Mutex<Pace>);

impl Turns {
    pub(crate) fn new(rate: Rate) -> Self {
        Self(Mutex::new(Pace::new(rate)))
    }

    /// Waits for a turn. One that is not waited for to its end is not taken.
    pub(crate) async fn next(&self) {
        // Held while sleeping: the lock serves in order of arrival.
        let mut pace = self.0.lock().await;
        while let Err(next) = pace.take(Instant::now()) {
            sleep_until(next).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { burst: 3, every: Duration::from_secs(10) };

    #[tokio::test(start_paused = true)]
    async fn some_at_once_then_one_per_interval_and_some_again_after_a_quiet_time() {
        let (mut pace, start) = (Pace::new(RATE), Instant::now());
        let mut taken = Vec::new();
        for second in 0..35 {
            while pace.take(start + Duration::from_secs(second)).is_ok() {
                taken.push(second);
            }
        }
        assert_eq!(taken, [0, 0, 0, 10, 20, 30]);
        let quiet = start + Duration::from_secs(500);
        let at_once = (0..10).filter(|_| pace.take(quiet).is_ok()).count();
        assert_eq!(at_once, 3, "no more than the burst, however long it was quiet");
        assert_eq!(pace.take(quiet), Err(quiet + RATE.every));
    }

    #[tokio::test(start_paused = true)]
    async fn turns_come_in_the_order_they_were_asked_for() {
        let (turns, start) = (Turns::new(Rate { burst: 1, ..RATE }), Instant::now());
        let turn = async |number: u64| {
            turns.next().await;
            (number, start.elapsed().as_secs())
        };
        let came = futures::future::join_all((0..4).map(turn)).await;
        assert_eq!(came, [(0, 0), (1, 10), (2, 20), (3, 30)]);
    }
}
