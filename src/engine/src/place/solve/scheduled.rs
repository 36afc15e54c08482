//! Placement of pods by the scheduler: by its own scores, and not as the plan has it.
//!
//! The plan of a command fills nodes closely. The scheduler has no access to it: it takes the pods that come in place of the
//! evicted ones as they come, large ones first because they are evicted first (`lifecycle::node::drain`), and prefers the
//! node that has most left. Those it leaves over would get another node, which a later command would take away again. So
//! a command for which that is to be expected is not proposed.
//!
//! Scores are those of the default profile that do not depend on preferences of the pod: `NodeResourcesFit` with
//! `LeastAllocated` and `NodeResourcesBalancedAllocation`, of CPU and memory. What a node must have is asked of the same code as in
//! every simulation. Of nodes with equal scores the scheduler draws one, and a command must hold for several orders of these.
//!
//! Plans for pods that wait are not chosen by this: pods name the nodes of their plan, to which the scheduler binds them then. For
//! measurements, pods that wait are [bound](Solver::bind_waiting) with names and without.

use std::cmp::Ordering;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use karpenter_model::node::score::{Share, balanced, least_allocated};
use karpenter_model::{Launch, Node, NodeId, PodKey, Resources, resources};

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

/// Place to which a pod may go; new nodes are the last by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    Existing(NodeIx),
    /// Position among the new nodes.
    Coming(usize),
}

/// The resources that count for scores.
type Counted = [ResourceIx; 2];

/// Order of nodes with equal scores. The scheduler draws one of them, so what is to hold must hold whichever end it draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ties {
    First,
    Last,
}

/// The stand-in of the scheduler in one run.
struct StandIn {
    ties: Ties,
    /// Set once nodes have had equal scores: another order may have another result.
    tied: bool,
    counted: Counted,
    coming: Vec<Coming>,
}

impl Solver<'_> {
    /// Returns the nodes that are up to which the scheduler would bind the pods that wait. A pod that was promised such a node
    /// names it: that node is tried first, and its room is kept for the pod.
    pub(crate) fn bind_waiting(mut self) -> Vec<(PodKey, NodeId)> {
        let Some(counted) = self.counted() else { return Vec::new() };
        let mut waiting: Vec<PodIx> = self.compiled.queue.positions().collect();
        // The order of the scheduler's queue: by priority, then as they came.
        waiting.sort_by_cached_key(|index| {
            let pod = self.compiled.pod(*index);
            (Reverse(pod.priority.unwrap_or(0)), pod.created_at, &pod.key)
        });
        let waiting = self.keep_promises(waiting);
        self.bind_all(waiting, &mut StandIn { ties: Ties::First, tied: false, counted, coming: Vec::new() });
        let bound = self.filling.joined.iter();
        bound.map(|(index, node)| (self.compiled.pod(*index).key.clone(), node.clone())).collect()
    }

    /// Returns whether the scheduler would find places for all pods of `removed` on the nodes that stay and on
    /// `replacements`: launches, each with the least that it may have allocatable.
    pub(crate) fn survives(
        &mut self,
        removed: &[&Node],
        base: &Base,
        replacements: &[(&Launch, Resources)],
    ) -> bool {
        // Nothing asks for CPU or memory, and then the scheduler has no scores by which it could prefer other
        // nodes.
        let Some(counted) = self.counted() else { return true };
        for ties in [Ties::First, Ties::Last] {
            let (waiting, before) = self.displaced(removed, base);
            let coming = replacements.iter().map(|(launch, least)| {
                let room = least.subtract(&self.daemons_of(launch, &waiting));
                let room = self.compiled.resources.known(&room);
                Coming { allocatable: room.clone(), left: room, number: None }
            });
            let coming = coming.collect();
            let mut stand_in = StandIn { ties, tied: false, counted, coming };
            let survives = self.bind_all(waiting, &mut stand_in);
            self.take_back(before);
            // Where no two nodes had equal scores the other order gives the same result.
            if !survives || !stand_in.tied {
                return survives;
            }
        }
        true
    }

    /// Binds the pods in `waiting` in this order, as long as any of them gets a place; returns whether all have one.
    fn bind_all(&mut self, mut waiting: Vec<PodIx>, stand_in: &mut StandIn) -> bool {
        loop {
            let placed = self.filling.placed;
            waiting.retain(|index| !self.bind(*index, stand_in));
            if waiting.is_empty() || self.filling.placed == placed {
                return waiting.is_empty();
            }
        }
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

    /// Puts the pod at `index` where the scheduler would, which asks for no preference; returns whether it has a place. Levels with
    /// fewer preferences come first, and all of them: each may stand for another of the terms of which one must hold.
    fn bind(&mut self, index: PodIx, stand_in: &mut StandIn) -> bool {
        let levels = self.compiled.levels(index).to_vec();
        levels.into_iter().rev().any(|level| self.bind_as(index, level, stand_in))
    }

    /// Puts the pod where the scheduler would, at one level.
    fn bind_as(&mut self, index: PodIx, level: LevelIx, stand_in: &mut StandIn) -> bool {
        let StandIn { counted, coming, .. } = &*stand_in;
        let demand = self.compiled.levels.demand(level);
        let amounts = demand.amounts.clone();
        let score = |left: &Amounts, allocatable: &Amounts| score(left, allocatable, &amounts, *counted);
        let existing = self
            .filling
            .existing
            .taking(demand, &self.compiled.resources)
            .map(|(node, left, all)| (score(left, all), Choice::Existing(node)));
        let new = coming.iter().enumerate().filter(|(_, new)| amounts.fits(&new.left));
        let new = new.map(|(position, new)| (score(&new.left, &new.allocatable), Choice::Coming(position)));
        let mut choices: Vec<(i64, Choice)> = existing.chain(new).collect();
        let bound = self.filling.topology.bound(self.compiled.levels.profile(level));
        // The best one mostly takes the pod, so they are not sorted.
        while let Some(best) = stand_in.best(&choices) {
            let (_, choice) = choices.swap_remove(best);
            let placed = match choice {
                Choice::Existing(node) => self.join_node(index, Some(node), level, bound),
                Choice::Coming(position) => {
                    let new = &mut stand_in.coming[position];
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
            };
            if placed {
                self.filling.has_placed(index, &self.compiled);
                return true;
            }
        }
        false
    }
}

impl StandIn {
    /// Returns the index of the choice with the highest score.
    fn best(&mut self, choices: &[(i64, Choice)]) -> Option<usize> {
        let mut choices = choices.iter().enumerate();
        let (mut best, mut top) = choices.next()?;
        let mut tied = false;
        // Every node is looked at for every pod, so once is enough.
        for (index, one) in choices {
            let is_preferred = match one.0.cmp(&top.0) {
                Ordering::Less => continue,
                Ordering::Greater => {
                    tied = false;
                    true
                }
                Ordering::Equal => {
                    tied = true;
                    (one.1 < top.1) == (self.ties == Ties::First)
                }
            };
            if is_preferred {
                (best, top) = (index, one);
            }
        }
        self.tied |= tied;
        Some(best)
    }
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
