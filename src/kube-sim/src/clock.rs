//! The clock of the simulated world: a fixed epoch plus the time that tokio says has passed.
//!
//! With tokio's paused clock the production controllers and the stand-ins share one virtual time: a task that
//! sleeps moves it forward, and no task waits for it. With the ordinary clock it runs at the speed of the
//! wall, so the embedded demo needs no second implementation.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::Clock;
use karpenter_model::clock::later;
use tokio::time::Instant;

/// A [`Clock`] that starts at an epoch and follows `tokio::time`.
#[derive(Debug, Clone)]
pub struct VirtualClock {
    epoch: Timestamp,
    started: Instant,
}

impl VirtualClock {
    /// A clock that shows `epoch` now. Must be called within a tokio runtime when its clock is paused.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, started: Instant::now() }
    }

    /// Time since the clock was made.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        later(self.epoch, self.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn follows_the_paused_clock_of_tokio() {
        let clock = VirtualClock::starting_at(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_hours(24)).await;
        assert_eq!(clock.now().as_second(), 86_400);
    }
}
