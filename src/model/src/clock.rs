//! The one way to read the time; the wall clock is read only where the program is put together.

use std::fmt::Debug;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use parking_lot::Mutex;

/// A source of the current instant. It goes backwards where an operator or a time server sets the clock of the machine back.
pub trait Clock: Send + Sync + Debug {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

/// Time from `start` to `now`; zero when the start lies in the future, as it may by clocks of different machines.
pub fn since(start: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(start)).unwrap_or_default()
}

/// `start` plus `span`; the last instant there is when that does not exist.
pub fn later(start: Timestamp, span: Duration) -> Timestamp {
    start.saturating_add(span).unwrap_or(Timestamp::MAX)
}

/// The time zone of a name such as `Europe/Berlin`, in letters of any case, by the rules this program was built with: what
/// the machine has installed changes no decision.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    static RULES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
    RULES.get(name).ok()
}

/// A clock that always shows the same instant, for offline planning.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// A clock that stands still until it is set, for tests and simulation.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn starting_at(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock();
        *now = later(*now, by);
    }
}

impl Default for ManualClock {
    /// 2026-01-01, midnight UTC.
    fn default() -> Self {
        Self::starting_at(Timestamp::constant(1_767_225_600, 0))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}
