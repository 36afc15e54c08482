//! The solver: one pod after the other, existing nodes first, then open in-flight nodes, then a new node
//! (spec scheduling 12). Pods that an earlier pass promised a place come first. Pods that wait for others are tried again
//! as long as any pod gets a place.
//!
//! Its data are in three parts by what changes them: [`Compiled`] is never changed, [`Filling`] holds the places of
//! pods so far, [`Caches`] the results computed on the way. A [`Query`] reads the filling and cannot change it.

mod apart;
mod caches;
mod co_location;
mod compile;
mod compiled;
mod filling;
mod join;
mod open_domains;
mod patterns;
mod promised;
mod rearranged;
mod repack;
mod scheduled;
pub(crate) mod simulation;
#[cfg(test)]
mod tests;
mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::names::annotation;
use karpenter_model::report::ReasonCode;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::{
    BinId, HostPorts, LabelValue, NodeId, Nomination, PodOutcome, PoolOutcome, PoolRefusal, Reason,
    Resources, Snapshot, Target,
};

use crate::index::{GroupIx, InFlightIx, LevelIx, NodeIx, PodIx, PoolIx, ProfileIx};
use crate::place::claim::{Quoted, Terms};
use crate::place::class::Class;
use crate::place::devices::Holdings;
use crate::place::in_flight::{InFlightNode, State};
use crate::place::learnt::{DemandMemo, Known};
use crate::place::level::Demand;
use crate::place::open_nodes::Walk;
use crate::place::queue::reject;
use crate::place::refusal::{self, Circumstances};
use crate::place::{Placement, existing};
use crate::volumes::used_by;
use caches::Caches;
use compiled::Compiled;
use filling::Filling;
use join::{Joined, Joiner, Surroundings};

/// Number of domains that count because of new nodes of other pods from which on no plan is made again.
const MOST_EXPECTED: usize = 100;

/// Everything a pass works on.
#[derive(Debug, Clone)]
pub(crate) struct Solver<'a> {
    compiled: Arc<Compiled<'a>>,
    caches: Caches<'a>,
    filling: Filling<'a>,
}

/// Reads where pods are so far. What it computes may be cached; the filling cannot change.
struct Query<'s, 'a> {
    compiled: &'s Compiled<'a>,
    filling: &'s Filling<'a>,
    caches: &'s mut Caches<'a>,
}

impl<'a> Solver<'a> {
    /// Places every pod of `snapshot`.
    pub(crate) fn run(snapshot: &'a Snapshot) -> Placement {
        Self::solved(snapshot).finish(&BTreeSet::new())
    }

    /// Places every pod of `snapshot`, and determines which launches are [certain](patterns).
    pub(crate) fn run_ahead(snapshot: &'a Snapshot) -> Placement {
        let mut solver = Self::solved(snapshot);
        let certain = solver.certain();
        solver.finish(&certain)
    }

    /// Returns the result that has every pod in its place.
    fn solved(snapshot: &'a Snapshot) -> Self {
        let mut expected = Vec::new();
        let (mut solver, empty) = loop {
            let mut solver = Self::expecting(snapshot, &expected);
            // Other plans begin where this one does. Where none can follow, nothing is copied.
            let may_repeat = solver.may_keep_apart() || solver.may_rearrange();
            let empty = may_repeat.then(|| solver.filling.clone());
            let waiting = solver.keep_promises(solver.compiled.queue.positions().collect());
            solver.place_all(waiting);
            let broken = solver.filling.topology.broken();
            if broken.is_empty() || expected.len() >= MOST_EXPECTED {
                break (solver, empty);
            }
            // A node for other pods makes a domain count that has no pod of the constraint: made again, expecting the node.
            expected.extend(broken);
        };
        // Before repacking, which keeps every pod placed and so cannot help those left behind.
        solver = solver.co_located(snapshot, &expected);
        // The other plans are repacked before prices are compared, so this one is, too.
        solver.repack();
        if let Some(empty) = &empty {
            // Before mixing, which keeps the requirements of nodes; this plan changes them.
            solver.keep_apart(empty);
        }
        // Equal requirements before different ones, whose saving is counted from the result.
        solver.mix();
        solver.mix_kinds();
        if let Some(empty) = &empty {
            // After mixing, because its plans are mixed as well and the cheapest of all is taken.
            solver.rearrange(empty);
        }
        // After every comparison of prices: those of reserved instances depend on which node holds them.
        solver.reserve_left();
        // Last, because it narrows nodes by the final places of the pods.
        solver.keep_out();
        solver
    }

    /// A solver for which new nodes are `expected` in domains that count for a spread then.
    fn expecting(snapshot: &'a Snapshot, expected: &[(GroupIx, LabelValue)]) -> Self {
        let mut solver = Self::new(snapshot);
        solver.filling.topology.presume(expected);
        solver
    }

    fn query(&mut self) -> Query<'_, 'a> {
        Query { compiled: &self.compiled, filling: &self.filling, caches: &mut self.caches }
    }

    /// Tries the pods in `waiting` as long as any of them gets a place.
    fn place_all(&mut self, mut waiting: Vec<PodIx>) {
        self.conceding(&mut waiting, Self::place_while_it_helps);
    }

    /// Lets `place` take pods out of `waiting`, and again with the rules of those that are left read with less caution, if that
    /// helps.
    fn conceding(&mut self, waiting: &mut Vec<PodIx>, mut place: impl FnMut(&mut Self, &mut Vec<PodIx>)) {
        place(self, waiting);
        let conceded = self.concede(waiting);
        if !conceded.is_empty() {
            let before = self.filling.placed;
            place(self, waiting);
            if self.filling.placed == before {
                self.filling.topology.withdraw(&conceded);
            }
        }
    }

    /// Reads the rules of `waiting` about others with less caution, and returns those that this concerns.
    fn concede(&mut self, waiting: &[PodIx]) -> BTreeSet<GroupIx> {
        let profiles: BTreeSet<ProfileIx> =
            waiting.iter().filter_map(|index| self.last_profile(*index)).collect();
        let Self { compiled, caches, filling } = self;
        let groups = filling.topology.concede(profiles.into_iter());
        if !groups.is_empty() {
            for node in filling.in_flight.iter() {
                let requirements = caches.rules.whole(node.state.rules);
                let taints = &compiled.pools.spaces[node.pool].pool.template.taints;
                filling.topology.will_be(&requirements, taints);
            }
        }
        groups
    }

    /// The rules about others of the pod at `index` at its last level: what that has given up keeps the pod from no place.
    fn last_profile(&self, index: PodIx) -> Option<ProfileIx> {
        let last = self.compiled.levels(index).last()?;
        self.compiled.levels.profile(*last)
    }

    /// Tries the pods in `waiting` as long as any of them gets a place.
    fn place_while_it_helps(&mut self, waiting: &mut Vec<PodIx>) {
        // A pod may wait for a later one (affinity, spread, a reservation given back), so a round in which anything
        // was placed is worth another; one in which nothing was would repeat itself.
        loop {
            let before = self.filling.placed;
            waiting.retain(|index| !self.settle(*index));
            if waiting.is_empty() || self.filling.placed == before {
                break;
            }
        }
    }

    /// Tries to place the pod at `index`; returns whether there is nothing more to try for it.
    fn settle(&mut self, index: PodIx) -> bool {
        // One that was refused before may get a place on a new node, whose outcome is not known before the end.
        self.filling.outcomes.swap_remove(&index);
        if let Class::Refused(outcome) = self.compiled.class(index) {
            self.filling.outcomes.insert(index, outcome.clone());
            return true;
        }
        if let Some(outcome) = self.used_by_another(index) {
            self.filling.outcomes.insert(index, outcome);
            return true;
        }
        // Not among the promises that are kept first, because real pods take room before virtual ones.
        if self.compiled.pod(index).is_virtual() && self.keep_promise(index) {
            return true;
        }
        for step in 0.. {
            let Some(level) = self.compiled.levels(index).get(step).copied() else { break };
            match self.try_level(index, level) {
                Tried::Placed => {
                    self.filling.has_placed(index, &self.compiled);
                    return true;
                }
                Tried::Refused => {}
                // Waiting for the reservation is better than giving up a preference or a heavier pool.
                Tried::UsedUp(pool) => {
                    let pool = Some(self.compiled.pools.spaces[pool].pool.name.clone());
                    let reason = Reason::bare(ReasonCode::Reservation);
                    let outcome = PodOutcome::Unschedulable(vec![PoolRefusal { pool, reason }]);
                    self.filling.outcomes.insert(index, outcome);
                    return false;
                }
            }
        }
        // A simulation discards most refusals, and explaining one costs more than finding it.
        let refusals = if self.compiled.explains { self.query().refusal(index) } else { Vec::new() };
        self.filling.outcomes.insert(index, PodOutcome::Unschedulable(refusals));
        self.compiled.levels(index).iter().all(|level| self.caches.learnt.is_exhausted(*level))
    }

    /// The outcome of a pod with a volume that one pod at a time may use, once another one that waited has a place.
    fn used_by_another(&self, index: PodIx) -> Option<PodOutcome> {
        let volumes = self.compiled.exclusive.get(&index)?;
        let used = volumes.iter().find_map(|(volume, name)| {
            let user = self.filling.users.get(volume).filter(|user| **user != index)?;
            Some(used_by(name, &self.compiled.pod(*user).key))
        });
        Some(reject::refused(Reason::new(ReasonCode::InvalidVolume, used?)))
    }

    /// Places the pod at `index` by `level`, if any node takes it.
    fn try_level(&mut self, index: PodIx, level: LevelIx) -> Tried {
        let Self { compiled, caches, filling } = self;
        let Known { demand, profile, level_memo, .. } = caches.learnt.known(&compiled.levels, level);
        let topology = &filling.topology;
        let bound = topology.bound(profile);
        let waits = profile.is_some_and(|id| topology.is_bound_to_others(id));
        let served = !demand.claims.is_empty();
        let held = filling.devices.as_ref().filter(|_| served).map_or(0, Holdings::version);
        // Each part only grows, so the sum stays the same only if no part has changed.
        let version = bound.map_or(0, |id| topology.version(id)) + filling.reservations.releases() + held;
        if level_memo.exhausted {
            return Tried::Refused;
        }
        if level_memo.stuck_at == Some(version) {
            return level_memo.used_up.map_or(Tried::Refused, Tried::UsedUp);
        }
        // Contradictory requirements, or volumes that cannot be attached to one node: no node can do.
        if demand.rules.is_none() || demand.places.is_empty() {
            level_memo.exhausted = true;
            return Tried::Refused;
        }
        if self.join_node(index, None, level, bound) {
            return Tried::Placed;
        }
        let lacks_reservation = match self.join_open_node(index, None, level, bound) {
            JoinedOpen::Yes => return Tried::Placed,
            JoinedOpen::No { used_up } => used_up,
        };
        let opened = self.open_node(index, level, bound, None);
        let level_memo = self.caches.learnt.known(&self.compiled.levels, level).level_memo;
        level_memo.used_up = match opened {
            Tried::Placed => return Tried::Placed,
            Tried::UsedUp(pool) => Some(pool),
            Tried::Refused => None,
        };
        let used_up = lacks_reservation || level_memo.used_up.is_some();
        // Only other pods, reservations and devices can turn a refusal; without them it holds for the pass.
        level_memo.stuck_at = (waits || used_up || served).then_some(version);
        level_memo.exhausted = level_memo.stuck_at.is_none();
        opened
    }

    /// Sends the pod to the first existing node that takes it, or to node `on` if that takes it.
    fn join_node(
        &mut self,
        index: PodIx,
        on: Option<NodeIx>,
        level: LevelIx,
        bound: Option<ProfileIx>,
    ) -> bool {
        let Self { compiled, caches, filling } = self;
        let pod = compiled.pod(index);
        let mut known = caches.learnt.known(&compiled.levels, level);
        let others = bound.map(|id| (&filling.topology, id));
        let devices = filling.devices.as_mut();
        let Some(node) = filling.existing.place(pod, on, &mut known, &caches.rules, others, devices) else {
            return false;
        };
        // Not only when `bound`: a pod without rules still counts for the rules of others.
        if let Some(profile) = known.profile {
            filling.topology.record_node(profile, node, caches.rules.registry());
        }
        let (target, id) = existing::target(node);
        filling.joined.push((index, id));
        filling.nominations.push(Nomination { pod: pod.key.clone(), target: target.clone() });
        let outcome = match target {
            Target::Node(name) => PodOutcome::Existing(name),
            Target::Claim(name) => PodOutcome::InFlight(name),
        };
        filling.outcomes.insert(index, outcome);
        true
    }

    /// Puts the pod into the least loaded open in-flight node that takes it, or into node `on` if that takes it.
    fn join_open_node(
        &mut self,
        index: PodIx,
        on: Option<InFlightIx>,
        level: LevelIx,
        bound: Option<ProfileIx>,
    ) -> JoinedOpen {
        let Self { compiled, caches, filling } = self;
        let Caches { rules, catalogues, learnt, refused, .. } = caches;
        let pod = compiled.pod(index);
        let Known { demand, demand_memo, level_memo, .. } = learnt.known(&compiled.levels, level);
        // Host affinity leaves few nodes: those with a matching pod. Walking over all of them would find the same.
        let joining = bound.and_then(|id| filling.topology.in_flight_to_join(id));
        let mut candidates = match on.map(|number| vec![number]).or(joining) {
            Some(nodes) => filling.open.only(nodes, |number| filling.in_flight[number].pods.len()),
            None => Walk::default(),
        };
        // Both kinds of refusal that hold for the pass; refusals for now are added to this copy only.
        refused.become_either(&demand_memo.in_flight, &level_memo.in_flight);
        if filling.apart {
            // For this walk only: another level of the pod may demand less.
            filling.open.add_opened_for_others(demand.rules, refused);
        }
        let surroundings = Surroundings {
            topology: &filling.topology,
            reservations: &filling.reservations,
            devices: filling.devices.as_ref(),
        };
        // Only a new node may lower `minValues` (spec scheduling 14).
        let (prices, lower) = (&mut demand_memo.prices, MinValuesPolicy::Strict);
        let mut joiner = Joiner::new(rules, surroundings, demand, bound, prices, lower);
        let mut used_up = false;
        let (number, state) = loop {
            let Some(number) = filling.open.next(&mut candidates, refused) else {
                return JoinedOpen::No { used_up };
            };
            let node = &filling.in_flight[number];
            let space = &compiled.pools.spaces[node.pool];
            let catalogue = &mut catalogues[space.catalogue];
            let hosting =
                demand_memo.hosts.entry(node.pool).or_insert_with(|| joiner.hosting(space, catalogue));
            // Cheap tests first: joining an in-flight node costs far more than two bit sets and a port list.
            let possible = hosting.as_ref().filter(|variants| {
                variants.meets(&node.state.variants)
                    && node.ports.conflict(&pod.key, &demand.host_ports).is_none()
            });
            let Some(hosting) = possible else {
                demand_memo.in_flight.insert(number);
                continue;
            };
            match joiner.join(&node.state, number, hosting, space, catalogue) {
                Joined::As(state) => break (number, state),
                // Whatever the profile, so it is remembered with the demand, for all levels that share it.
                Joined::Never => demand_memo.in_flight.insert(number),
                // Every in-flight node with these requirements would answer the same.
                Joined::Clash => {
                    filling.open.add_alike(node.state.rules, &mut demand_memo.in_flight);
                    refused.unite(&demand_memo.in_flight);
                }
                // Depends on the profile, so other levels with the same demand may still join.
                Joined::KeptOut => level_memo.in_flight.insert(number),
                // Not remembered: domains open up as other pods are placed. The rest of this walk may skip them.
                Joined::NoDomain => filling.open.add_alike(node.state.rules, refused),
                // Not remembered either: a matching pod may come to this host, a device may be released.
                Joined::NotNow => {}
                Joined::UsedUp => used_up = true,
            }
        };
        let proposal = joiner.proposal.take();
        let node = &mut filling.in_flight[number];
        filling.reservations.hold(number, &state.reserved);
        filling.open.narrowed(number, Some(node.state.rules), state.rules);
        node.state = state;
        node.ports.add(&pod.key, &demand.host_ports);
        node.pods.push(index);
        filling.open.loaded(number, node.pods.len());
        filling.equip(number, proposal, compiled, caches);
        filling.record(number, level, compiled, caches);
        JoinedOpen::Yes
    }

    /// Opens an in-flight node of the first pool that can host the pod, and charges the pool's limits. Where a
    /// co-location `group` is expected to follow, its demand with that of the pod must fit.
    fn open_node(
        &mut self,
        index: PodIx,
        level: LevelIx,
        bound: Option<ProfileIx>,
        group: Option<&Demand>,
    ) -> Tried {
        let Self { compiled, caches, filling } = self;
        let Caches { rules, catalogues, learnt, .. } = caches;
        let pod = compiled.pod(index);
        let Known { demand: own, demand_memo, .. } = learnt.known(&compiled.levels, level);
        // Results about the demand of a group must not be recorded as those of the pod.
        let mut of_all = DemandMemo::default();
        let (demand, DemandMemo { hosts, prices, .. }) =
            group.map_or((own, demand_memo), |all| (all, &mut of_all));
        let number = filling.in_flight.end();
        let lower = compiled.settings.min_values_policy;
        let surroundings = Surroundings {
            topology: &filling.topology,
            reservations: &filling.reservations,
            devices: filling.devices.as_ref(),
        };
        let mut joiner = Joiner::new(rules, surroundings, demand, bound, prices, lower);
        for (position, space) in compiled.pools.spaces.enumerate() {
            let catalogue = &mut catalogues[space.catalogue];
            let limits = &mut filling.limits[position];
            let hosting = hosts.entry(position).or_insert_with(|| joiner.hosting(space, catalogue));
            let Some(hosting) = hosting else { continue };
            let Ok(allowed) = limits.admit(catalogue, &space.base) else { continue };
            let empty = State::new(space, allowed);
            let state = match joiner.join(&empty, number, hosting, space, catalogue) {
                // Room for the group was needed to choose the types; its pods bring their requests when they join.
                Joined::As(state) if group.is_some() => state.with_only(own),
                Joined::As(state) => state,
                // A lighter pool would take the pod now, but the heavier one is preferred as soon as an instance is
                // given back.
                Joined::UsedUp => return Tried::UsedUp(position),
                Joined::NotNow | Joined::NoDomain | Joined::KeptOut | Joined::Clash | Joined::Never => {
                    continue;
                }
            };
            let proposal = joiner.proposal.take();
            limits.charge(catalogue, &state.variants);
            filling.reservations.hold(number, &state.reserved);
            let mut ports = HostPorts::default();
            ports.add(&pod.key, &own.host_ports);
            filling.open.opened(number, own.rules);
            filling.open.narrowed(number, None, state.rules);
            filling.open.loaded(number, 1);
            filling.in_flight.push(InFlightNode {
                pool: position,
                state,
                ports,
                pods: vec![index],
                devices: None,
            });
            filling.equip(number, proposal, compiled, caches);
            filling.record(number, level, compiled, caches);
            return Tried::Placed;
        }
        Tried::Refused
    }

    /// Turns in-flight nodes into claims, those that are `certain` as such, and completes the report.
    fn finish(mut self, certain: &BTreeSet<InFlightIx>) -> Placement {
        let mut placement = Placement::default();
        let mut launches_of = BTreeMap::new();
        self.filling.settle_reservations();
        for number in self.filling.in_flight.positions() {
            // Repacking moved its pods elsewhere.
            if self.filling.in_flight[number].pods.is_empty() {
                continue;
            }
            let pool = self.compiled.pools.spaces[self.filling.in_flight[number].pool].pool.name.clone();
            let id = BinId(u32::try_from(placement.launches.len() + 1).unwrap_or(u32::MAX));
            let launched = self.query().launch(number, id);
            let Filling { in_flight, devices, outcomes, .. } = &mut self.filling;
            let node = &in_flight[number];
            let outcome = match launched {
                Ok(Quoted { launch, .. }) => {
                    if let Some((devices, number)) = devices.as_ref().zip(node.devices) {
                        placement.grants.extend(devices.granted_by(number, id));
                    }
                    *launches_of.entry(pool).or_insert(0) += 1;
                    placement.launches.push(launch);
                    if certain.contains(&number) {
                        placement.certain.insert(id);
                    }
                    PodOutcome::New(id)
                }
                Err(reason) => PodOutcome::Unschedulable(vec![PoolRefusal { pool: Some(pool), reason }]),
            };
            outcomes.extend(node.pods.iter().map(|pod| (*pod, outcome.clone())));
        }
        let Self { compiled, filling, .. } = self;
        // In the order of the snapshot, which is mostly that of the keys already.
        let outcome =
            |index: &PodIx| Some((compiled.pod(*index).key.clone(), filling.outcomes.get(index)?.clone()));
        placement.pods = compiled.arrivals.iter().filter_map(outcome).collect();
        placement.pools.clone_from(&compiled.pools.outcomes);
        for (pool, launches) in launches_of {
            placement.pools.insert(pool, PoolOutcome::Used { launches });
        }
        placement.nominations = filling.nominations;
        placement.nominations.sort();
        if let Some(devices) = &filling.devices {
            let homes: BTreeSet<&NodeId> = filling.joined.iter().map(|(_, node)| node).collect();
            placement.grants.extend(homes.into_iter().flat_map(|node| devices.granted_on(node)));
            placement.grants.sort();
        }
        placement.used_nodes = filling.joined.into_iter().map(|(_, node)| node).collect();
        placement
    }
}

impl Query<'_, '_> {
    /// Returns the refusal of each pool for the pod at `index` at its last level, where only hard constraints are left.
    fn refusal(&mut self, index: PodIx) -> Vec<PoolRefusal> {
        let Self { compiled, filling, caches } = self;
        let last = *compiled.levels(index).last().expect("invariant: a class has at least one level");
        let (demand, profile) = (compiled.levels.demand(last), compiled.levels.profile(last));
        let version = profile.map_or(0, |id| filling.topology.version(id));
        if let Some((_, known)) = caches.refusals.get(&last).filter(|(known, _)| *known == version) {
            return known.clone();
        }
        let mut refusals = Vec::new();
        for (space, limits) in compiled.pools.spaces.iter().zip(filling.limits.iter()) {
            let catalogue = &mut caches.catalogues[space.catalogue];
            let others = profile.map(|id| (&filling.topology, id));
            let circumstances = Circumstances { limits, others, devices: filling.devices.as_ref() };
            let reason = refusal::explain(
                demand,
                circumstances,
                space,
                catalogue,
                &mut caches.rules,
                &compiled.resources,
            );
            refusals.push(PoolRefusal { pool: Some(space.pool.name.clone()), reason });
        }
        // No pool takes part, so none has refused: report why.
        if refusals.is_empty() {
            refusals = compiled.pools.left_out();
        }
        caches.refusals.insert(last, (version, refusals.clone()));
        refusals
    }

    /// The claim for in-flight node `number`.
    fn launch(&mut self, number: InFlightIx, id: BinId) -> Result<Quoted, Reason> {
        let Self { compiled, filling, caches } = self;
        let node = &filling.in_flight[number];
        let space = &compiled.pools.spaces[node.pool];
        let catalogue = &mut caches.catalogues[space.catalogue];
        let terms = Terms { settings: &compiled.settings, quotes: !compiled.explains };
        let mut claim = caches.made.claim(node, space, catalogue, &mut caches.rules, terms)?;
        let held = filling.devices.as_ref().zip(node.devices);
        if let Some(drivers) = held.and_then(|(devices, number)| devices.drivers(number)) {
            claim.launch.annotations.insert(annotation::REQUESTED_DRIVERS.into(), drivers);
        }
        let mut requests: Resources = node.pods.iter().map(|pod| compiled.requests[*pod]).sum();
        // Its types have the same of what devices stand for.
        if let (Some((devices, _)), Some(variant)) = (held, node.state.variants.iter().next()) {
            let allocatable = catalogue.variant(variant).instance_type.allocatable();
            requests = devices.counted(&requests, &allocatable);
        }
        Ok(claim.with_pods(id, &requests, node.pods.iter().map(|pod| compiled.pod(*pod))))
    }
}

/// Result of offering a pod to the open in-flight nodes.
enum JoinedOpen {
    /// One took it.
    Yes,
    /// None took it. Where that was because reservations are used up, the pod is worth another try once an instance is given
    /// back.
    No { used_up: bool },
}

/// The result of trying a level.
enum Tried {
    /// The pod has a place.
    Placed,
    /// No node takes the pod.
    Refused,
    /// This pool would take the pod, but every reservation it could use is held.
    UsedUp(PoolIx),
}
