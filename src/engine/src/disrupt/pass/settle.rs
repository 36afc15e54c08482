//! Detection of methods that would examine the same input again. The input of a method that has looked at everything and
//! found nothing to do is remembered, as a number, with the reasons it gave; as long as the input is the same, the reasons
//! are given again and nothing is simulated.
//!
//! The input is the revision of the snapshot, the nodes the method could choose, and the rest of the budgets. At the
//! [`horizon`], where time alone may change an outcome, everything is looked at again.

use std::hash::Hash;

use jiff::Timestamp;
use karpenter_model::{Method, NodeId, NodeOutcome, Reason};

use super::Pass;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::horizon::horizon;
use crate::disrupt::input::Input;

impl<'a> Pass<'a> {
    /// Returns the input of `method`; `None` if it is the same as when the method last found nothing to do, and then the
    /// reasons are recorded again.
    pub(crate) fn unsettled(&mut self, method: Method, eligible: &[Candidate<'a>]) -> Option<Input> {
        let input = self.input(method, eligible);
        let Some(reasons) = self.memory.settled(method, input) else { return Some(input) };
        let reasons: Vec<(NodeId, Reason)> = reasons.to_vec();
        for (node, reason) in reasons {
            self.keep(&node, reason);
        }
        None
    }

    /// `method` has looked at all of `eligible` and found nothing to do.
    pub(crate) fn settle(&mut self, method: Method, input: Input, eligible: &[Candidate<'a>]) {
        let reason = |candidate: &Candidate<'_>| match self.decision.nodes.get(&candidate.node.id) {
            Some(NodeOutcome::Kept(reason)) => Some((candidate.node.id.clone(), reason.clone())),
            Some(NodeOutcome::Removed(_) | NodeOutcome::Rebooted) | None => None,
        };
        let reasons = eligible.iter().filter_map(reason).collect();
        let until = self.horizon();
        self.memory.settle(method, input, until, reasons);
    }

    /// Returns when time alone may change an outcome.
    fn horizon(&mut self) -> Timestamp {
        *self.horizon.get_or_insert_with(|| horizon(self.snapshot, self.memory))
    }

    fn input(&self, method: Method, eligible: &[Candidate<'a>]) -> Input {
        Input::of(|hasher| {
            self.snapshot.revision.hash(hasher);
            self.taken.hash(hasher);
            for candidate in eligible {
                candidate.node.id.hash(hasher);
                candidate.price.hash(hasher);
                // Budgets depend on the time and on the commands of this pass, which the revision does not
                // cover.
                self.check_budget(method, candidate).is_ok().hash(hasher);
            }
        })
    }
}
