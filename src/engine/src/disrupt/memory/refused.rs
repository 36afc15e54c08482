//! Nodes a second look found something against, and those of commands that failed. Proposed again at once they
//! would be refused or fail again, so they wait: for half a minute at first, twice as long each time until a command
//! succeeds, at most as long as a method believes that there is nothing.
//!
//! An objection to a node counts for every method that would take it for the same reason. An objection to the
//! set of nodes it was to go with counts for the method that chose that set.
//!
//! Bounded: a node that was not refused again is forgotten a while after its wait is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::{later, since};
use karpenter_model::report::ReasonCode;
use karpenter_model::{DisruptionReason, Method, NodeId, Reason};

use super::SETTLED_FOR;
use crate::disrupt::RejectionKind;

/// The first wait, twice the usual time until a second look.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait, and how long a node is remembered after its wait.
const LONGEST_WAIT: Duration = SETTLED_FOR;

/// Methods that must not propose a node for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Every method that would take it for this reason.
    Reason(DisruptionReason),
    /// This method of consolidation.
    Method(Method),
}

impl Scope {
    /// The scope of a rejection of a command of `method`.
    pub(crate) fn of(method: Method, kind: RejectionKind) -> Self {
        // A finding of one method of consolidation does not hold for another: nodes that cannot go together may go alone.
        let of_group = match kind {
            RejectionKind::Scheduling | RejectionKind::Price | RejectionKind::Score => true,
            RejectionKind::Churn | RejectionKind::Budget => false,
        };
        match method {
            Method::MultiNode | Method::SingleNode | Method::ManyToMany if of_group => Self::Method(method),
            Method::Repair
            | Method::Emptiness
            | Method::StaticDrift
            | Method::Drift
            | Method::MultiNode
            | Method::SingleNode
            | Method::ManyToMany => Self::Reason(method.reason()),
        }
    }

    fn reason(self) -> DisruptionReason {
        match self {
            Self::Reason(reason) => reason,
            Self::Method(method) => method.reason(),
        }
    }
}

/// Nodes that wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused(BTreeMap<(Scope, NodeId), Refusal>);

/// Reason against a node.
#[derive(Debug, Clone)]
struct Refusal {
    until: Timestamp,
    wait: Duration,
    why: String,
}

impl Refused {
    /// `nodes` were rejected by a second look, or their command failed.
    pub(crate) fn note<'n>(
        &mut self,
        scope: Scope,
        nodes: impl Iterator<Item = &'n NodeId>,
        why: &str,
        now: Timestamp,
    ) {
        for node in nodes {
            let key = (scope, node.clone());
            let before = self.0.get(&key).map_or(Duration::ZERO, |known| known.wait);
            let wait = (before + before).clamp(FIRST_WAIT, LONGEST_WAIT);
            let until = later(now, wait);
            let why = format!("{why}, until {until}");
            self.0.insert(key, Refusal { until, wait, why });
        }
    }

    /// Returns why `node` must not be removed within `scope` yet.
    pub(crate) fn why(&self, scope: Scope, node: &NodeId, now: Timestamp) -> Option<Reason> {
        if self.0.is_empty() {
            return None;
        }
        let refusal = self.0.get(&(scope, node.clone())).filter(|refusal| now < refusal.until)?;
        Some(Reason::new(ReasonCode::Rejected, &refusal.why))
    }

    /// `nodes` went for `reason` after all.
    pub(crate) fn went<'n>(&mut self, reason: DisruptionReason, nodes: impl Iterator<Item = &'n NodeId>) {
        if self.0.is_empty() {
            return;
        }
        let gone: BTreeSet<&NodeId> = nodes.collect();
        self.0.retain(|(scope, node), _| scope.reason() != reason || !gone.contains(node));
    }

    /// Forgets those whose wait has been over for long.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, refusal| since(refusal.until, now) < LONGEST_WAIT);
    }

    /// Instants at which waits are over.
    pub(crate) fn instants(&self) -> impl Iterator<Item = Timestamp> {
        self.0.values().map(|refusal| refusal.until)
    }
}
