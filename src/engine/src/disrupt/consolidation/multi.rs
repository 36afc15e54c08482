//! Several nodes at once, replaced by at most one (spec disruption 3.11).
//!
//! First the longest prefix of the nodes in order of savings that may go together, found by halving, as in the
//! reference. Then what a prefix cannot find: nodes further back that may go along, or two that go well together
//! where no prefix does; those are tried first whose pods ask for what the others leave free.
//!
//! Sets that are found are placed as the scheduler would. That takes longer than a simulation, so only where it leaves pods
//! over is every examined set placed so, and none is made longer then.

use karpenter_model::{Node, Snapshot};

use super::complement::ResourceMix;
use super::judge::{Proposal, judge};
use super::simulations::Simulations;
use crate::disrupt::balanced::{Judgement, Totals};
use crate::disrupt::brake;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::memory::Memory;
use crate::place::what_if::Patience;

/// Most nodes of one command.
pub(crate) const MAX_BATCH: usize = 100;
/// Nodes that are tried on top of what was found, and pairs that are tried where nothing was.
const MAX_EXTRAS: usize = 24;
/// Nodes that look for a partner, and partners each of them tries.
const PARTNERS: (usize, usize) = (8, 3);

/// A search for nodes that may go together.
pub(crate) struct Search<'s, 'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) simulations: &'s mut Simulations<'a>,
    pub(crate) totals: &'s Totals,
    pub(crate) memory: &'s mut Memory,
    /// The last move a `Balanced` pool was against.
    pub(crate) rejected: Option<Judgement>,
    /// Something would have gone if its replacements could be relied upon.
    pub(crate) held: bool,
    /// True if every examined set is placed as the scheduler would place it.
    pub(crate) plays: bool,
}

/// Nodes that may go together and should.
#[derive(Debug, Clone)]
pub(crate) struct Found<'a> {
    pub(crate) proposal: Proposal<'a>,
    pub(crate) judgement: Judgement,
}

impl<'a> Search<'_, 'a> {
    /// The best set of at least two of `candidates`, which are in order of savings.
    pub(crate) fn best(&mut self, candidates: &[Candidate<'a>]) -> Option<Found<'a>> {
        let batch = &candidates[..candidates.len().min(MAX_BATCH)];
        let found = self.prefix(batch).or_else(|| self.pair(batch))?;
        let found = self.extended(found, batch);
        if self.simulations.survives(&found.proposal, self.snapshot) {
            return Some(found);
        }
        // Only now, because placing every examined set as the scheduler would costs more, and seldom changes the result.
        self.plays = true;
        self.prefix(batch).or_else(|| self.pair(batch))
    }

    /// The longest prefix that halving finds.
    fn prefix(&mut self, batch: &[Candidate<'a>]) -> Option<Found<'a>> {
        // One node alone is left to the method for single nodes.
        let (mut low, mut high) = (2, batch.len());
        let mut best = None;
        while low <= high {
            let length = low.midpoint(high);
            match self.attempt(&batch[..length]) {
                Some(found) => {
                    best = Some(found);
                    low = length + 1;
                }
                None => high = length - 1,
            }
        }
        best
    }

    /// Two nodes whose pods complement each other.
    fn pair(&mut self, batch: &[Candidate<'a>]) -> Option<Found<'a>> {
        let (seekers, partners) = PARTNERS;
        for (index, first) in batch.iter().enumerate().take(seekers) {
            let others = batch.iter().skip(index + 1);
            let mix = ResourceMix::of(std::slice::from_ref(first));
            for second in mix.best_matches(others).into_iter().take(partners) {
                if let Some(found) = self.attempt(&[first.clone(), second.clone()]) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// `found` with further nodes of `batch`, as long as each saves more.
    fn extended(&mut self, mut found: Found<'a>, batch: &[Candidate<'a>]) -> Found<'a> {
        let is_in = |found: &Found<'a>, one: &Candidate<'a>| {
            found.proposal.candidates.iter().any(|member| member.node.id == one.node.id)
        };
        let others = batch.iter().filter(|one| !is_in(&found, one));
        let extras = ResourceMix::of(&found.proposal.candidates).best_matches(others);
        for extra in extras.into_iter().take(MAX_EXTRAS) {
            if found.proposal.candidates.len() >= MAX_BATCH {
                break;
            }
            let mut more = found.proposal.candidates.clone();
            more.push(extra.clone());
            if let Some(better) = self.attempt(&more)
                && better.proposal.savings() > found.proposal.savings()
            {
                found = better;
            }
        }
        found
    }

    /// Returns the proposal for `candidates` if they may be removed together and should be.
    fn attempt(&mut self, candidates: &[Candidate<'a>]) -> Option<Found<'a>> {
        let nodes: Vec<&Node> = candidates.iter().map(|candidate| candidate.node).collect();
        // A second launch would be refused anyway, so the simulation may stop there.
        let simulated = self.simulations.simulate(&nodes, Patience::Until { launches: 1 })?;
        let proposal = judge(candidates, simulated, self.snapshot).ok()?;
        self.approved(proposal)
    }

    /// The proposal, if it is worth it and nothing holds it.
    pub(crate) fn approved(&mut self, proposal: Proposal<'a>) -> Option<Found<'a>> {
        let members: Vec<&Candidate<'_>> = proposal.candidates.iter().collect();
        let judgement = self.totals.judge(&members, proposal.replacement_price);
        if !judgement.approves() {
            self.rejected = Some(judgement);
            return None;
        }
        if self.plays && !self.simulations.survives(&proposal, self.snapshot) {
            return None;
        }
        if brake::health_gates(&proposal.replacements, self.memory, self.snapshot).is_err() {
            self.held = true;
            return None;
        }
        Some(Found { proposal, judgement })
    }
}
