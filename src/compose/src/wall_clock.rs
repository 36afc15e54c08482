//! The wall clock. Read here and nowhere else in the product: everything below receives the time.

use jiff::Timestamp;
use karpenter_model::Clock;

/// The time of the machine.
#[derive(Clone, Copy, Debug)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
