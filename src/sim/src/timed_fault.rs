//! Faults of the world over a span of time, in contrast to faults of single requests ([`crate::weather`]). Equal faults may
//! overlap; their effect ends with the last of them.

use karpenter_aws_sim::OfferingSelector;
use parking_lot::Mutex;

use crate::fault_injector::Hidden;

/// Fault with a beginning and an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TimedFault {
    /// EC2 has no capacity for exactly these offerings.
    CapacityLoss(OfferingSelector),
    /// EC2 does not find something.
    Hidden(Hidden),
    /// Machines that boot do not join.
    NeverJoin,
}

/// Faults that have begun and not ended; equal ones are in the list several times.
#[derive(Default)]
pub(crate) struct Begun(Mutex<Vec<TimedFault>>);

impl Begun {
    /// Adds a fault that begins.
    pub(crate) fn add(&self, fault: TimedFault) {
        self.0.lock().push(fault);
    }

    /// Removes one fault that is equal to `fault`; returns whether it was the last.
    pub(crate) fn end_one(&self, fault: &TimedFault) -> bool {
        let mut begun = self.0.lock();
        if let Some(index) = begun.iter().position(|one| one == fault) {
            begun.remove(index);
        }
        !begun.contains(fault)
    }
}
