//! The last decision that changed nothing, for the passes of a cluster that stands still: as long as nothing it was
//! made from is different, and no instant has come at which time alone changes an answer, it is the decision of the
//! next pass too. Asking allocates nothing.
//!
//! What it was made from is held here, so that equal pointers mean equal objects. A revision alone would do for the
//! snapshots of one index; the pointers cost microseconds and hold for any caller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::{Command, NodeId, Snapshot};

use crate::disrupt::{Decision, Standing};

/// A decision, and until when it stands if nothing changes.
#[derive(Debug, Clone)]
pub(crate) struct Recall {
    snapshot: Snapshot,
    proposed: Vec<Command>,
    running: BTreeSet<NodeId>,
    until: Timestamp,
    decision: Arc<Decision>,
}

impl Recall {
    /// `decision` was made from `snapshot` and `standing`; time changes nothing before `until`.
    pub(crate) fn new(
        snapshot: &Snapshot,
        standing: &Standing<'_>,
        until: Timestamp,
        decision: &Arc<Decision>,
    ) -> Self {
        Self {
            snapshot: snapshot.clone(),
            proposed: standing.proposed.to_vec(),
            running: standing.running.clone(),
            until,
            decision: Arc::clone(decision),
        }
    }

    /// The decision, if it is the one for `snapshot` and `standing` too.
    pub(crate) fn decision(&self, snapshot: &Snapshot, standing: &Standing<'_>) -> Option<&Arc<Decision>> {
        // A clock that was set back may be inside a window again.
        let in_time = (self.snapshot.now..self.until).contains(&snapshot.now);
        let same = in_time
            && self.running == *standing.running
            && self.proposed == standing.proposed
            && same(&self.snapshot, snapshot);
        same.then_some(&self.decision)
    }
}

/// Whether two snapshots hold the same things, apart from the instant. Equal things at different addresses count as
/// different.
fn same(known: &Snapshot, new: &Snapshot) -> bool {
    known.revision == new.revision
        && Arc::ptr_eq(&known.settings, &new.settings)
        && Arc::ptr_eq(&known.registry, &new.registry)
        && same_list(&known.pools, &new.pools)
        && same_map(&known.instance_types, &new.instance_types)
        && same_list(&known.nodes, &new.nodes)
        && same_list(&known.pending, &new.pending)
        && same_list(&known.daemons, &new.daemons)
        && same_map(&known.volumes, &new.volumes)
        && known.namespaces == new.namespaces
        && known.budgets == new.budgets
        && same_devices(known, new)
        && known.zones_away == new.zones_away
}

/// Whether the same devices are there, as far as they count. Every snapshot has a list of its own of what is there.
fn same_devices(known: &Snapshot, new: &Snapshot) -> bool {
    known.settings.ignore_dra_requests || known.devices == new.devices
}

fn same_list<T>(known: &[Arc<T>], new: &[Arc<T>]) -> bool {
    known.len() == new.len() && known.iter().zip(new).all(|(known, new)| Arc::ptr_eq(known, new))
}

fn same_map<K: Eq, T: ?Sized>(known: &BTreeMap<K, Arc<T>>, new: &BTreeMap<K, Arc<T>>) -> bool {
    let mut pairs = known.iter().zip(new);
    known.len() == new.len()
        && pairs.all(|((key, known), (other, new))| key == other && Arc::ptr_eq(known, new))
}
