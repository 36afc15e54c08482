//! Places for the pods of some nodes if those were gone (spec disruption 3.5).
//!
//! One compiled base per snapshot, one cheap overlay per simulation, undone afterwards: the result does not
//! depend on what was asked before. Pods that wait anyway, and those of terminating nodes, get their places
//! first and once: the scheduler will have placed them long before anything is evicted. Unlike the reference, they
//! are neither served again in every simulation nor share a new node with pods that would have to move, and one
//! of them that has no place stops nothing.

use std::collections::BTreeSet;

use karpenter_model::clock::since;
use karpenter_model::{ConditionType, Launch, Node, NodeId, Resources, Snapshot};

use crate::place::solve::Solver;
use crate::place::solve::simulation::Base;

pub(crate) use crate::place::claim::note_overlays;
pub(crate) use crate::place::claim::{Quote, Quoted};
pub(crate) use crate::place::constraint::min_values;
pub(crate) use crate::place::solve::simulation::{Patience, Simulated};

/// Nodes that may take the pods that would have to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Destinations {
    /// Every node that stays.
    All,
    /// Nodes outside the `consolidateAfter` window of their pool; for consolidation.
    Quiet,
}

/// Simulates the removal of nodes.
#[derive(Debug, Clone)]
pub(crate) struct WhatIf<'a> {
    solver: Solver<'a>,
    base: Base,
}

impl<'a> WhatIf<'a> {
    /// Simulations on `snapshot`; only nodes of `movable` can be removed.
    pub(crate) fn new(snapshot: &'a Snapshot, movable: &[&'a Node], destinations: Destinations) -> Self {
        Self::beside(snapshot, movable, destinations, &BTreeSet::new())
    }

    /// Simulations as in [`Self::new`], in which pods that would have to move do not go to nodes that are `taken`.
    pub(crate) fn beside(
        snapshot: &'a Snapshot,
        movable: &[&'a Node],
        destinations: Destinations,
        taken: &BTreeSet<NodeId>,
    ) -> Self {
        let unquiet = |node: &Node| destinations == Destinations::Quiet && is_busy(node, snapshot);
        let busy = |node: &Node| taken.contains(&node.id) || unquiet(node);
        let (solver, base) = Solver::reversible(snapshot, movable, busy);
        Self { solver, base }
    }

    /// Simulates placing the pods of `removed` elsewhere.
    pub(crate) fn without(&mut self, removed: &[&Node], patience: Patience) -> Simulated {
        let (simulated, before) = self.solver.without(removed, &self.base, patience);
        self.solver.take_back(before);
        simulated
    }

    /// Returns whether the scheduler, which places pods as they arrive and by its own scores, would find places for all pods
    /// of `removed` where `replacements` take the place of those nodes.
    pub(crate) fn survives(
        &mut self,
        removed: &[&Node],
        replacements: &[Launch],
        snapshot: &Snapshot,
    ) -> bool {
        let replacements: Vec<_> =
            replacements.iter().map(|launch| (launch, least_allocatable(launch, snapshot))).collect();
        self.solver.survives(removed, &self.base, &replacements)
    }

    /// `removed` are gone from now on, and their pods are where [`Self::without`] places them.
    pub(crate) fn commit(&mut self, removed: &[&Node]) -> Simulated {
        let (simulated, before) = self.solver.without(removed, &self.base, Patience::Full);
        self.solver.keep(&before, &mut self.base);
        simulated
    }
}

/// The least that `launch` may have allocatable.
fn least_allocatable(launch: &Launch, snapshot: &Snapshot) -> Resources {
    let types = snapshot.instance_types.get(&launch.pool).map_or(&[][..], |types| types);
    let chosen: BTreeSet<_> = launch.instance_types.iter().collect();
    let all: Vec<Resources> =
        types.iter().filter(|one| chosen.contains(&one.name)).map(|one| one.allocatable()).collect();
    Resources::min(&all)
}

/// Returns whether `node` is still inside the window in which pods come and go, so that more should not be sent there.
fn is_busy(node: &Node, snapshot: &Snapshot) -> bool {
    let Some(claim) = node.claim.as_deref() else { return false };
    let pool = node.pool();
    let pool = snapshot.pools.iter().find(|candidate| Some(&candidate.name) == pool.as_ref());
    let window = pool.and_then(|pool| pool.disruption.consolidate_after);
    // The window begins with initialization (spec scheduling 13.1).
    if !claim.is_true(ConditionType::Initialized) {
        return false;
    }
    claim.quiet_since().zip(window).is_some_and(|(quiet, window)| since(quiet, snapshot.now) < window)
}

#[cfg(test)]
mod tests;
