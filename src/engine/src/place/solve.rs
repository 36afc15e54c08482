//! The solver: one pod after the other, existing machines first, then open bins, then a new bin
//! (spec core-scheduling 12). Pods that wait for others are tried again as long as any pod gets a place.

mod compile;
mod economy;
mod join;
pub(crate) mod overlay;
#[cfg(test)]
mod tests;
mod together;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_devices::Proposal;
use karpenter_model::report::ReasonCode;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::{
    BinId, HostPorts, NodeId, Nomination, Pod, PodOutcome, PoolOutcome, PoolRefusal, Reason, Resources,
    Settings, Snapshot, Target, label,
};

use crate::amounts::ResourceIndex;
use crate::bits::Bits;
use crate::interning::InternedMap;
use crate::place::Placement;
use crate::place::ask::{Ask, Known, Refusals, WantId, Wants};
use crate::place::bin::{Bin, State};
use crate::place::class::Class;
use crate::place::devices::Holdings;
use crate::place::existing::{self, Existing};
use crate::place::materialise::{Made, Quoted, Terms};
use crate::place::open::{OpenBins, Walk};
use crate::place::pool::Pools;
use crate::place::refusal;
use crate::place::reservations::Reservations;
use crate::place::topology::{ProfileId, Topology};
use crate::rules::Rules;
pub(crate) use join::Prices;
use join::{Joined, Joiner};

/// Everything a pass works on.
#[derive(Debug, Clone)]
pub(crate) struct Solver<'a> {
    settings: Settings,
    rules: Rules<'a>,
    pools: Pools<'a>,
    existing: Existing<'a>,
    topology: Topology,
    bins: Vec<Bin>,
    /// Those that may take more pods.
    open: OpenBins,
    reservations: Reservations,
    /// Where pods have claims for devices.
    devices: Option<Holdings<'a>>,
    resources: ResourceIndex,
    wants: Wants,
    classes: Vec<Class>,
    /// Pods in the order they are tried, with their class.
    queue: Vec<(&'a Pod, usize)>,
    /// What they request: one list for all that request the same.
    requests: Vec<&'a Resources>,
    /// Pods in the order of the snapshot, by position in the queue; only where a plan is made.
    arrivals: Vec<usize>,
    /// What became of the pods that were tried, by position in the queue.
    outcomes: InternedMap<usize, PodOutcome>,
    /// Pods that have a place.
    placed: usize,
    /// Those of them that are on an existing machine, in the order they got there.
    homes: Vec<(usize, NodeId)>,
    /// Number of the pass; what-if questions are passes of their own.
    pass: u64,
    /// Number of bins of earlier passes; nobody joins those any more.
    closed_bins: usize,
    /// Whether every refusal is explained at once; otherwise whoever asked does so when it matters.
    explains: bool,
    /// Per want that everything refused: what each pool said, and the version of the rules about others then.
    refusals: BTreeMap<WantId, (u64, Vec<PoolRefusal>)>,
    /// Claims for bins that are alike.
    made: Made,
    /// Room for the bins that refuse one pod.
    refused: Bits,
    placement: Placement,
}

impl<'a> Solver<'a> {
    /// Places every pod of `snapshot` and writes down the result.
    pub(crate) fn run(snapshot: &'a Snapshot) -> Placement {
        let mut solver = Self::new(snapshot);
        solver.place_all((0..solver.queue.len()).collect());
        let mut solver = solver.reunited(snapshot);
        solver.economise();
        solver.finish()
    }

    /// Tries the pods in `waiting` as long as any of them gets a place.
    fn place_all(&mut self, mut waiting: Vec<usize>) {
        loop {
            let before = self.placed;
            waiting.retain(|index| !self.settle(*index));
            if waiting.is_empty() || self.placed == before {
                break;
            }
        }
    }

    /// Tries to place the pod at `index`; whether there is nothing more to try for it.
    fn settle(&mut self, index: usize) -> bool {
        let class = self.queue[index].1;
        if let Class::Refused(outcome) = &self.classes[class] {
            self.outcomes.insert(index, outcome.clone());
            return true;
        }
        for step in 0.. {
            let Some(want) = self.classes[class].want(step) else { break };
            match self.try_want(index, want) {
                Tried::Placed => {
                    self.placed += 1;
                    return true;
                }
                Tried::Refused => {}
                // Waiting for the reservation is better than giving up a wish or a heavier pool.
                Tried::UsedUp(pool) => {
                    let pool = Some(self.pools.spaces[pool].pool.name.clone());
                    let reason = Reason::bare(ReasonCode::Reservation);
                    let outcome = PodOutcome::Unschedulable(vec![PoolRefusal { pool, reason }]);
                    self.outcomes.insert(index, outcome);
                    return false;
                }
            }
        }
        let wants = self.classes[class].wants();
        let refusals = if self.explains { self.refusal(&wants) } else { Vec::new() };
        self.outcomes.insert(index, PodOutcome::Unschedulable(refusals));
        wants.iter().all(|want| self.wants.is_exhausted(*want))
    }

    /// Places the pod at `index` as `want` says, if anything takes it.
    fn try_want(&mut self, index: usize, want: WantId) -> Tried {
        let Known { ask, profile, memory, .. } = self.wants.known(want, self.pass);
        let concerns = |id: &ProfileId| self.topology.is_bound_to_others(*id) || self.topology.is_sought(*id);
        let bound = profile.filter(concerns);
        let waits = profile.is_some_and(|id| self.topology.is_bound_to_others(id));
        let served = !ask.claims.is_empty();
        let held = self.devices.as_ref().filter(|_| served).map_or(0, Holdings::version);
        let version = bound.map_or(0, |id| self.topology.version(id)) + self.reservations.releases() + held;
        if memory.exhausted {
            return Tried::Refused;
        }
        if memory.stuck_at == Some(version) {
            return memory.used_up.map_or(Tried::Refused, Tried::UsedUp);
        }
        if ask.rules.is_none() || ask.places.is_empty() {
            memory.exhausted = true;
            return Tried::Refused;
        }
        let mut used_up = false;
        if self.join_node(index, want, bound) || self.join_open_bin(index, want, bound, &mut used_up) {
            return Tried::Placed;
        }
        let opened = self.open_bin(index, want, bound, None);
        let memory = self.wants.known(want, self.pass).memory;
        memory.used_up = match opened {
            Tried::Placed => return Tried::Placed,
            Tried::UsedUp(pool) => Some(pool),
            Tried::Refused => None,
        };
        used_up |= memory.used_up.is_some();
        memory.stuck_at = (waits || used_up || served).then_some(version);
        memory.exhausted = memory.stuck_at.is_none();
        opened
    }

    /// Sends the pod to the first existing machine that takes it.
    fn join_node(&mut self, index: usize, want: WantId, bound: Option<ProfileId>) -> bool {
        let (pod, _) = self.queue[index];
        let mut known = self.wants.known(want, self.pass);
        let others = bound.map(|id| (&self.topology, id));
        let devices = self.devices.as_mut();
        let Some(node) = self.existing.place(pod, &mut known, &self.rules, others, devices) else {
            return false;
        };
        if let Some(profile) = known.profile {
            self.topology.record_node(profile, node, self.rules.registry());
        }
        let (target, id) = existing::target(node);
        self.homes.push((index, id));
        self.placement.nominations.push(Nomination { pod: pod.key.clone(), target: target.clone() });
        let outcome = match target {
            Target::Node(name) => PodOutcome::Existing(name),
            Target::Claim(name) => PodOutcome::InFlight(name),
        };
        self.outcomes.insert(index, outcome);
        true
    }

    /// Puts the pod into the least loaded open bin that takes it; `used_up` tells that reservations were in the
    /// way somewhere.
    fn join_open_bin(
        &mut self,
        index: usize,
        want: WantId,
        bound: Option<ProfileId>,
        used_up: &mut bool,
    ) -> bool {
        let (pod, _) = self.queue[index];
        let Known { ask, refusals, memory, .. } = self.wants.known(want, self.pass);
        let mut candidates = match bound.and_then(|id| self.topology.bins_to_join(id)) {
            Some(bins) => self.open.only(bins, |number| self.bins[number].pods.len()),
            None => Walk::default(),
        };
        // Bins that refuse for good, and those that cannot take it as things are.
        let refused = &mut self.refused;
        refused.become_either(&refusals.bins, &memory.bins);
        let (rules, others) = (&mut self.rules, (&self.topology, bound));
        let held = (&self.reservations, self.devices.as_ref());
        let asked = (ask, &mut refusals.prices);
        let mut joiner = Joiner::new(rules, others, held, asked, MinValuesPolicy::Strict);
        let (number, state) = loop {
            let Some(number) = self.open.next(&mut candidates, refused) else { return false };
            let bin = &self.bins[number];
            let space = &self.pools.spaces[bin.pool];
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            let hosting = refusals.hosts.entry(bin.pool).or_insert_with(|| joiner.hosting(space, catalogue));
            let possible = hosting.as_ref().filter(|shapes| {
                shapes.meets(&bin.state.shapes) && bin.ports.conflict(&pod.key, &ask.host_ports).is_none()
            });
            let Some(hosting) = possible else {
                refusals.bins.insert(number);
                continue;
            };
            match joiner.join(&bin.state, number, hosting, space, catalogue) {
                Joined::As(state) => break (number, state),
                Joined::Never => refusals.bins.insert(number),
                Joined::Clash => {
                    self.open.add_alike(bin.state.rules, &mut refusals.bins);
                    refused.unite(&refusals.bins);
                }
                Joined::KeptOut => memory.bins.insert(number),
                Joined::NoDomain => self.open.add_alike(bin.state.rules, refused),
                Joined::NotNow => {}
                Joined::UsedUp => *used_up = true,
            }
        };
        let proposal = joiner.proposal.take();
        let bin = &mut self.bins[number];
        self.reservations.hold(number, &state.reserved);
        self.open.narrowed(number, Some(bin.state.rules), state.rules);
        bin.state = state;
        bin.ports.add(&pod.key, &ask.host_ports);
        bin.pods.push(index);
        self.open.loaded(number, bin.pods.len());
        self.equip(number, proposal);
        self.record(number, want);
        true
    }

    /// Opens a bin of the first pool that can host the pod, alone or with others that will join it and ask for
    /// `together`, the pod included; and charges the pool's limits.
    fn open_bin(
        &mut self,
        index: usize,
        want: WantId,
        bound: Option<ProfileId>,
        together: Option<&Ask>,
    ) -> Tried {
        let (pod, _) = self.queue[index];
        let Known { ask: own, refusals, .. } = self.wants.known(want, self.pass);
        let mut of_all = Refusals::default();
        let (ask, Refusals { hosts, prices, .. }) =
            together.map_or((own, refusals), |all| (all, &mut of_all));
        let number = self.bins.len();
        let lower = self.settings.min_values_policy;
        let (rules, others) = (&mut self.rules, (&self.topology, bound));
        let held = (&self.reservations, self.devices.as_ref());
        let mut joiner = Joiner::new(rules, others, held, (ask, prices), lower);
        for (position, space) in self.pools.spaces.iter_mut().enumerate() {
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            let hosting = hosts.entry(position).or_insert_with(|| joiner.hosting(space, catalogue));
            let Some(hosting) = hosting else { continue };
            let Ok(allowed) = space.limits.admit(catalogue, &space.base) else { continue };
            let empty = State::new(space, allowed);
            let state = match joiner.join(&empty, number, hosting, space, catalogue) {
                Joined::As(state) if together.is_some() => state.with_only(own),
                Joined::As(state) => state,
                Joined::UsedUp => return Tried::UsedUp(position),
                Joined::NotNow | Joined::NoDomain | Joined::KeptOut | Joined::Clash | Joined::Never => {
                    continue;
                }
            };
            let proposal = joiner.proposal.take();
            space.limits.charge(catalogue, &state.shapes);
            self.reservations.hold(number, &state.reserved);
            let mut ports = HostPorts::default();
            ports.add(&pod.key, &own.host_ports);
            self.open.narrowed(number, None, state.rules);
            self.open.loaded(number, 1);
            self.bins.push(Bin { pool: position, state, ports, pods: vec![index], devices: None });
            self.equip(number, proposal);
            self.record(number, want);
            return Tried::Placed;
        }
        Tried::Refused
    }

    /// Gives bin `number` the devices of the pod that has just joined, and takes back those of types it cannot be
    /// any more.
    fn equip(&mut self, number: usize, proposal: Option<Proposal>) {
        let Some(devices) = &mut self.devices else { return };
        let bin = &mut self.bins[number];
        if let Some(proposal) = proposal {
            devices.commit(proposal);
            bin.devices = Some(number);
        }
        if let Some(held) = bin.devices {
            let catalogue = &self.pools.catalogues[self.pools.spaces[bin.pool].catalogue];
            let shapes = bin.state.shapes.iter().map(|shape| &catalogue.shape(shape).instance_type.name);
            let names: BTreeSet<_> = shapes.collect();
            devices.narrowed(held, |name| names.contains(name));
        }
    }

    /// Counts the pod that has just joined bin `number`.
    fn record(&mut self, number: usize, want: WantId) {
        if let Some(profile) = self.wants.profile(want) {
            let bin = &self.bins[number];
            let requirements = self.rules.whole(bin.state.rules);
            let space = &self.pools.spaces[bin.pool];
            self.topology.record_bin(profile, number, &requirements, space, self.rules.registry());
        }
    }

    /// What each pool says to the most relaxed of `wants`.
    fn refusal(&mut self, wants: &[WantId]) -> Vec<PoolRefusal> {
        let last = *wants.last().expect("invariant: a class has at least one want");
        let (ask, profile) = (self.wants.ask(last), self.wants.profile(last));
        let version = profile.map_or(0, |id| self.topology.version(id));
        if let Some((_, known)) = self.refusals.get(&last).filter(|(known, _)| *known == version) {
            return known.clone();
        }
        let mut refusals = Vec::new();
        for space in &self.pools.spaces {
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            let others = profile.map(|id| (&self.topology, id));
            let held = self.devices.as_ref();
            let reason =
                refusal::explain(ask, others, held, space, catalogue, &mut self.rules, &self.resources);
            refusals.push(PoolRefusal { pool: Some(space.pool.name.clone()), reason });
        }
        if refusals.is_empty() {
            refusals = self.pools.left_out();
        }
        self.refusals.insert(last, (version, refusals.clone()));
        refusals
    }

    /// Turns bins into claims and completes the report.
    fn finish(mut self) -> Placement {
        let mut launches_of = BTreeMap::new();
        self.settle_reservations(0);
        for number in 0..self.bins.len() {
            if self.bins[number].pods.is_empty() {
                continue;
            }
            let pool = self.pools.spaces[self.bins[number].pool].pool.name.clone();
            let id = BinId(u32::try_from(self.placement.launches.len() + 1).unwrap_or(u32::MAX));
            let outcome = match self.launch(number, id) {
                Ok(Quoted { launch, .. }) => {
                    if let Some((devices, number)) = self.devices.as_ref().zip(self.bins[number].devices) {
                        self.placement.grants.extend(devices.granted_by(number, id));
                    }
                    *launches_of.entry(pool).or_insert(0) += 1;
                    self.placement.launches.push(launch);
                    PodOutcome::New(id)
                }
                Err(reason) => PodOutcome::Unschedulable(vec![PoolRefusal { pool: Some(pool), reason }]),
            };
            self.outcomes.extend(self.bins[number].pods.iter().map(|pod| (*pod, outcome.clone())));
        }
        // In the order of the snapshot, which is mostly that of the keys already.
        let outcome =
            |index: &usize| Some((self.queue[*index].0.key.clone(), self.outcomes.get(index)?.clone()));
        self.placement.pods = self.arrivals.iter().filter_map(outcome).collect();
        self.placement.pools = std::mem::take(&mut self.pools.outcomes);
        for (pool, launches) in launches_of {
            self.placement.pools.insert(pool, PoolOutcome::Used { launches });
        }
        self.placement.nominations.sort();
        if let Some(devices) = &self.devices {
            let homes: BTreeSet<&NodeId> = self.homes.iter().map(|(_, node)| node).collect();
            self.placement.grants.extend(homes.into_iter().flat_map(|node| devices.granted_on(node)));
            self.placement.grants.sort();
        }
        self.placement.used_nodes = self.homes.into_iter().map(|(_, node)| node).collect();
        self.placement
    }

    /// Decides which reservations the bins from number `from` on name.
    fn settle_reservations(&mut self, from: usize) {
        let mut settled = self.reservations.settled();
        for (number, bin) in self.bins.iter_mut().enumerate().skip(from) {
            bin.state.reserved = settled.remove(&number).unwrap_or_default();
        }
    }

    /// The claim for bin `number`.
    fn launch(&mut self, number: usize, id: BinId) -> Result<Quoted, Reason> {
        let bin = &self.bins[number];
        let space = &self.pools.spaces[bin.pool];
        let catalogue = &mut self.pools.catalogues[space.catalogue];
        let terms = Terms { settings: &self.settings, quotes: !self.explains };
        let mut claim = self.made.claim(bin, space, catalogue, &mut self.rules, terms)?;
        let held = self.devices.as_ref().zip(bin.devices);
        if let Some(drivers) = held.and_then(|(devices, number)| devices.drivers(number)) {
            claim.launch.annotations.insert(label::REQUESTED_DRIVERS.into(), drivers);
        }
        let requests = bin.pods.iter().map(|pod| self.requests[*pod]).sum();
        Ok(claim.with_pods(id, &requests, bin.pods.iter().map(|pod| self.queue[*pod].0)))
    }
}

/// What came of trying a want.
enum Tried {
    /// The pod has a place.
    Placed,
    /// Nothing takes it.
    Refused,
    /// This pool would take it, but every reservation it could use is held.
    UsedUp(usize),
}
