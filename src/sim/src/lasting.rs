//! Faults that last: states of the world, not of single requests. Equal faults may overlap; their effect ends with the last of
//! them.

use karpenter_aws_sim::OfferingSelector;
use parking_lot::Mutex;

use crate::weather::Hidden;

/// A fault that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// EC2 has no capacity for exactly these offerings.
    CapacityLoss(OfferingSelector),
    /// EC2 does not find something.
    Hidden(Hidden),
    /// Machines that boot do not join.
    NeverJoin,
}

/// The faults that have begun and not ended; equal ones are in it several times.
#[derive(Default)]
pub(crate) struct Begun(Mutex<Vec<Lasting>>);

impl Begun {
    /// One more begins.
    pub(crate) fn add(&self, fault: Lasting) {
        self.0.lock().push(fault);
    }

    /// One of those that are equal to `fault` ends; whether it was the last.
    pub(crate) fn end_one(&self, fault: &Lasting) -> bool {
        let mut begun = self.0.lock();
        if let Some(index) = begun.iter().position(|one| one == fault) {
            begun.remove(index);
        }
        !begun.contains(fault)
    }
}
