//! Which machines may go. One method per file; today only machines nobody needs (spec core-disruption 3.6).

mod budget;
mod candidate;
mod cron;
mod empty;
mod price;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{NodeId, NodeOutcome, Removal, Snapshot};

/// Empty machines to remove as far as budgets allow, and why each other machine stays.
pub fn empty(snapshot: &Snapshot) -> (Vec<Removal>, BTreeMap<NodeId, NodeOutcome>) {
    empty_except(snapshot, &BTreeSet::new())
}

/// The same, for a pass that has just sent pods to the machines in `used`.
pub(crate) fn empty_except(
    snapshot: &Snapshot,
    used: &BTreeSet<NodeId>,
) -> (Vec<Removal>, BTreeMap<NodeId, NodeOutcome>) {
    empty::removals(snapshot, used)
}
