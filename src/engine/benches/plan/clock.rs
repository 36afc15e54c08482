//! Processor time of the planning thread, which other work on the machine distorts least.

use std::fs;
use std::time::{Duration, Instant};

/// Runs shorter than this are measured in wall time: the system may count processor time in ticks.
const COARSE: Duration = Duration::from_millis(30);

/// Processor time of this thread, or wall time where that is not known.
pub(crate) struct Clock {
    wall: Instant,
    cpu: Option<Duration>,
}

impl Clock {
    /// Starts to count.
    pub(crate) fn now() -> Self {
        Self { wall: Instant::now(), cpu: Self::cpu() }
    }

    /// Time since it was started.
    pub(crate) fn elapsed(&self) -> Duration {
        let wall = self.wall.elapsed();
        let cpu = self.cpu.zip(Self::cpu()).map(|(start, end)| end.saturating_sub(start));
        cpu.filter(|_| wall > COARSE).unwrap_or(wall)
    }

    fn cpu() -> Option<Duration> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }
}
