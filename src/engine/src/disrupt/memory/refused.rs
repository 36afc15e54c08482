//! Machines a second look found something against. Proposed again at once they would be refused again, so they wait:
//! for half a minute at first, twice as long each time, at most as long as a method believes that there is nothing.
//!
//! Bounded: a machine that was not refused anew is forgotten a while after its wait is over.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::report::ReasonCode;
use karpenter_model::{DisruptionReason, NodeId, Reason};

use super::SETTLED_FOR;
use crate::disrupt::Rejection;

/// The first wait, twice the usual time until a second look.
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(30);
/// The longest wait, and how long a machine is remembered after its wait.
const LONGEST_WAIT: SignedDuration = SETTLED_FOR;

/// Machines that wait, by what they were to go for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused(BTreeMap<(DisruptionReason, NodeId), Refusal>);

/// What was said against a machine.
#[derive(Debug, Clone)]
struct Refusal {
    until: Timestamp,
    wait: SignedDuration,
    why: String,
}

impl Refused {
    /// A second look spoke against machines that were to go for `reason`.
    pub(crate) fn note(&mut self, reason: DisruptionReason, rejection: &Rejection, now: Timestamp) {
        for node in &rejection.nodes {
            let key = (reason, node.clone());
            let before = self.0.get(&key).map_or(SignedDuration::ZERO, |known| known.wait);
            let wait = (before + before).clamp(FIRST_WAIT, LONGEST_WAIT);
            let until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
            let why = format!("{}: {}, until {until}", rejection.kind, rejection.detail);
            self.0.insert(key, Refusal { until, wait, why });
        }
    }

    /// Why `node` does not go for `reason` yet.
    pub(crate) fn why(&self, reason: DisruptionReason, node: &NodeId, now: Timestamp) -> Option<Reason> {
        if self.0.is_empty() {
            return None;
        }
        let refusal = self.0.get(&(reason, node.clone())).filter(|refusal| now < refusal.until)?;
        Some(Reason::new(ReasonCode::Rejected, &refusal.why))
    }

    /// `nodes` go for `reason` after all.
    pub(crate) fn went<'n>(&mut self, reason: DisruptionReason, nodes: impl Iterator<Item = &'n NodeId>) {
        for node in nodes {
            self.0.remove(&(reason, node.clone()));
        }
    }

    /// Forgets those whose wait has been over for long.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, refusal| now.duration_since(refusal.until) < LONGEST_WAIT);
    }

    /// Instants at which waits are over.
    pub(crate) fn instants(&self) -> impl Iterator<Item = Timestamp> {
        self.0.values().map(|refusal| refusal.until)
    }
}
