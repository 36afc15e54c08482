//! The solver: one pod after the other, existing machines first, then open bins, then a new bin
//! (spec core-scheduling 12). Pods that wait for others are tried again as long as any pod gets a place.

mod compile;
mod join;
pub(crate) mod overlay;

use std::collections::BTreeMap;

use karpenter_model::report::ReasonCode;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::taint::first_untolerated;
use karpenter_model::{
    BinId, HostPorts, Node, NodeId, Nomination, Pod, PodOutcome, PoolOutcome, PoolRefusal, Reason, Settings,
    Target,
};

use crate::amounts::ResourceIndex;
use crate::place::Placement;
use crate::place::bin::{Bin, State};
use crate::place::class::{AskId, Asks, Class};
use crate::place::existing::{self, Admission, Existing, KindId};
use crate::place::materialise::{self, Quoted, Terms};
use crate::place::pool::Pools;
use crate::place::refusal;
use crate::place::reservations::Reservations;
use crate::place::topology::{Domain, ProfileId, Topology};
use crate::rules::Rules;
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
    reservations: Reservations,
    resources: ResourceIndex,
    asks: Asks,
    classes: Vec<Class>,
    /// Pods in the order they are tried, with their class.
    queue: Vec<(&'a Pod, usize)>,
    /// Pods that have a place.
    placed: usize,
    /// Those of them that are on an existing machine, in the order they got there.
    homes: Vec<(usize, NodeId)>,
    /// Number of the pass; what-if questions are passes of their own.
    pass: u64,
    /// Bins of earlier passes; nobody joins those any more.
    closed_bins: usize,
    /// Whether every refusal is explained at once; otherwise whoever asked does so when it matters.
    explains: bool,
    /// Per ask that everything refused: what each pool said, and the version of the rules about others then.
    refusals: BTreeMap<AskId, (u64, Vec<PoolRefusal>)>,
    placement: Placement,
}

impl Solver<'_> {
    /// Places every pod and writes down the result.
    pub(crate) fn run(mut self) -> Placement {
        self.place_all((0..self.queue.len()).collect());
        self.finish()
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
        let (pod, class) = self.queue[index];
        let asks = match &self.classes[class] {
            Class::Refused(outcome) => {
                self.placement.pods.insert(pod.key.clone(), outcome.clone());
                return true;
            }
            Class::Asks(asks) => asks.clone(),
        };
        for ask in &asks {
            match self.try_ask(index, *ask) {
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
                    self.placement.pods.insert(pod.key.clone(), outcome);
                    return false;
                }
            }
        }
        let refusals = if self.explains { self.refusal(&asks) } else { Vec::new() };
        self.placement.pods.insert(pod.key.clone(), PodOutcome::Unschedulable(refusals));
        asks.iter().all(|ask| self.asks.get_mut(*ask).1.exhausted)
    }

    /// Places the pod at `index` as `ask` says, if anything takes it.
    fn try_ask(&mut self, index: usize, ask: AskId) -> Tried {
        let (wanted, memory) = self.asks.get_mut(ask);
        memory.begin(self.pass, self.closed_bins);
        let bound = wanted.profile.filter(|id| self.topology.is_bound_to_others(*id));
        let version = bound.map_or(0, |id| self.topology.version(id)) + self.reservations.releases();
        if memory.exhausted {
            return Tried::Refused;
        }
        if memory.stuck_at == Some(version) {
            return memory.used_up.map_or(Tried::Refused, Tried::UsedUp);
        }
        let mut used_up = false;
        if wanted.rules.is_some() && !wanted.places.is_empty() {
            if self.join_node(index, ask, bound) || self.join_open_bin(index, ask, &mut used_up) {
                return Tried::Placed;
            }
            let opened = self.open_bin(index, ask);
            let (_, memory) = self.asks.get_mut(ask);
            memory.used_up = match opened {
                Tried::Placed => return Tried::Placed,
                Tried::UsedUp(pool) => Some(pool),
                Tried::Refused => None,
            };
            used_up |= memory.used_up.is_some();
            memory.stuck_at = (bound.is_some() || used_up).then_some(version);
            memory.exhausted = memory.stuck_at.is_none();
            return opened;
        }
        memory.exhausted = true;
        Tried::Refused
    }

    /// Sends the pod to the first existing machine that takes it.
    fn join_node(&mut self, index: usize, ask: AskId, bound: Option<ProfileId>) -> bool {
        let (pod, _) = self.queue[index];
        let (wanted, memory) = self.asks.get_mut(ask);
        let topology = &self.topology;
        let mut domains: Vec<Option<bool>> = vec![None; self.existing.kinds()];
        let admits = |node: &Node, host: &Domain, KindId(kind): KindId| {
            let Some(id) = bound else { return Admission::Yes };
            let known = *domains[kind].get_or_insert_with(|| topology.admits_domains(id, node));
            if known { topology.admits_host(id, host) } else { Admission::NotNow }
        };
        let Some(node) = self.existing.place(pod, wanted, memory, &self.rules, admits) else { return false };
        if let Some(profile) = wanted.profile {
            self.topology.record_node(profile, node, self.rules.registry());
        }
        let (target, id) = existing::target(node);
        self.homes.push((index, id));
        self.placement.nominations.push(Nomination { pod: pod.key.clone(), target: target.clone() });
        let outcome = match target {
            Target::Node(name) => PodOutcome::Existing(name),
            Target::Claim(name) => PodOutcome::InFlight(name),
        };
        self.placement.pods.insert(pod.key.clone(), outcome);
        true
    }

    /// Puts the pod into the least loaded open bin that takes it; `used_up` tells that reservations were in the
    /// way somewhere.
    fn join_open_bin(&mut self, index: usize, ask: AskId, used_up: &mut bool) -> bool {
        let (pod, _) = self.queue[index];
        let (wanted, memory) = self.asks.get_mut(ask);
        memory.learn(self.bins.len());
        let mut not_now = Vec::new();
        let mut joined = None;
        while let Some(number) = memory.take(|number| self.bins[number].pods.len()) {
            let bin = &self.bins[number];
            let space = &self.pools.spaces[bin.pool];
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            if bin.ports.conflict(&pod.key, &wanted.host_ports).is_some()
                || first_untolerated(&space.pool.template.taints, &wanted.tolerations).is_some()
            {
                continue;
            }
            let mut attempt = Joiner {
                rules: &mut self.rules,
                topology: &self.topology,
                reservations: &self.reservations,
                lower: MinValuesPolicy::Strict,
            };
            match attempt.join(&bin.state, number, wanted, space, catalogue) {
                Joined::As(state) => {
                    joined = Some((number, state));
                    break;
                }
                Joined::Never => {}
                later @ (Joined::NotNow | Joined::UsedUp) => {
                    *used_up |= matches!(later, Joined::UsedUp);
                    not_now.push(number);
                }
            }
        }
        for number in not_now {
            memory.put_back(number, self.bins[number].pods.len());
        }
        let Some((number, state)) = joined else { return false };
        let bin = &mut self.bins[number];
        self.reservations.hold(&bin.state.reserved, &state.reserved);
        bin.state = state;
        bin.ports.add(&pod.key, &wanted.host_ports);
        bin.pods.push(index);
        memory.put_back(number, bin.pods.len());
        self.record(number, ask);
        true
    }

    /// Opens a bin of the first pool that can host the pod alone, and charges the pool's limits.
    fn open_bin(&mut self, index: usize, ask: AskId) -> Tried {
        let (pod, _) = self.queue[index];
        let wanted = self.asks.get(ask);
        let number = self.bins.len();
        let lower = self.settings.min_values_policy;
        for (position, space) in self.pools.spaces.iter_mut().enumerate() {
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            if first_untolerated(&space.pool.template.taints, &wanted.tolerations).is_some() {
                continue;
            }
            let Ok(allowed) = space.limits.admit(catalogue, &space.base) else { continue };
            let empty = State::new(space, allowed);
            let (rules, topology) = (&mut self.rules, &self.topology);
            let mut joiner = Joiner { rules, topology, reservations: &self.reservations, lower };
            let state = match joiner.join(&empty, number, wanted, space, catalogue) {
                Joined::As(state) => state,
                Joined::UsedUp => return Tried::UsedUp(position),
                Joined::NotNow | Joined::Never => continue,
            };
            space.limits.charge(catalogue, &state.shapes);
            self.reservations.hold(&empty.reserved, &state.reserved);
            let mut ports = HostPorts::default();
            ports.add(&pod.key, &wanted.host_ports);
            self.bins.push(Bin { pool: position, state, ports, pods: vec![index] });
            self.record(number, ask);
            return Tried::Placed;
        }
        Tried::Refused
    }

    /// Counts the pod that has just joined bin `number`.
    fn record(&mut self, number: usize, ask: AskId) {
        if let Some(profile) = self.asks.get(ask).profile {
            let bin = &self.bins[number];
            let requirements = self.rules.requirements(bin.state.rules);
            let space = &self.pools.spaces[bin.pool];
            self.topology.record_bin(profile, number, &requirements, space, self.rules.registry());
        }
    }

    /// What each pool says to the most relaxed of `asks`.
    fn refusal(&mut self, asks: &[AskId]) -> Vec<PoolRefusal> {
        let last = *asks.last().expect("invariant: a class has at least one ask");
        let ask = self.asks.get(last);
        let version = ask.profile.map_or(0, |id| self.topology.version(id));
        if let Some((_, known)) = self.refusals.get(&last).filter(|(known, _)| *known == version) {
            return known.clone();
        }
        let mut refusals = Vec::new();
        for space in &self.pools.spaces {
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            let reason =
                refusal::explain(ask, space, catalogue, &mut self.rules, &self.topology, &self.resources);
            refusals.push(PoolRefusal { pool: Some(space.pool.name.clone()), reason });
        }
        if refusals.is_empty() {
            refusals.push(PoolRefusal { pool: None, reason: Reason::bare(ReasonCode::NoPools) });
        }
        self.refusals.insert(last, (version, refusals.clone()));
        refusals
    }

    /// Turns bins into claims and completes the report.
    fn finish(mut self) -> Placement {
        let mut launches_of = BTreeMap::new();
        for number in 0..self.bins.len() {
            let pool = self.pools.spaces[self.bins[number].pool].pool.name.clone();
            let id = BinId(u32::try_from(self.placement.launches.len() + 1).unwrap_or(u32::MAX));
            let outcome = match self.launch(number, id) {
                Ok(Quoted { launch, .. }) => {
                    *launches_of.entry(pool).or_insert(0) += 1;
                    self.placement.launches.push(launch);
                    PodOutcome::New(id)
                }
                Err(reason) => PodOutcome::Unschedulable(vec![PoolRefusal { pool: Some(pool), reason }]),
            };
            let keys = self.bins[number].pods.iter().map(|pod| self.queue[*pod].0.key.clone());
            self.placement.pods.extend(keys.map(|key| (key, outcome.clone())));
        }
        self.placement.pools = std::mem::take(&mut self.pools.outcomes);
        for (pool, launches) in launches_of {
            self.placement.pools.insert(pool, PoolOutcome::Used { launches });
        }
        self.placement.nominations.sort();
        self.placement.used_nodes = self.homes.into_iter().map(|(_, node)| node).collect();
        self.placement
    }

    /// The claim for bin `number`.
    fn launch(&mut self, number: usize, id: BinId) -> Result<Quoted, Reason> {
        let bin = &self.bins[number];
        let pods: Vec<&Pod> = bin.pods.iter().map(|pod| self.queue[*pod].0).collect();
        let space = &self.pools.spaces[bin.pool];
        let catalogue = &mut self.pools.catalogues[space.catalogue];
        let terms = Terms { settings: &self.settings, quotes: !self.explains };
        materialise::launch(id, bin, &pods, space, catalogue, &mut self.rules, terms)
    }
}

/// What came of trying an ask.
enum Tried {
    /// The pod has a place.
    Placed,
    /// Nothing takes it.
    Refused,
    /// This pool would take it, but every reservation it could use is held.
    UsedUp(usize),
}
