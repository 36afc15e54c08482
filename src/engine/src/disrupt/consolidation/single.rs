//! One node at a time, replaced by at most one (spec disruption 3.12).
//!
//! Nodes are looked at in turns over the pools, in order of savings within each, and every node once before any
//! is looked at again, however many passes that takes: a large cluster never loses its tail.

use std::collections::BTreeMap;

use karpenter_model::{PoolName, Snapshot};

use super::judge::{Proposal, judge};
use super::refusal::Refusal;
use super::simulations::Simulations;
use crate::disrupt::candidate::Candidate;
use crate::place::what_if::{Patience, Simulated};

/// `candidates`, which are in order of savings, in turns over the pools; those `seen` already in this round last.
pub(crate) fn in_turns<'a>(
    candidates: &[Candidate<'a>],
    seen: impl Fn(&Candidate<'a>) -> bool,
) -> Vec<Candidate<'a>> {
    let mut turns: BTreeMap<&PoolName, usize> = BTreeMap::new();
    let mut ordered: Vec<(bool, usize, &PoolName, &Candidate<'a>)> = Vec::new();
    for candidate in candidates {
        let turn = turns.entry(&candidate.pool.name).or_default();
        ordered.push((seen(candidate), *turn, &candidate.pool.name, candidate));
        *turn += 1;
    }
    // Each pool has one candidate per turn, so the order is total.
    ordered.sort_by_key(|(seen, turn, pool, _)| (*seen, *turn, *pool));
    ordered.into_iter().map(|(_, _, _, candidate)| candidate.clone()).collect()
}

/// Judges whether `candidate` may be removed alone.
pub(crate) fn alone<'a>(
    candidate: &Candidate<'a>,
    simulated: Simulated,
    snapshot: &Snapshot,
) -> Result<Proposal<'a>, Refusal> {
    judge(std::slice::from_ref(candidate), simulated, snapshot)
}

/// Simulates the pods of each of `candidates` alone, as far as simulations are left.
pub(crate) fn simulate(simulations: &mut Simulations<'_>, candidates: &[Candidate<'_>]) -> Vec<Simulated> {
    let nodes: Vec<_> = candidates.iter().map(|candidate| candidate.node).collect();
    simulations.simulate_each(&nodes, Patience::Full)
}
