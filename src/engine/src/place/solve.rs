//! The solver: one pod after the other, existing machines first, then open bins, then a new bin
//! (spec core-scheduling 12). Pods that wait for others are tried again as long as any pod gets a place.

mod compile;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::report::ReasonCode;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::taint::first_untolerated;
use karpenter_model::{
    BinId, HostPorts, Nomination, Pod, PodOutcome, PoolOutcome, PoolRefusal, Reason, Snapshot, Target,
};

use crate::catalogue::Catalogue;
use crate::place::Placement;
use crate::place::bin::{Bin, State};
use crate::place::class::{Ask, AskId, Asks, Class};
use crate::place::existing::{self, Existing};
use crate::place::pool::{PoolSpace, Pools};
use crate::place::topology::{ProfileId, Topology};
use crate::place::{materialise, refusal};
use crate::rules::Rules;

/// Everything a pass works on.
pub(crate) struct Solver<'a> {
    snapshot: &'a Snapshot,
    rules: Rules<'a>,
    pools: Pools<'a>,
    existing: Existing<'a>,
    topology: Topology,
    bins: Vec<Bin>,
    /// Bins by number of pods, then number: the order they are tried in.
    by_load: BTreeSet<(usize, usize)>,
    asks: Asks,
    classes: Vec<Class>,
    /// Pods in the order they are tried, with their class.
    queue: Vec<(&'a Pod, usize)>,
    /// Pods that have a place.
    placed: usize,
    /// Per ask that everything refused: what each pool said, and the version of the rules about others then.
    refusals: BTreeMap<AskId, (u64, Vec<PoolRefusal>)>,
    placement: Placement,
}

impl Solver<'_> {
    /// Places every pod and writes down the result.
    pub(crate) fn run(mut self) -> Placement {
        let mut waiting: Vec<usize> = (0..self.queue.len()).collect();
        loop {
            let before = self.placed;
            waiting.retain(|index| !self.settle(*index));
            if waiting.is_empty() || self.placed == before {
                break;
            }
        }
        self.finish()
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
        if asks.iter().any(|ask| self.try_ask(index, *ask)) {
            self.placed += 1;
            return true;
        }
        let outcome = PodOutcome::Unschedulable(self.refusal(&asks));
        self.placement.pods.insert(pod.key.clone(), outcome);
        !asks
            .iter()
            .any(|ask| self.asks.get(*ask).profile.is_some_and(|id| self.topology.is_bound_to_others(id)))
    }

    /// Places the pod at `index` as `ask` says, if anything takes it.
    fn try_ask(&mut self, index: usize, ask: AskId) -> bool {
        let (wanted, memory) = self.asks.get_mut(ask);
        let bound = wanted.profile.filter(|id| self.topology.is_bound_to_others(*id));
        let version = bound.map(|id| self.topology.version(id));
        if memory.exhausted || (bound.is_some() && memory.stuck_at == version) {
            return false;
        }
        let possible = wanted.rules.is_some();
        if possible
            && (self.join_node(index, ask, bound)
                || self.join_open_bin(index, ask)
                || self.open_bin(index, ask))
        {
            return true;
        }
        let (_, memory) = self.asks.get_mut(ask);
        memory.stuck_at = version.filter(|_| possible);
        memory.exhausted = memory.stuck_at.is_none();
        false
    }

    /// Sends the pod to the first existing machine that takes it.
    fn join_node(&mut self, index: usize, ask: AskId, bound: Option<ProfileId>) -> bool {
        let (pod, _) = self.queue[index];
        let (wanted, memory) = self.asks.get_mut(ask);
        let topology = &self.topology;
        let admits = |node: &karpenter_model::Node| bound.is_none_or(|id| topology.admits_node(id, node));
        let Some(node) = self.existing.place(pod, wanted, memory, &self.rules, admits) else { return false };
        if let Some(profile) = wanted.profile {
            self.topology.record_node(profile, node, self.rules.registry());
        }
        let (target, id) = existing::target(node);
        self.placement.used_nodes.push(id);
        self.placement.nominations.push(Nomination { pod: pod.key.clone(), target: target.clone() });
        let outcome = match target {
            Target::Node(name) => PodOutcome::Existing(name),
            Target::Claim(name) => PodOutcome::InFlight(name),
        };
        self.placement.pods.insert(pod.key.clone(), outcome);
        true
    }

    /// Puts the pod into the least loaded open bin that takes it.
    fn join_open_bin(&mut self, index: usize, ask: AskId) -> bool {
        let (pod, _) = self.queue[index];
        let (wanted, memory) = self.asks.get_mut(ask);
        if memory.refused_count == self.bins.len() {
            return false;
        }
        let mut joined = None;
        for (load, number) in &self.by_load {
            if memory.refused_bins.contains(*number) {
                continue;
            }
            let bin = &self.bins[*number];
            let space = &self.pools.spaces[bin.pool];
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            let welcome = bin.ports.conflict(&pod.key, &wanted.host_ports).is_none()
                && first_untolerated(&space.pool.template.taints, &wanted.tolerations).is_none();
            let mut attempt =
                Joiner { rules: &mut self.rules, topology: &self.topology, lower: MinValuesPolicy::Strict };
            match welcome.then(|| attempt.join(&bin.state, *number, wanted, space, catalogue)) {
                Some(Joined::As(state)) => {
                    joined = Some((*load, *number, state));
                    break;
                }
                Some(Joined::NotNow) => {}
                Some(Joined::Never) | None => memory.refuse(*number),
            }
        }
        let Some((load, number, state)) = joined else { return false };
        let bin = &mut self.bins[number];
        bin.state = state;
        bin.ports.add(&pod.key, &wanted.host_ports);
        bin.pods.push(index);
        self.by_load.remove(&(load, number));
        self.by_load.insert((load + 1, number));
        self.record(number, ask);
        true
    }

    /// Opens a bin of the first pool that can host the pod alone, and charges the pool's limits.
    fn open_bin(&mut self, index: usize, ask: AskId) -> bool {
        let (pod, _) = self.queue[index];
        let wanted = self.asks.get(ask);
        let number = self.bins.len();
        let lower = self.snapshot.settings.min_values_policy;
        for (position, space) in self.pools.spaces.iter_mut().enumerate() {
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            if first_untolerated(&space.pool.template.taints, &wanted.tolerations).is_some() {
                continue;
            }
            let Ok(allowed) = space.limits.admit(catalogue, &space.base) else { continue };
            let empty = State::new(space, allowed);
            let mut attempt = Joiner { rules: &mut self.rules, topology: &self.topology, lower };
            let Joined::As(state) = attempt.join(&empty, number, wanted, space, catalogue) else { continue };
            space.limits.charge(catalogue, &state.shapes);
            let mut ports = HostPorts::default();
            ports.add(&pod.key, &wanted.host_ports);
            self.by_load.insert((1, number));
            self.bins.push(Bin { pool: position, state, ports, pods: vec![index] });
            self.record(number, ask);
            return true;
        }
        false
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
            let reason = refusal::explain(ask, space, catalogue, &mut self.rules, &self.topology);
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
        let pods: Vec<&Pod> = self.queue.iter().map(|(pod, _)| *pod).collect();
        let mut launches_of = BTreeMap::new();
        for bin in &self.bins {
            let space = &self.pools.spaces[bin.pool];
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            let number = u32::try_from(self.placement.launches.len() + 1).unwrap_or(u32::MAX);
            let launch =
                materialise::launch(BinId(number), bin, &pods, space, catalogue, &self.rules, self.snapshot);
            let outcome = match launch {
                Ok(launch) => {
                    *launches_of.entry(space.pool.name.clone()).or_insert(0) += 1;
                    self.placement.launches.push(launch);
                    PodOutcome::New(BinId(number))
                }
                Err(reason) => {
                    let pool = Some(space.pool.name.clone());
                    PodOutcome::Unschedulable(vec![PoolRefusal { pool, reason }])
                }
            };
            let keys = bin.pods.iter().map(|pod| pods[*pod].key.clone());
            self.placement.pods.extend(keys.map(|key| (key, outcome.clone())));
        }
        self.placement.pools = std::mem::take(&mut self.pools.outcomes);
        for (pool, launches) in launches_of {
            self.placement.pools.insert(pool, PoolOutcome::Used { launches });
        }
        self.placement.nominations.sort();
        self.placement
    }
}

/// Whether an ask joins a bin.
enum Joined {
    /// It does, and this is what the bin is then.
    As(State),
    /// Rules about other pods are in the way for now.
    NotNow,
    /// Something that cannot change is in the way.
    Never,
}

/// What joining a bin needs to know.
struct Joiner<'s, 'a> {
    rules: &'s mut Rules<'a>,
    topology: &'s Topology,
    lower: MinValuesPolicy,
}

impl<'a> Joiner<'_, 'a> {
    /// Joins `ask` to bin `number`, in the first domain that rules about other pods allow and that leaves an
    /// instance type.
    fn join(
        &mut self,
        state: &State,
        number: usize,
        ask: &Ask,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Joined {
        let alone = state.join(ask, None, space, catalogue, self.rules, self.lower);
        let bound = ask.profile.filter(|id| self.topology.is_bound_to_others(*id));
        let (alone, bound) = match (alone, bound) {
            (None, _) => return Joined::Never,
            (Some(alone), None) => return Joined::As(alone),
            (Some(alone), Some(bound)) => (alone, bound),
        };
        let requirements = self.rules.requirements(alone.rules);
        for choice in self.topology.choices(bound, number, &requirements) {
            let domain = self.rules.set(&choice);
            if let Some(joined) = state.join(ask, Some(domain), space, catalogue, self.rules, self.lower) {
                return Joined::As(joined);
            }
        }
        Joined::NotNow
    }
}
