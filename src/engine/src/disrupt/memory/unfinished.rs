//! Time for which a method has been searching without finishing.
//!
//! A pass has a limit on simulations, and the next one goes on: on a large cluster that is normal, and no reason to
//! raise an alert. It becomes one when the look takes longer than the reference would let it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::Method;

/// Time at which each unfinished method began to search, or was last reported as slow.
#[derive(Debug, Clone, Default)]
pub(super) struct Unfinished(BTreeMap<Method, Timestamp>);

impl Unfinished {
    /// A pass is over; true once for every time limit that `method` has been looking for.
    pub(super) fn note(&mut self, method: Method, unfinished: bool, now: Timestamp) -> bool {
        if !unfinished {
            self.0.remove(&method);
            return false;
        }
        let since = self.0.entry(method).or_insert(now);
        let late = now.duration_since(*since) >= limit(method);
        if late {
            // The next limit begins: the reference counts a timeout each time a search runs into its
            // deadline.
            *since = now;
        }
        late
    }
}

/// The deadlines of the reference (spec disruption 3.11 and 3.12).
const fn limit(method: Method) -> SignedDuration {
    match method {
        Method::MultiNode => SignedDuration::from_mins(1),
        // Of the others only one by one has a deadline in the reference, and it is the longer one.
        Method::Repair
        | Method::Emptiness
        | Method::StaticDrift
        | Method::Drift
        | Method::ManyToMany
        | Method::SingleNode => SignedDuration::from_mins(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_goes_on_is_late_once_per_limit_and_one_that_ends_begins_again() {
        let (mut unfinished, method) = (Unfinished::default(), Method::SingleNode);
        let mut pass =
            |second, going_on| unfinished.note(method, going_on, Timestamp::from_second(second).unwrap());
        let late: Vec<i64> = (0..60).map(|pass| pass * 10).filter(|second| pass(*second, true)).collect();
        assert_eq!(late, [180, 360, 540]);
        assert!(!pass(600, false));
        assert!(!pass(610, true));
        assert!(!pass(780, true));
        assert!(pass(790, true));
    }
}
