//! Simulations: where pods would go without some nodes (spec disruption 3.5).
//!
//! Everything is compiled once. First the pods that wait anyway get their places, exactly as in a plan; that is the
//! base. A simulation removes nodes, places the displaced pods on what is left or on new nodes, and is undone: the
//! solver is as before, apart from what its caches keep for longer than a pass.

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

/// The base of simulations: which nodes are left, and which pods each removal displaces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Base {
    /// Positions of nodes in the list of existing ones; without those that are gone for good.
    positions: BTreeMap<NodeId, NodeIx>,
    /// Pods of each node that would have to move.
    movers: BTreeMap<NodeId, Vec<PodIx>>,
    /// Pods that earlier passes have sent to each node.
    guests: BTreeMap<NodeId, Vec<PodIx>>,
    /// Nodes that are not initialized yet, as messages name them.
    coming: BTreeMap<NodeId, String>,
}

/// Extent of a simulation.
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

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Simulated {
    /// Claims the pods would need, numbered from 1.
    pub(crate) launches: Vec<Quoted>,
    /// Pods that existing nodes would take.
    pub(crate) nominations: Vec<Nomination>,
    /// Nodes those are.
    pub(crate) used_nodes: Vec<NodeId>,
    /// Pods nothing would take, and why.
    pub(crate) unplaced: Vec<(PodKey, String)>,
    /// Set when the simulation was stopped before its end.
    pub(crate) gave_up: bool,
}

impl Simulated {
    /// Pods without a place and why, for events and reasons.
    pub(crate) fn why_unplaced(&self) -> String {
        let pods = self.unplaced.iter().map(|(pod, why)| format!("{pod} => {why}"));
        pods.collect::<Vec<_>>().join(" ")
    }
}

impl<'a> Solver<'a> {
    /// A solver from which any of `movable` can be removed, with the pods that wait anyway in their places. Displaced
    /// pods do not go to nodes that are `busy`.
    pub(crate) fn reversible(
        snapshot: &'a Snapshot,
        movable: &[&'a Node],
        busy: impl Fn(&Node) -> bool,
    ) -> (Self, Base) {
        // A replacement without a reservation is compared by price like any other, so running out of one is no reason
        // to leave a pod waiting.
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
        let mut base = Base { positions: solver.filling.existing.positions(), ..Base::default() };
        for node in snapshot.nodes.iter().filter(|node| !node.initialized()) {
            base.coming.insert(node.id.clone(), coming(node));
        }
        for (index, home) in homes.enumerate() {
            if let Some(home) = home {
                base.movers.entry((*home).clone()).or_default().push(index);
            }
        }
        let waiting = homes.positions().filter(|index| homes[*index].is_none()).collect();
        let waiting = solver.keep_promises(waiting);
        solver.place_all(waiting);
        solver.settled_without(&[], &mut base);
        (solver, base)
    }

    /// Simulates placing the pods of `removed` elsewhere; [`Self::take_back`] or [`Self::keep`] must follow.
    pub(crate) fn without(
        &mut self,
        removed: &[&Node],
        base: &Base,
        patience: Patience,
    ) -> (Simulated, Before) {
        let (displaced, before) = self.displaced(removed, base);
        let gave_up = !self.replace_displaced(&displaced, patience);
        let simulated = if gave_up {
            Simulated { gave_up, ..Simulated::default() }
        } else {
            self.simulated(&displaced, base)
        };
        (simulated, before)
    }

    /// Removes `removed`; returns their pods, and what there was before.
    pub(super) fn displaced(&mut self, removed: &[&Node], base: &Base) -> (Vec<PodIx>, Before) {
        let mut before = self.filling.before();
        let mut displaced = Vec::new();
        for node in removed {
            let position = base.positions.get(&node.id).filter(|position| !before.away.contains(position));
            if let Some(position) = position {
                before.away.push(*position);
                self.filling.existing.take_away(*position);
                self.displace(node, base, &mut displaced);
            }
        }
        // In the order of the queue, whatever order the nodes were named in.
        displaced.sort_unstable();
        (displaced, before)
    }

    /// Undoes the last simulation.
    pub(crate) fn take_back(&mut self, before: Before) {
        self.filling.take_back(before);
        self.next_pass();
    }

    /// Makes the last simulation, which began from `before`, part of the base. Its new nodes take no more pods.
    pub(crate) fn keep(&mut self, before: &Before, base: &mut Base) {
        self.settled_without(&before.away, base);
    }

    /// Makes the places pods have got, and the absence of the nodes `away`, part of the base.
    fn settled_without(&mut self, away: &[NodeIx], base: &mut Base) {
        base.positions.retain(|_, position| !away.contains(position));
        for (index, node) in self.filling.joined.drain(..) {
            base.guests.entry(node).or_default().push(index);
        }
        self.filling.existing.settle();
        self.filling.topology.settle();
        self.next_pass();
    }

    fn next_pass(&mut self) {
        self.filling.next_pass();
        self.caches.next_pass();
    }

    /// Removes what `node` and its pods count for, gives its capacity back to its pool, and adds its pods to
    /// `displaced`.
    fn displace(&mut self, node: &Node, base: &Base, displaced: &mut Vec<PodIx>) {
        let Self { compiled, caches, filling } = self;
        let registry = caches.rules.registry();
        filling.topology.forget_node(node, registry);
        let movers = base.movers.get(&node.id).map_or(&[][..], Vec::as_slice);
        for index in movers {
            let pod = compiled.pod(*index);
            // As the snapshot counted it: terminating pods count for some rules and not for others.
            if let Some(profile) = compiled.profile(*index) {
                let (matched, owner) = (pod.is_active(), !pod.is_terminal());
                filling.topology.forget_pod(profile, matched, owner, node, registry);
            }
            displaced.push(*index);
        }
        for index in base.guests.get(&node.id).into_iter().flatten() {
            // As placement counted it: in full.
            if let Some(profile) = compiled.profile(*index) {
                filling.topology.forget_pod(profile, true, true, node, registry);
            }
            displaced.push(*index);
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

    /// Places the pods in `displaced` as far as possible; returns whether `patience` lasted.
    fn replace_displaced(&mut self, displaced: &[PodIx], patience: Patience) -> bool {
        let Patience::Until { launches } = patience else {
            self.place_all(displaced.to_vec());
            return true;
        };
        let mut waiting = displaced.to_vec();
        while !waiting.is_empty() {
            let before = self.filling.placed;
            let mut again = Vec::new();
            for index in waiting {
                let placed = self.filling.placed;
                let settled = self.settle(index);
                let left_over = settled && self.filling.placed == placed;
                // Either rules the removal out, so the rest of the simulation would change nothing.
                if left_over || self.filling.opened() > launches {
                    return false;
                }
                if !settled {
                    again.push(index);
                }
            }
            if self.filling.placed == before && (again.is_empty() || self.concede(&again).is_empty()) {
                return again.is_empty();
            }
            waiting = again;
        }
        true
    }

    /// The places of the pods in `displaced`.
    fn simulated(&mut self, displaced: &[PodIx], base: &Base) -> Simulated {
        let mut simulated = Simulated::default();
        self.filling.settle_reservations();
        let mut query = self.query();
        let Query { compiled, filling, .. } = query;
        for number in filling.in_flight.positions_from(filling.closed) {
            let id = BinId(u32::try_from(simulated.launches.len() + 1).unwrap_or(u32::MAX));
            match query.launch(number, id) {
                Ok(quoted) => simulated.launches.push(quoted),
                Err(reason) => {
                    let node = &filling.in_flight[number];
                    let why = format!("{}: {reason}", compiled.pools.spaces[node.pool].pool.name);
                    let pods = node.pods.iter().map(|pod| compiled.pod(*pod).key.clone());
                    simulated.unplaced.extend(pods.map(|pod| (pod, why.clone())));
                }
            }
        }
        for (index, node) in &filling.joined {
            // A pod that runs must not be evicted for a node that may never come up; one that waits has nothing to
            // lose.
            let had_home = compiled.moves(*index);
            if let Some(coming) = base.coming.get(node).filter(|_| had_home) {
                let why = format!("would schedule against uninitialized {coming}");
                simulated.unplaced.push((compiled.pod(*index).key.clone(), why));
            }
        }
        let topology = &query.filling.topology;
        if !topology.broken().is_empty() {
            let is_broken =
                |index: &&PodIx| query.compiled.profile(**index).is_some_and(|id| topology.is_broken_for(id));
            let why = "a new node of other pods would break its spread";
            let broken = displaced.iter().filter(is_broken);
            simulated
                .unplaced
                .extend(broken.map(|index| (query.compiled.pod(*index).key.clone(), why.to_owned())));
        }
        for index in displaced {
            simulated.unplaced.extend(query.refused(*index));
        }
        simulated.unplaced.sort();
        simulated.used_nodes = filling.joined.iter().map(|(_, node)| node.clone()).collect();
        simulated.used_nodes.sort();
        simulated.used_nodes.dedup();
        simulated.nominations = std::mem::take(&mut self.filling.nominations);
        simulated.nominations.sort();
        simulated
    }
}

impl Query<'_, '_> {
    /// Returns the pod at `index` and why it has no place, if it has none.
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

/// Returns the name of a launching node in messages.
fn coming(node: &Node) -> String {
    let claim = node.claim.as_ref().map_or("", |claim| claim.name.as_str());
    let name = node.name.as_ref().map_or("", |name| name.as_str());
    format!("nodeclaim/{claim}, node/{name}")
}
