//! The solver: one pod after the other, existing machines first, then open bins, then a new bin
//! (spec core-scheduling 12).

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use karpenter_model::report::ReasonCode;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::taint::first_untolerated;
use karpenter_model::{
    BinId, Expression, HostPorts, Nomination, Pod, PodOutcome, PoolOutcome, PoolRefusal, Reason,
    Requirements, Snapshot, Target,
};

use crate::amounts::ResourceIndex;
use crate::place::Placement;
use crate::place::bin::{Bin, State};
use crate::place::class::{Ask, AskId, Asks, Class, Signature};
use crate::place::constraint::bound_anti_affinity::BoundAntiAffinity;
use crate::place::existing::{self, Existing};
use crate::place::pool::Pools;
use crate::place::relax::{self, Wish};
use crate::place::{materialise, queue, refusal, reject};
use crate::rules::Rules;

/// Everything a pass works on.
pub(crate) struct Solver<'a> {
    snapshot: &'a Snapshot,
    rules: Rules<'a>,
    pools: Pools<'a>,
    existing: Existing<'a>,
    bins: Vec<Bin>,
    /// Bins by number of pods, then number: the order they are tried in.
    by_load: BTreeSet<(usize, usize)>,
    asks: Asks,
    classes: Vec<Class>,
    /// Pods in the order they are tried, with their class.
    queue: Vec<(&'a Pod, usize)>,
    /// Per ask that everything refused: what each pool said.
    refusals: BTreeMap<AskId, Vec<PoolRefusal>>,
    placement: Placement,
}

impl<'a> Solver<'a> {
    /// Interns and indexes `snapshot`.
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut rules = Rules::new(&snapshot.registry);
        let mut resources = ResourceIndex::default();
        let pools = Pools::new(snapshot, &mut rules, &mut resources);
        let soft_taints = pools.spaces.iter().any(|space| relax::has_soft_taint(&space.pool.template.taints));
        let bound = BoundAntiAffinity::new(snapshot);
        let mut compiler = Compiler { snapshot, soft_taints, bound, asks: Asks::default() };
        let mut classes: IndexMap<Signature<'a>, Class> = IndexMap::new();
        let social = !compiler.bound.is_empty();
        let mut queue = Vec::new();
        for pod in queue::pods(snapshot) {
            let entry = classes.entry(Signature::of(pod, social));
            queue.push((pod, entry.index()));
            entry.or_insert_with(|| compiler.class(pod, &mut rules, &mut resources));
        }
        let keys =
            compiler.asks.iter().filter_map(|ask| ask.rules).flat_map(|set| {
                rules.rules_of(set).iter().map(|rule| rules.requirement(*rule).key().clone())
            });
        let existing = Existing::new(snapshot, keys.collect(), &mut resources);
        Self {
            snapshot,
            rules,
            pools,
            existing,
            bins: Vec::new(),
            by_load: BTreeSet::new(),
            asks: compiler.asks,
            classes: classes.into_values().collect(),
            queue,
            refusals: BTreeMap::new(),
            placement: Placement::default(),
        }
    }

    /// Places every pod and writes down the result.
    pub(crate) fn run(mut self) -> Placement {
        for index in 0..self.queue.len() {
            let (pod, class) = self.queue[index];
            let outcome = match &self.classes[class] {
                Class::Refused(outcome) => Some(outcome.clone()),
                Class::Asks(asks) => {
                    let asks = asks.clone();
                    self.place(index, &asks)
                }
            };
            if let Some(outcome) = outcome {
                self.placement.pods.insert(pod.key.clone(), outcome);
            }
        }
        self.finish()
    }

    /// The outcome for the pod at `index`; `None` when it joined a bin, which is reported once the bin is
    /// known to become a claim.
    fn place(&mut self, index: usize, asks: &[AskId]) -> Option<PodOutcome> {
        let (pod, _) = self.queue[index];
        for ask in asks {
            let (wanted, memory) = self.asks.get_mut(*ask);
            if memory.exhausted {
                continue;
            }
            if wanted.rules.is_none() {
                memory.exhausted = true;
                continue;
            }
            if let Some(node) = self.existing.place(pod, wanted, memory, &self.rules) {
                let (target, id) = existing::target(node);
                self.placement.used_nodes.push(id);
                self.placement.nominations.push(Nomination { pod: pod.key.clone(), target: target.clone() });
                return Some(match target {
                    Target::Node(name) => PodOutcome::Existing(name),
                    Target::Claim(name) => PodOutcome::InFlight(name),
                });
            }
            if self.join_open_bin(index, *ask) || self.open_bin(index, *ask) {
                return None;
            }
            self.asks.get_mut(*ask).1.exhausted = true;
        }
        Some(PodOutcome::Unschedulable(self.refusal(asks)))
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
            let state = if welcome {
                bin.state.join(wanted, space, catalogue, &mut self.rules, MinValuesPolicy::Strict)
            } else {
                None
            };
            if let Some(state) = state {
                joined = Some((*load, *number, state));
                break;
            }
            memory.refuse(*number);
        }
        let Some((load, number, state)) = joined else { return false };
        let bin = &mut self.bins[number];
        bin.state = state;
        bin.ports.add(&pod.key, &wanted.host_ports);
        bin.pods.push(index);
        self.by_load.remove(&(load, number));
        self.by_load.insert((load + 1, number));
        true
    }

    /// Opens a bin of the first pool that can host the pod alone, and charges the pool's limits.
    fn open_bin(&mut self, index: usize, ask: AskId) -> bool {
        let (pod, _) = self.queue[index];
        let wanted = self.asks.get(ask);
        for (position, space) in self.pools.spaces.iter_mut().enumerate() {
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            if first_untolerated(&space.pool.template.taints, &wanted.tolerations).is_some() {
                continue;
            }
            let Ok(allowed) = space.limits.admit(catalogue, &space.base) else { continue };
            let lower = self.snapshot.settings.min_values_policy;
            let empty = State::new(space, allowed);
            let Some(state) = empty.join(wanted, space, catalogue, &mut self.rules, lower) else { continue };
            space.limits.charge(catalogue, &state.shapes);
            let mut ports = HostPorts::default();
            ports.add(&pod.key, &wanted.host_ports);
            self.by_load.insert((1, self.bins.len()));
            self.bins.push(Bin { pool: position, state, ports, pods: vec![index] });
            return true;
        }
        false
    }

    /// What each pool says to the most relaxed of `asks`.
    fn refusal(&mut self, asks: &[AskId]) -> Vec<PoolRefusal> {
        let last = *asks.last().expect("invariant: a class has at least one ask");
        if let Some(known) = self.refusals.get(&last) {
            return known.clone();
        }
        let ask = self.asks.get(last);
        let mut refusals = Vec::new();
        for space in &self.pools.spaces {
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            let reason = refusal::explain(ask, space, catalogue, &mut self.rules);
            refusals.push(PoolRefusal { pool: Some(space.pool.name.clone()), reason });
        }
        if refusals.is_empty() {
            refusals.push(PoolRefusal { pool: None, reason: Reason::bare(ReasonCode::NoPools) });
        }
        self.refusals.insert(last, refusals.clone());
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

/// Turns pods into classes and asks.
struct Compiler<'a> {
    snapshot: &'a Snapshot,
    soft_taints: bool,
    bound: BoundAntiAffinity<'a>,
    asks: Asks,
}

impl<'a> Compiler<'a> {
    fn class(&mut self, pod: &Pod, rules: &mut Rules<'a>, resources: &mut ResourceIndex) -> Class {
        if let Some(outcome) = reject::rejection(pod, self.snapshot) {
            return Class::Refused(outcome);
        }
        let wishes = relax::wishes(pod, self.snapshot.settings.preference_policy, self.soft_taints);
        let ask = |wish: Wish<'_>| {
            let mut tolerations = pod.tolerations.clone();
            if wish.tolerate_soft_taints {
                tolerations.push(karpenter_model::Toleration::prefer_no_schedule());
            }
            let ask = Ask {
                rules: requirements(pod, wish, &self.bound, rules)
                    .map(|requirements| rules.set(&requirements)),
                requests: pod.requests.clone(),
                amounts: resources.amounts(&pod.requests),
                tolerations,
                host_ports: pod.host_ports.clone(),
            };
            self.asks.intern(ask)
        };
        Class::Asks(wishes.into_iter().map(ask).collect())
    }
}

/// The requirements of one wish; `None` when they contradict each other. An intersection that came out empty
/// would read as `DoesNotExist`, which nodes without the label satisfy, so it must not be mistaken for one.
fn requirements(
    pod: &Pod,
    wish: Wish<'_>,
    bound: &BoundAntiAffinity<'_>,
    rules: &Rules<'_>,
) -> Option<Requirements> {
    let registry = rules.registry();
    let selected = Requirements::from_labels(registry, &pod.node_selector);
    let terms = wish.required.into_iter().chain(wish.preferred).flat_map(|term| term.expressions.clone());
    let stated: Vec<Expression> = terms.chain(bound.exclusions(pod)).collect();
    let stated: Vec<_> =
        stated.iter().map(|expression| karpenter_model::Requirement::new(registry, expression)).collect();
    let merged: Requirements = selected.iter().chain(&stated).cloned().collect();
    let needs_value = |key: &str| {
        let mut about = selected.iter().chain(&stated).filter(|requirement| requirement.key() == key);
        about.any(|requirement| !requirement.accepts_absence())
    };
    let contradiction =
        merged.iter().any(|requirement| requirement.is_empty() && needs_value(requirement.key().as_str()));
    (!contradiction).then_some(merged)
}
