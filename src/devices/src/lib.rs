//! Allocation of devices to the claims of a pod on a machine, existing or new (`resource.k8s.io/v1`;
//! spec scheduling 22.2).
//!
//! [`Allocator`] is asked for one pod and one candidate at a time and answers with a [`Proposal`]: the instance
//! types of the candidate that have the devices, and what its requirements must be besides. Nothing is taken until
//! the proposal is committed. Everything taken is kept in a ledger that is cheap to copy, so a question can be
//! taken back by putting the old ledger in its place.
//!
//! Everything a claim can take of a device is an amount of a *meter*: an exclusive device is a meter of one, a
//! shared device has one per capacity, a pool has one per counter. While it is open which type a machine will be,
//! it takes the most that any of its types takes; devices of its other types do not matter to a type. The search is
//! depth first with a bound on its steps, never on time: the same input gives the same answer.

mod allocator;
mod capacity;
mod claim;
mod index;
mod ledger;
mod refusal;
mod selector;

pub use allocator::{Allocator, Candidate, ComingUp, Counted, DeviceRef, Place, Proposal};
pub use claim::ClaimId;
pub use ledger::{Ledger, Spot};
pub use refusal::Refusal;

#[cfg(test)]
mod tests;
