//! The solver as a place to ask what would happen without some nodes (spec core-disruption 3.5).
//!
//! Everything is compiled once. First the pods that wait anyway get their places, exactly as in a plan; that is
//! the base. A question takes nodes away, gives their pods a place on what is left or on new nodes, and is
//! taken back: the solver is as before, apart from what it has learnt for good.

use std::collections::BTreeMap;

use karpenter_model::settings::ReservationPolicy;
use karpenter_model::{
    BinId, Node, NodeId, Nomination, Pod, PodKey, PodOutcome, PoolRefusal, Settings, Snapshot,
};

use super::compile::Batch;
use super::undo::Before;
use super::{Query, Solver};
use crate::index::{Ix, IxVec, NodeIx, PodIx};
use crate::place::claim::Quoted;
use crate::place::class::Class;
use crate::place::queue;

/// Where pods and nodes are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ground {
    /// Nodes by key: where they are in the list of existing ones; those that are gone for good are not here.
    positions: BTreeMap<NodeId, NodeIx>,
    /// Nodes by key: their pods that would have to move, by position in the queue.
    movers: BTreeMap<NodeId, Vec<PodIx>>,
    /// Nodes by key: pods that are on their way there, by position in the queue.
    guests: BTreeMap<NodeId, Vec<PodIx>>,
    /// Nodes that are coming up, by key, as messages name them.
    coming: BTreeMap<NodeId, String>,
}

/// How far a question is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// To the end.
    Full,
    /// Until it is clear that pods are left over, or that more than `launches` new nodes are needed.
    Until {
        /// Most new nodes.
        launches: usize,
    },
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Moved {
    /// Claims the pods would need, numbered from 1.
    pub(crate) launches: Vec<Quoted>,
    /// Pods that existing nodes would take.
    pub(crate) nominations: Vec<Nomination>,
    /// Nodes those are.
    pub(crate) used_nodes: Vec<NodeId>,
    /// Pods nothing would take, and why.
    pub(crate) unplaced: Vec<(PodKey, String)>,
    /// It was not followed to the end.
    pub(crate) gave_up: bool,
}

impl<'a> Solver<'a> {
    /// A solver that can do without any of `movable`, with the pods that wait anyway in their places. Pods that
    /// would have to move do not go to nodes that are `busy`.
    pub(crate) fn reversible(
        snapshot: &'a Snapshot,
        movable: &[&'a Node],
        busy: impl Fn(&Node) -> bool,
    ) -> (Self, Ground) {
        let settings =
            Settings { reservation_policy: ReservationPolicy::Fallback, ..(*snapshot.settings).clone() };
        let waiting = queue::pods(snapshot).into_iter().map(|pod| (pod, None));
        let staying = movable.iter().filter(|node| !node.is_leaving());
        let moving = staying.flat_map(|node| {
            let pods = node.pods.iter().filter(|pod| snapshot.currently_reschedulable(pod));
            pods.map(|pod| (&**pod, Some(&node.id)))
        });
        let (pods, homes): (Vec<&Pod>, Vec<Option<&NodeId>>) = waiting.chain(moving).unzip();
        let order = queue::order(&pods);
        let pods = pods.into_iter().zip(homes.iter().map(Option::is_some)).collect();
        let homes: IxVec<PodIx, Option<&NodeId>> = order.iter().map(|place| homes[place.get()]).collect();
        let batch = Batch { pods, order, arrivals: IxVec::default(), reversible: true };
        let mut solver = Self::compiled(snapshot, settings, batch);
        solver.filling.existing.keep_journal(busy);
        solver.filling.topology.keep_journal();
        let mut ground = Ground { positions: solver.filling.existing.positions(), ..Ground::default() };
        for node in snapshot.nodes.iter().filter(|node| !node.initialized()) {
            ground.coming.insert(node.id.clone(), coming(node));
        }
        for (index, home) in homes.enumerate() {
            if let Some(home) = home {
                ground.movers.entry((*home).clone()).or_default().push(index);
            }
        }
        solver.place_all(homes.positions().filter(|index| homes[*index].is_none()).collect());
        solver.settled_without(&[], &mut ground);
        (solver, ground)
    }

    /// What would become of the pods of `removed`; [`Self::take_back`] or [`Self::keep`] must follow.
    pub(crate) fn without(
        &mut self,
        removed: &[&Node],
        ground: &Ground,
        patience: Patience,
    ) -> (Moved, Before) {
        let mut before = self.filling.before();
        let mut homeless = Vec::new();
        for node in removed {
            let position = ground.positions.get(&node.id).filter(|position| !before.away.contains(position));
            if let Some(position) = position {
                before.away.push(*position);
                self.filling.existing.take_away(*position);
                self.evacuate(node, ground, &mut homeless);
            }
        }
        homeless.sort_unstable();
        let gave_up = !self.house(&homeless, patience);
        let moved =
            if gave_up { Moved { gave_up, ..Moved::default() } } else { self.moved(&homeless, ground) };
        (moved, before)
    }

    /// Takes the last question back.
    pub(crate) fn take_back(&mut self, before: Before) {
        self.filling.take_back(before);
        self.next_pass();
    }

    /// Lets the last question, with `before` as it was, be how things are from now on. Nobody joins its new
    /// nodes later.
    pub(crate) fn keep(&mut self, before: &Before, ground: &mut Ground) {
        self.settled_without(&before.away, ground);
    }

    /// The places pods have got are where they are from now on, and the nodes `away` are gone.
    fn settled_without(&mut self, away: &[NodeIx], ground: &mut Ground) {
        ground.positions.retain(|_, position| !away.contains(position));
        for (index, node) in self.filling.homes.drain(..) {
            ground.guests.entry(node).or_default().push(index);
        }
        self.filling.existing.settle();
        self.filling.topology.settle();
        self.next_pass();
    }

    fn next_pass(&mut self) {
        self.filling.next_pass();
        self.caches.next_pass();
    }

    /// `node` is gone: its pods count nowhere, and its pool may buy again what it took.
    fn evacuate(&mut self, node: &Node, ground: &Ground, homeless: &mut Vec<PodIx>) {
        let Self { compiled, caches, filling } = self;
        let registry = caches.rules.registry();
        filling.topology.forget_node(node, registry);
        let movers = ground.movers.get(&node.id).map_or(&[][..], Vec::as_slice);
        for index in movers {
            let pod = compiled.pod(*index);
            if let Some(profile) = compiled.profile(*index) {
                let (matched, owner) = (pod.is_active(), !pod.is_terminal());
                filling.topology.forget_pod(profile, matched, owner, node, registry);
            }
            homeless.push(*index);
        }
        for index in ground.guests.get(&node.id).into_iter().flatten() {
            if let Some(profile) = compiled.profile(*index) {
                filling.topology.forget_pod(profile, true, true, node, registry);
            }
            homeless.push(*index);
        }
        if let Some(devices) = &mut filling.devices {
            devices.evacuate(node, movers.iter().map(|index| compiled.pod(*index).uid.clone()));
        }
        let pool = node.pool();
        for (space, limits) in compiled.pools.spaces.iter().zip(filling.limits.iter_mut()) {
            if Some(&space.pool.name) == pool.as_ref() && !limits.is_unlimited() {
                limits.give_back(&node.effective_capacity());
            }
        }
    }

    /// Gives the pods in `homeless` a place as far as possible; whether it was followed to the end.
    fn house(&mut self, homeless: &[PodIx], patience: Patience) -> bool {
        let Patience::Until { launches } = patience else {
            self.place_all(homeless.to_vec());
            return true;
        };
        let mut waiting = homeless.to_vec();
        while !waiting.is_empty() {
            let before = self.filling.placed;
            let mut again = Vec::new();
            for index in waiting {
                let placed = self.filling.placed;
                let settled = self.settle(index);
                let left_over = settled && self.filling.placed == placed;
                if left_over || self.filling.opened() > launches {
                    return false;
                }
                if !settled {
                    again.push(index);
                }
            }
            if self.filling.placed == before {
                return again.is_empty();
            }
            waiting = again;
        }
        true
    }

    /// What became of the pods in `homeless`.
    fn moved(&mut self, homeless: &[PodIx], ground: &Ground) -> Moved {
        let mut moved = Moved::default();
        self.filling.settle_reservations();
        let mut query = self.query();
        let Query { compiled, filling, .. } = query;
        for number in filling.in_flight.positions_from(filling.closed) {
            let id = BinId(u32::try_from(moved.launches.len() + 1).unwrap_or(u32::MAX));
            match query.launch(number, id) {
                Ok(quoted) => moved.launches.push(quoted),
                Err(reason) => {
                    let node = &filling.in_flight[number];
                    let why = format!("{}: {reason}", compiled.pools.spaces[node.pool].pool.name);
                    let pods = node.pods.iter().map(|pod| compiled.pod(*pod).key.clone());
                    moved.unplaced.extend(pods.map(|pod| (pod, why.clone())));
                }
            }
        }
        for (index, node) in &filling.homes {
            let had_home = compiled.moves(*index);
            if let Some(coming) = ground.coming.get(node).filter(|_| had_home) {
                let why = format!("would schedule against uninitialized {coming}");
                moved.unplaced.push((compiled.pod(*index).key.clone(), why));
            }
        }
        for index in homeless {
            moved.unplaced.extend(query.refused(*index));
        }
        moved.unplaced.sort();
        moved.used_nodes = filling.homes.iter().map(|(_, node)| node.clone()).collect();
        moved.used_nodes.sort();
        moved.used_nodes.dedup();
        moved.nominations = std::mem::take(&mut self.filling.nominations);
        moved.nominations.sort();
        moved
    }
}

impl Query<'_, '_> {
    /// Why the pod at `index` has no place, if it has none.
    fn refused(&mut self, index: PodIx) -> Option<(PodKey, String)> {
        let refusals = match self.filling.outcomes.get(&index) {
            Some(PodOutcome::Unschedulable(refusals)) => refusals.clone(),
            Some(PodOutcome::Ignored(reasons)) => {
                let refusal =
                    |reason: &karpenter_model::Reason| PoolRefusal { pool: None, reason: reason.clone() };
                reasons.iter().map(refusal).collect()
            }
            Some(PodOutcome::Existing(_) | PodOutcome::InFlight(_) | PodOutcome::New(_)) | None => {
                return None;
            }
        };
        let refusals = match self.compiled.class(index) {
            Class::Levels(_) if refusals.is_empty() => self.refusal(index),
            Class::Levels(_) | Class::Refused(_) => refusals,
        };
        let text = |refusal: &PoolRefusal| match &refusal.pool {
            Some(pool) => format!("{pool}: {}", refusal.reason),
            None => refusal.reason.to_string(),
        };
        let pod = self.compiled.pod(index);
        Some((pod.key.clone(), refusals.iter().map(text).collect::<Vec<_>>().join("; ")))
    }
}

/// How messages name a node that is coming up.
fn coming(node: &Node) -> String {
    let claim = node.claim.as_ref().map_or("", |claim| claim.name.as_str());
    let name = node.name.as_ref().map_or("", |name| name.as_str());
    format!("nodeclaim/{claim}, node/{name}")
}
