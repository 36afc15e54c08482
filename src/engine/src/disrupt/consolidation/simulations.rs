//! A bounded pool of what-if simulations: a number per pass, on all cores where there are many to run.
//!
//! Results come back in the order of the nodes asked about and do not depend on which core computed them: every core
//! works on its own copy of the same starting point and undoes each simulation before the next one.

use std::num::NonZero;
use std::thread;

use karpenter_model::{Node, Snapshot};

use super::judge::Proposal;
use crate::place::what_if::{Patience, Simulated, WhatIf};

/// Below this many simulations the copy for another core costs more than it saves.
const WORTH_A_CORE: usize = 48;
/// Most cores used: each holds a copy of the what-if state.
const MAX_CORES: usize = 8;

/// The simulations a method may still run, and the state they run on.
#[derive(Debug)]
pub(crate) struct Simulations<'a> {
    /// Equal copies, one per core; the first always exists.
    what_ifs: Vec<WhatIf<'a>>,
    left: usize,
    ran: usize,
}

impl<'a> Simulations<'a> {
    /// Simulations on `what_if`; none is allowed yet.
    pub(crate) fn new(what_if: WhatIf<'a>) -> Self {
        Self { what_ifs: vec![what_if], left: 0, ran: 0 }
    }

    /// Allows `count` simulations from here on.
    pub(crate) fn allow(&mut self, count: u32) {
        (self.left, self.ran) = (usize::try_from(count).unwrap_or(usize::MAX), 0);
    }

    /// Simulations that may still run.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Simulations run since the last [`Self::allow`].
    pub(crate) fn ran(&self) -> u32 {
        u32::try_from(self.ran).unwrap_or(u32::MAX)
    }

    /// Simulates the pods of `removed`; `None` once the allowance is used up.
    pub(crate) fn simulate(&mut self, removed: &[&Node], patience: Patience) -> Option<Simulated> {
        self.charge(1)?;
        self.what_ifs.first_mut().map(|what_if| what_if.without(removed, patience))
    }

    /// Simulates each of `nodes` alone, as far as the allowance goes.
    pub(crate) fn simulate_each(&mut self, nodes: &[&Node], patience: Patience) -> Vec<Simulated> {
        let nodes = &nodes[..nodes.len().min(self.left)];
        if self.charge(nodes.len()).is_none() {
            return Vec::new();
        }
        let cores = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_CORES);
        let cores = cores.min(nodes.len() / WORTH_A_CORE).max(1);
        while self.what_ifs.len() < cores {
            self.what_ifs.extend_from_within(..1);
        }
        let share = nodes.len().div_ceil(cores).max(1);
        let run = |what_if: &mut WhatIf<'a>, share: &[&Node]| -> Vec<Simulated> {
            share.iter().map(|node| what_if.without(&[node], patience)).collect()
        };
        if cores == 1 {
            return self.what_ifs.first_mut().map_or(Vec::new(), |what_if| run(what_if, nodes));
        }
        thread::scope(|scope| {
            let work = self.what_ifs.iter_mut().zip(nodes.chunks(share));
            let workers: Vec<_> =
                work.map(|(what_if, share)| scope.spawn(move || run(what_if, share))).collect();
            let results = workers.into_iter().map(thread::ScopedJoinHandle::join);
            results.flat_map(|results| results.expect("invariant: the planner does not panic")).collect()
        })
    }

    /// Returns whether the scheduler would find places for all pods of `proposal`. Free of charge: it follows a
    /// simulation.
    pub(crate) fn survives(&mut self, proposal: &Proposal<'_>, snapshot: &Snapshot) -> bool {
        let removed: Vec<&Node> = proposal.candidates.iter().map(|candidate| candidate.node).collect();
        let what_if = self.what_ifs.first_mut();
        what_if.is_none_or(|what_if| what_if.survives(&removed, &proposal.replacements, snapshot))
    }

    /// Makes the removal of `removed` permanent on every copy. Free of charge: the simulation that proposed it was
    /// counted.
    pub(crate) fn commit(&mut self, removed: &[&Node]) -> Simulated {
        let mut simulated = Simulated::default();
        for what_if in &mut self.what_ifs {
            simulated = what_if.commit(removed);
        }
        simulated
    }

    fn charge(&mut self, count: usize) -> Option<()> {
        self.left = self.left.checked_sub(count).filter(|_| count > 0)?;
        self.ran += count;
        Some(())
    }
}

#[cfg(test)]
mod tests;
