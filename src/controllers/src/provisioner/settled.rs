//! A plan that placed no pod is not made again for the same things.
//!
//! Pods that fit nowhere ask for a plan every ten seconds, and the planner is pure: as long as it is shown the same things
//! it says the same. Whatever may change that shows in the snapshot: machines, pods, pools and their instance types with
//! prices, offerings and overlays, daemons, volumes, and the pods that are held. The instant matters where nodes that are
//! leaving have pods, and there every pass makes a plan.

use std::sync::Arc;

use karpenter_model::{Plan, Report, Snapshot};
use parking_lot::Mutex;

/// The last plan that placed no pod.
#[derive(Clone, Default)]
pub(crate) struct Settled(Arc<Mutex<Option<Last>>>);

/// Input of a plan, and its report on why it placed no pod.
struct Last {
    input: Arc<Snapshot>,
    report: Report,
}

impl Settled {
    /// Report of a plan for `snapshot`, if it would place no pod because the last one did not.
    pub(super) fn recall(&self, snapshot: &Snapshot) -> Option<Report> {
        let last = self.0.lock();
        last.as_ref().filter(|last| last.input.shows_the_same(snapshot)).map(|last| last.report.clone())
    }

    /// Records what was planned for `snapshot`.
    pub(super) fn record(&self, snapshot: &Arc<Snapshot>, plan: &Plan, report: &Report) {
        let places_none = plan.launches.is_empty() && plan.nominations.is_empty() && plan.commands.is_empty();
        let leaving = snapshot.nodes.iter().any(|node| node.is_leaving() && !node.pods.is_empty());
        let settled = places_none && !leaving && !snapshot.pending.is_empty();
        let last = settled.then(|| Last { input: Arc::clone(snapshot), report: report.clone() });
        *self.0.lock() = last;
    }
}
