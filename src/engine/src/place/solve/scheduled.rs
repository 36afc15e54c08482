//! Placement of displaced pods by the scheduler: by its own scores, and not as the plan has it.
//!
//! The plan of a command fills nodes closely. The scheduler has no access to it: it takes the pods that come in place of the
//! evicted ones as they come, large ones first because they are evicted first (`lifecycle::node::drain`), and prefers the
//! node that has most left. Those it leaves over would get another node, which a later command would take away again. So
//! a command for which that is to be expected is not proposed.
//!
//! Scores are those of the default profile that do not depend on preferences of the pod: `NodeResourcesFit` with
//! `LeastAllocated` and `NodeResourcesBalancedAllocation`, of CPU and memory. What a node must have is asked of the same code as in
//! every simulation.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use karpenter_model::node::score::{Share, balanced, least_allocated};
use karpenter_model::{Launch, Node, PodKey, Resources, resources};

use super::simulation::Base;
use super::{JoinedOpen, Solver, Tried};
use crate::amounts::Amounts;
use crate::index::{InFlightIx, LevelIx, NodeIx, PodIx, ResourceIx};

/// A new node as the scheduler will see it.
struct Coming {
    allocatable: Amounts,
    left: Amounts,
    /// Number of the in-flight node, once a pod is on it.
    number: Option<InFlightIx>,
}

/// Place to which a pod may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    Existing(NodeIx),
    Coming,
}

/// The resources that count for scores.
type Counted = [ResourceIx; 2];

impl Solver<'_> {
    /// Returns whether the scheduler would find places for all pods of `removed` on the nodes that stay and on
    /// `replacement`, if there is one: a launch, and the least that it may have allocatable.
    pub(crate) fn survives(
        &mut self,
        removed: &[&Node],
        base: &Base,
        replacement: Option<(&Launch, Resources)>,
    ) -> bool {
        let Some(counted) = self.counted() else { return true };
        let (mut waiting, before) = self.displaced(removed, base);
        let mut coming = replacement.map(|(launch, least)| {
            let room = self.compiled.resources.known(&least.subtract(&self.daemons_of(launch, &waiting)));
            Coming { allocatable: room.clone(), left: room, number: None }
        });
        let survives = loop {
            let placed = self.filling.placed;
            waiting.retain(|index| !self.bind(*index, &mut coming, counted));
            if waiting.is_empty() || self.filling.placed == placed {
                break waiting.is_empty();
            }
        };
        self.take_back(before);
        survives
    }

    /// Returns the requests of `launch` beside those of its pods, all of which are among `displaced`.
    fn daemons_of(&self, launch: &Launch, displaced: &[PodIx]) -> Resources {
        let own: BTreeSet<&PodKey> = launch.pods.iter().collect();
        let pods = displaced.iter().map(|index| self.compiled.pod(*index));
        pods.filter(|pod| own.contains(&pod.key))
            .fold(launch.requests.clone(), |left, pod| left.subtract(&pod.requests))
    }

    fn counted(&self) -> Option<Counted> {
        let known = |name| self.compiled.resources.position(name);
        Some([known(resources::CPU)?, known(resources::MEMORY)?])
    }

    /// Puts the pod at `index` where the scheduler would, which asks for no preference; whether it has a place. Levels with
    /// fewer preferences come first, and all of them: each may stand for another of the terms of which one must hold.
    fn bind(&mut self, index: PodIx, coming: &mut Option<Coming>, counted: Counted) -> bool {
        let levels = self.compiled.levels(index).to_vec();
        levels.into_iter().rev().any(|level| self.bind_as(index, level, coming, counted))
    }

    /// Puts the pod where the scheduler would, at one level.
    fn bind_as(
        &mut self,
        index: PodIx,
        level: LevelIx,
        coming: &mut Option<Coming>,
        counted: Counted,
    ) -> bool {
        let demand = self.compiled.levels.demand(level);
        let amounts = demand.amounts.clone();
        let score = |left: &Amounts, allocatable: &Amounts| score(left, allocatable, &amounts, counted);
        let existing = self
            .filling
            .existing
            .taking(demand, &self.compiled.resources)
            .map(|(node, left, all)| (score(left, all), Choice::Existing(node)));
        let new = coming.iter().filter(|new| amounts.fits(&new.left));
        let new = new.map(|new| (score(&new.left, &new.allocatable), Choice::Coming));
        let mut choices: Vec<(i64, Choice)> = existing.chain(new).collect();
        let bound = self.filling.topology.bound(self.compiled.levels.profile(level));
        // The best one mostly takes the pod, so they are not sorted.
        while let Some(best) = index_of_best(&choices) {
            let (_, choice) = choices.swap_remove(best);
            let placed = match (choice, &mut *coming) {
                (Choice::Existing(node), _) => self.join_node(index, Some(node), level, bound),
                (Choice::Coming, Some(new)) => {
                    let joins = if let Some(number) = new.number {
                        matches!(self.join_open_node(index, Some(number), level, bound), JoinedOpen::Yes)
                    } else {
                        let number = self.filling.in_flight.end();
                        let opened = matches!(self.open_node(index, level, bound, None), Tried::Placed);
                        new.number = opened.then_some(number);
                        opened
                    };
                    if joins {
                        new.left.subtract(&amounts);
                    }
                    joins
                }
                (Choice::Coming, None) => false,
            };
            if placed {
                self.filling.has_placed(index, &self.compiled);
                return true;
            }
        }
        false
    }
}

/// Returns the index of the choice with the highest score; of equal ones the first by name.
fn index_of_best(choices: &[(i64, Choice)]) -> Option<usize> {
    let best = choices.iter().enumerate().min_by_key(|(_, (score, choice))| (Reverse(*score), *choice));
    best.map(|(index, _)| index)
}

/// Returns the score of the scheduler for a node with this much `left` of `allocatable` once a pod that asks for
/// `amounts` is there. Containers without requests count nothing here.
fn score(left: &Amounts, allocatable: &Amounts, amounts: &Amounts, counted: Counted) -> i64 {
    let shares = counted.map(|name| {
        let allocatable = allocatable.at(name);
        Share { requested: allocatable - left.at(name) + amounts.at(name), allocatable }
    });
    least_allocated(shares) + balanced(shares)
}
