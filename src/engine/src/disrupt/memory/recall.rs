//! The last decision that changed nothing, for the passes of a cluster without changes: it is the decision of the next pass
//! too, as long as its input is the same and no instant has come at which time alone changes it. The comparison allocates
//! nothing.
//!
//! Objects it was made from are held here, so that equal pointers mean equal objects. A revision alone would do for
//! the snapshots of one index; the pointers cost microseconds and hold for any caller.

use std::collections::BTreeSet;
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
            && self.snapshot.revision == snapshot.revision
            && self.snapshot.shows_the_same(snapshot);
        same.then_some(&self.decision)
    }
}
