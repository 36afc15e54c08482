//! Purchases until every pod of a plan is bound.

use karpenter_model::Snapshot;

use crate::filled::{Circumstances, fill, price_of};

/// Circumstances that are tried, by name.
pub(crate) const ALL: [(&str, Circumstances); 4] = [
    ("named, together", Circumstances { named: true, parts: 1 }),
    ("named, in thirds", Circumstances { named: true, parts: 3 }),
    ("unnamed, together", Circumstances { named: false, parts: 1 }),
    ("unnamed, in thirds", Circumstances { named: false, parts: 3 }),
];

/// Purchases until all pods are bound.
pub(crate) struct Bought {
    /// Their price as a share of that of the first plan.
    pub(crate) price: f64,
    pub(crate) machines: usize,
}

/// Plays the pods of `snapshot` until all are bound.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn bought(snapshot: &Snapshot, circumstances: Circumstances) -> Bought {
    let plans = fill(&mut snapshot.clone(), circumstances);
    let price: i64 = plans.iter().map(price_of).sum();
    let first = plans.first().map_or(1, price_of).max(1);
    Bought {
        price: price as f64 / first as f64,
        machines: plans.iter().map(|plan| plan.launches.len()).sum(),
    }
}
