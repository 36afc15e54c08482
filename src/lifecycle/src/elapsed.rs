//! Time between two instants, as a span that is never negative.

use std::time::Duration;

use jiff::Timestamp;

/// Time from `start` to `now`; zero when the start lies in the future (clocks of different machines).
pub(crate) fn since(start: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(start)).unwrap_or(Duration::ZERO)
}
