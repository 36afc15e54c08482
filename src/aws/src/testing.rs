//! Test doubles shared by the unit tests of this crate.

use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::Clock;

use crate::cache::later;

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl Default for ManualClock {
    fn default() -> Self {
        Self(Mutex::new("2026-01-01T00:00:00Z".parse().expect("a valid instant")))
    }
}

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, span: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = later(*now, span);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}
