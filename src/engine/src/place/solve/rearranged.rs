//! Other plans where pods have rules about hosts, taken where one is cheaper.
//!
//! Pods are tried in order of size. Where some keep others off their host, that order is expensive: a small pod that
//! comes last and may share no host opens one, and a large one that comes first keeps those after it away from the host
//! all others are on. Two more plans are made, each through the door that every pod goes through, which checks every rule:
//!
//! * *in turn*: pods that must share a host first, each group on a host with room for all of it, then pods that are
//!   to spread, then those without rules, and last those that keep others off;
//! * *as patterns say*: [patterns](super::patterns) for all pods of that plan, with as many pods of a group on a machine
//!   as its rule allows. Each pod, in turn, goes where its pattern is; where the door refuses it, it goes where it
//!   can, once all others have a place.
//!
//! The cheaper of the two is made again with pods [moved into room that is paid for](super::patterns) as long as that makes
//! it cheaper, [`MOST_FILLED_UP`] times at most.
//!
//! The cheapest of the plans is taken where it saves [`LEAST_SAVING`], every pod that has a place by the first one
//! has one by it, and none is in a lighter pool. Not where something is reserved, whose price depends on its holder,
//! and not with virtual pods, which must come after all others.

use std::collections::BTreeMap;

use super::filling::Filling;
use super::{JoinedOpen, Solver, Tried};
use crate::bits::Bits;
use crate::index::{FootprintIx, InFlightIx, PodIx};
use crate::place::level::Demand;
use crate::place::topology::{HostRules, Tally, Turn};

/// The share of the price, in percent, that must be saved to be worth another plan than first-fit gives.
const LEAST_SAVING: i64 = 2;
/// Number of pods above which no other plan is made, so that the time of a pass stays what it is.
const MOST_PODS: usize = 20_000;
/// Number of times that pods of a plan move to where there is room.
const MOST_FILLED_UP: usize = 4;

/// Pods that are to share a new node.
#[derive(Debug)]
pub(super) struct Target {
    /// Joint demand of the pods; `None` where they are to be tried one after the other.
    pub(super) demand: Option<Demand>,
    pub(super) pods: Vec<PodIx>,
}

impl<'a> Solver<'a> {
    /// Returns whether other plans are made where pods have rules about hosts; see the module.
    pub(super) fn may_rearrange(&self) -> bool {
        self.filling.topology.has_host_rules()
            && self.filling.reservations.is_empty()
            && self.compiled.queue.len() <= MOST_PODS
            && !self.compiled.queue.iter().any(|(pod, _)| pod.is_virtual())
    }

    /// Takes another plan if one is cheaper. `empty` is the filling before any pod had a place.
    pub(super) fn rearrange(&mut self, empty: &Filling<'a>) {
        if !self.may_rearrange() {
            return;
        }
        let launched: Vec<InFlightIx> = self.filling.in_flight.positions().collect();
        let launched = launched.into_iter().map(|number| &self.filling.in_flight[number]);
        let mut used = launched.filter(|node| !node.pods.is_empty());
        if !used.any(|node| self.host_rules(node) != HostRules::None) {
            return;
        }
        let Some(before) = self.price() else { return };
        let (_, launched) = self.filling.whereabouts(self.compiled.queue.len());
        let in_turn = self.attempt(empty, |solver| {
            solver.place_in_turn(&launched);
            solver.repack();
            solver.mix();
            solver.mix_kinds();
        });
        let Some(in_turn) = in_turn else { return };
        let (in_turn, as_patterns) = self.attempt_on(empty, in_turn, Self::targets);
        let plans = [Some(in_turn), as_patterns].into_iter().flatten();
        let Some(cheapest) = plans.min_by_key(|(price, _)| *price) else { return };
        let (price, filling) = self.filled_up(empty, cheapest);
        if before - price >= (before / 100 * LEAST_SAVING).max(1) {
            self.filling = filling;
        }
    }

    /// The plan, with its price, or a cheaper one whose pods have moved to where there is room that is paid for.
    fn filled_up(&mut self, empty: &Filling<'a>, mut plan: (i64, Filling<'a>)) -> (i64, Filling<'a>) {
        for _ in 0..MOST_FILLED_UP {
            let (before, made) = self.attempt_on(empty, plan, Self::fuller_targets);
            match made.filter(|(cheaper, _)| *cheaper < before.0) {
                Some(made) => plan = made,
                None => return before,
            }
        }
        plan
    }

    /// The `plan`, and the one that places pods on what `targets` makes of it; see [`Self::attempt`].
    fn attempt_on(
        &mut self,
        empty: &Filling<'a>,
        (price, filling): (i64, Filling<'a>),
        targets: impl FnOnce(&mut Self) -> Option<Vec<Target>>,
    ) -> ((i64, Filling<'a>), Option<(i64, Filling<'a>)>) {
        let first = std::mem::replace(&mut self.filling, filling);
        let targets = targets(self);
        let filling = std::mem::replace(&mut self.filling, first);
        let made = targets.and_then(|targets| {
            self.attempt(empty, |solver| {
                solver.place_on(&targets);
                solver.repack();
            })
        });
        ((price, filling), made)
    }

    /// Returns the price and the filling that `place` makes of the `empty` one; `None` where a pod is worse off by it than
    /// by the filling of the solver, which stays as it is.
    pub(super) fn attempt(
        &mut self,
        empty: &Filling<'a>,
        place: impl FnOnce(&mut Self),
    ) -> Option<(i64, Filling<'a>)> {
        // Nodes that were found to be full in one filling may have room in another, so that is forgotten each
        // time.
        let before = std::mem::replace(&mut self.filling, empty.clone());
        self.caches.next_filling();
        place(self);
        let price = self.price();
        let made = std::mem::replace(&mut self.filling, before);
        self.caches.next_filling();
        (made.keeps(&self.filling, &self.compiled) && made.topology.broken().is_empty()).then_some(())?;
        Some((price?, made))
    }

    /// The pods in `waiting` in the order in which they are tried where rules decide it.
    pub(super) fn in_turn(&self, mut waiting: Vec<PodIx>) -> Vec<PodIx> {
        waiting.sort_by_cached_key(|pod| (self.turn(*pod), *pod));
        waiting
    }

    /// Returns the turn of the pod at `index`.
    pub(super) fn turn(&self, index: PodIx) -> Turn {
        // The last level: a preference is no reason to come earlier or later.
        let profile =
            self.compiled.levels(index).last().and_then(|level| self.compiled.levels.profile(*level));
        profile.map(|id| self.filling.topology.turn(id)).unwrap_or_default()
    }

    /// Places all pods in turn. Groups that must share a host are opened one for where all of it is `launched` by the plan
    /// before.
    fn place_in_turn(&mut self, launched: &Bits<PodIx>) {
        let waiting = self.keep_promises(self.compiled.queue.positions().collect());
        for group in self.groups() {
            if group.len() > 1 && group.iter().all(|pod| launched.contains(*pod)) {
                self.open_for(&group);
            }
        }
        let (placed, _) = self.filling.whereabouts(self.compiled.queue.len());
        let waiting = waiting.into_iter().filter(|pod| !placed.contains(*pod)).collect();
        let waiting = self.in_turn(waiting);
        self.place_all(waiting);
    }

    /// Places all pods in turn, those of `targets` on a node of their own.
    fn place_on(&mut self, targets: &[Target]) {
        let mut target_of: BTreeMap<PodIx, usize> = BTreeMap::new();
        let mut opened: Vec<Opened> = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            target_of.extend(target.pods.iter().map(|pod| (*pod, number)));
            let mut places = BTreeMap::new();
            for size in target.pods.iter().filter_map(|pod| self.size(*pod)) {
                *places.entry(size).or_default() += 1;
            }
            let mut kept_for = Tally::default();
            for pod in target.pods.iter().filter(|pod| self.turn(**pod) == Turn::Last) {
                if let Some(id) = self.compiled.profile(*pod) {
                    self.filling.topology.count_on_host(id, &mut kept_for);
                }
            }
            opened.push(Opened { demand: target.demand.as_ref(), places, kept_for, node: None });
        }
        let waiting = self.keep_promises(self.compiled.queue.positions().collect());
        let mut left = self.in_turn(waiting);
        // A pod may wait for others to come, as in [`Self::place_all`].
        loop {
            let before = self.filling.placed;
            left.retain(|pod| match target_of.get(pod) {
                Some(number) => !self.send(*pod, *number, &mut opened),
                None => !self.settle(*pod),
            });
            if self.filling.placed == before {
                break;
            }
        }
        left.sort_unstable();
        self.place_all(left);
    }

    /// Returns the footprint of the pod at `index`, and whether it keeps others off: such a pod takes the place of no
    /// other.
    fn size(&self, index: PodIx) -> Option<Size> {
        let level = *self.compiled.levels(index).first()?;
        Some((self.compiled.levels.footprint(level), self.turn(index) == Turn::Last))
    }

    /// Sends the pod at `index` to target `number` of `targets`, or to another one that has a place of its size, not to be
    /// in the way of those that will keep others off; returns whether it is on one.
    fn send(&mut self, index: PodIx, number: usize, targets: &mut [Opened<'_>]) -> bool {
        let (Some(size), profile) = (self.size(index), self.compiled.profile(index)) else { return false };
        let others = (0..targets.len()).filter(|other| *other != number);
        for other in std::iter::once(number).chain(others) {
            let target = &mut targets[other];
            let Some(places) = target.places.get_mut(&size).filter(|places| **places > 0) else { continue };
            let may_join = |id| self.filling.topology.may_join(id, &target.kept_for);
            if other != number && !profile.is_none_or(may_join) {
                continue;
            }
            *places -= 1;
            if self.join_target(index, target) {
                return true;
            }
            *target.places.entry(size).or_default() += 1;
        }
        false
    }

    /// Sends the pod at `index` to the node of `target`, which is opened for it where it is not yet; returns whether it is there.
    fn join_target(&mut self, index: PodIx, target: &mut Opened<'_>) -> bool {
        for step in 0.. {
            let Some(level) = self.compiled.levels(index).get(step).copied() else { break };
            if self.compiled.levels.demand(level).rules.is_none() {
                continue;
            }
            let bound = self.filling.topology.bound(self.compiled.levels.profile(level));
            let joined = if let Some(number) = target.node {
                matches!(self.join_open_node(index, Some(number), level, bound), JoinedOpen::Yes)
            } else {
                let number = self.filling.in_flight.end();
                let opened = self.open_node(index, level, bound, target.demand);
                target.node = matches!(opened, Tried::Placed).then_some(number);
                target.node.is_some()
            };
            if joined {
                self.filling.has_placed(index, &self.compiled);
                return true;
            }
        }
        false
    }
}

/// Footprint of a pod, and whether it keeps others off.
type Size = (FootprintIx, bool);

/// A target while pods are sent to it.
struct Opened<'t> {
    demand: Option<&'t Demand>,
    /// Number of pods of each size that are still to come.
    places: BTreeMap<Size, usize>,
    /// Pods that will keep others off.
    kept_for: Tally,
    node: Option<InFlightIx>,
}
