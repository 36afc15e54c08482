//! Compiles a snapshot to a solver: pods become classes, and classes lists of relaxation levels.

use std::sync::Arc;

use karpenter_model::{Pod, Requirement, Requirements, Resources, Settings, Snapshot, Toleration};

use super::Solver;
use super::caches::Caches;
use super::compiled::Compiled;
use super::filling::Filling;
use crate::amounts::ResourceIndex;
use crate::conjunction::conjunction;
use crate::daemons::Daemons;
use crate::index::{
    ArrivalIx, ClassIx, ConstraintsIx, FootprintIx, Ix, IxVec, PodIx, ProfileIx, TolerationsIx,
};
use crate::interning::{Entry, Interned, InternedMap};
use crate::place::class::{Class, Constraints, Footprint};
use crate::place::constraint::bound_anti_affinity::BoundAntiAffinity;
use crate::place::default_spread;
use crate::place::devices::{self, Holdings};
use crate::place::existing::Existing;
use crate::place::level::{Demand, DemandKey, Levels};
use crate::place::pool::{Gathered, PoolSpace, Pools};
use crate::place::queue::{self, reject};
use crate::place::relax::{self, Relaxed};
use crate::place::reservations::Reservations;
use crate::place::topology::{Bounds, Reach, Request, Topology};
use crate::rules::{RuleSetId, Rules};
use crate::volumes::{Need, SharedClaim, Volumes};

/// The pods of a pass.
pub(super) struct Batch<'a> {
    /// Pods as they are in the snapshot; those that have a node and would have to leave it say so.
    pub(super) pods: IxVec<ArrivalIx, (&'a Pod, bool)>,
    /// The order in which they are tried, by their places in the list.
    pub(super) order: IxVec<PodIx, ArrivalIx>,
    /// The places in that order of each of the pods; only where a plan is made.
    pub(super) arrivals: IxVec<ArrivalIx, PodIx>,
    /// True if nodes will be taken away and put back, so that what their pods forbid must be counted.
    pub(super) reversible: bool,
}

impl<'a> Solver<'a> {
    /// Interns and indexes `snapshot` for the pods that wait in it.
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let pods = queue::pods(snapshot);
        let order = queue::order(&pods);
        let mut arrivals = IxVec::filled(PodIx::new(0), order.len());
        for (index, arrival) in order.enumerate() {
            arrivals[*arrival] = index;
        }
        let pods = pods.into_iter().map(|pod| (pod, false)).collect();
        let batch = Batch { pods, order, arrivals, reversible: false };
        Self::compiled(snapshot, (*snapshot.settings).clone(), batch)
    }

    /// Interns and indexes `snapshot` for `batch`.
    pub(super) fn compiled(snapshot: &'a Snapshot, settings: Settings, batch: Batch<'a>) -> Self {
        let mut rules = Rules::new(&snapshot.registry);
        let mut resources = ResourceIndex::default();
        let pods: Vec<&Pod> = batch.pods.iter().map(|(pod, _)| *pod).collect();
        let volumes = Volumes::new(snapshot, &pods, batch.reversible);
        let daemons = Daemons::new(snapshot, &volumes);
        let coming = daemons.on_nodes(snapshot);
        let stood_for = devices::asked(&snapshot.devices, pods.iter().copied());
        let Gathered { pools, mut catalogues, limits } =
            Gathered::new(snapshot, (&volumes, &daemons, &stood_for), &mut rules, &mut resources);
        let devices = Holdings::new(snapshot, batch.pods.iter().copied(), &stood_for);
        let mut compiler = Compiler::new(snapshot, volumes, &daemons, &pools, &batch);
        let Classified { queue, requests, classes } =
            compiler.classes(&batch, &settings, devices.as_ref(), &mut rules, &mut resources);
        let Compiler { volumes, levels, mut topology, .. } = compiler;
        let exclusive = |(index, (pod, _)): (PodIx, &(&'a Pod, ClassIx))| {
            let volumes = volumes.exclusive(pod);
            (!volumes.is_empty()).then_some((index, volumes))
        };
        let exclusive = queue.enumerate().filter_map(exclusive).collect();
        let staying: Vec<&Pod> = batch.pods.iter().filter(|(_, moves)| !moves).map(|(pod, _)| *pod).collect();
        let asked = levels.profiled();
        let asked = asked.map(|(demand, profile)| {
            let amounts = resources.amounts(&demand.requests);
            (profile, Request { amounts, places: demand.places.clone() })
        });
        let asked = asked.collect();
        let reach = &mut Reach::new((&pools, &mut catalogues), &mut rules, asked);
        topology.complete(snapshot, (&daemons, &coming), reach, &staying);
        let reservations = if settings.gates.reserved_capacity {
            Reservations::new(&catalogues, snapshot, settings.reservation_policy)
        } else {
            Reservations::default()
        };
        let keys = levels
            .demands()
            .flat_map(|demand| demand.rules.into_iter().chain(demand.places.iter().copied()))
            .flat_map(|set| rules.rules_of(set).iter().map(|rule| rules.requirement(*rule).key().clone()));
        let existing = Existing::new(
            snapshot,
            keys.collect(),
            &topology.keys(),
            &volumes,
            (&daemons, &coming, &stood_for),
            &mut resources,
        );
        let caches = Caches::new(rules, catalogues, &levels);
        let filling = Filling::new(existing, topology, reservations, devices, limits);
        let Batch { pods, order, arrivals, reversible } = batch;
        let explains = !reversible;
        // A pod that has a node goes where it was promised a place when that node is being removed, not before.
        let waiting = order.enumerate().filter(|(_, place)| !pods[**place].1);
        let waiting = waiting.map(|(index, place)| (index, &pods[*place].0.key));
        let promised = filling.existing.promised(waiting, &snapshot.promises);
        let compiled = Compiled {
            settings,
            pools,
            resources,
            levels,
            classes,
            queue,
            requests,
            arrivals,
            promised,
            exclusive,
            explains,
        };
        Self { compiled: Arc::new(compiled), caches, filling }
    }
}

/// Turns pods into classes and levels.
struct Compiler<'a> {
    snapshot: &'a Snapshot,
    volumes: Volumes<'a>,
    soft_taints: bool,
    bound: BoundAntiAffinity<'a>,
    /// Some pod of the pass has rules about others.
    social: bool,
    /// Tolerations of the pods.
    tolerations: Interned<Vec<Toleration>>,
    levels: Levels,
    topology: Topology,
}

/// Pods by class.
struct Classified<'a> {
    /// Pods in the order they are tried, with their class.
    queue: IxVec<PodIx, (&'a Pod, ClassIx)>,
    /// Requests of each pod: one list for all that request the same.
    requests: IxVec<PodIx, &'a Resources>,
    classes: IxVec<ClassIx, Class>,
}

/// The constraints of pods at one relaxation level; with a footprint they make a level.
struct LevelConstraints {
    /// Requirements; `None` when they contradict each other.
    rules: Option<RuleSetId>,
    /// Tolerations of the pod.
    tolerations: TolerationsIx,
    /// Properties that rules of other pods see, where any pod has rules about others.
    profile: Option<ProfileIx>,
}

impl<'a> Compiler<'a> {
    fn new(
        snapshot: &'a Snapshot,
        volumes: Volumes<'a>,
        daemons: &Daemons<'_>,
        pools: &Pools<'a>,
        batch: &Batch<'a>,
    ) -> Self {
        let mut topology = Topology::default();
        topology.add_daemons(daemons, snapshot);
        let mut bound = BoundAntiAffinity::default();
        if batch.reversible {
            topology.count_bound_owners(snapshot);
        } else {
            bound = BoundAntiAffinity::new(snapshot);
        }
        let soft = |space: &PoolSpace<'_>| relax::has_soft_taint(&space.pool.template.taints);
        Self {
            snapshot,
            soft_taints: pools.spaces.iter().any(soft),
            bound,
            social: Topology::concerns(batch.pods.iter().map(|(pod, _)| *pod))
                || volumes.brings_together()
                || !topology.is_empty()
                || !snapshot.settings.default_spread.is_empty(),
            volumes,
            tolerations: Interned::default(),
            levels: Levels::default(),
            topology,
        }
    }

    /// The pods of `batch` in the order they are tried, with their classes.
    fn classes(
        &mut self,
        batch: &Batch<'a>,
        settings: &Settings,
        devices: Option<&Holdings<'_>>,
        rules: &mut Rules<'a>,
        resources: &mut ResourceIndex,
    ) -> Classified<'a> {
        let mut classes: InternedMap<(FootprintIx, ConstraintsIx), Class> = InternedMap::default();
        let mut by_footprint: InternedMap<Footprint<'a>, Option<Demand>> = InternedMap::default();
        let mut by_constraints: InternedMap<Constraints<'a>, Option<Vec<LevelConstraints>>> =
            InternedMap::default();
        // As they are in the snapshot, which is how they are in memory.
        let mut class_of: IxVec<ArrivalIx, (FootprintIx, ClassIx)> = IxVec::default();
        let identity_matters = self.social || !self.bound.is_empty();
        for (pod, moves) in batch.pods.iter() {
            let need = self.volumes.need(pod, *moves);
            let own_claims = devices.is_some_and(|held| held.makes_claims_for(pod));
            let footprint = by_footprint.entry(Footprint::of(pod, need, (*moves, own_claims)));
            let constraints = Constraints::of(pod, self.volumes.get(need), settings, identity_matters);
            let places = constraints.places();
            let constraints = by_constraints.entry(constraints);
            let numbers = (FootprintIx::new(footprint.index()), ConstraintsIx::new(constraints.index()));
            let (footprint, constraints) = (footprint.or_default(), constraints.or_default());
            let entry = classes.entry(numbers);
            class_of.push((numbers.0, ClassIx::new(entry.index())));
            let Entry::Vacant(vacant) = entry else { continue };
            let need = self.volumes.get(need);
            if let Some(outcome) = reject::rejection(pod, need, self.snapshot) {
                vacant.insert(Class::Refused(outcome));
                continue;
            }
            let claims = match devices.map_or_else(|| Ok(Vec::new()), |held| held.claims_of(pod)) {
                Ok(claims) => claims,
                Err(reason) => {
                    vacant.insert(Class::Refused(reject::refused(reason)));
                    continue;
                }
            };
            let bare = || Demand { claims, ..bare(pod, *moves, need, rules, resources) };
            let bare = &*footprint.get_or_insert_with(bare);
            let one_zone = need.one_zone.clone();
            let relaxed =
                constraints.get_or_insert_with(|| self.relaxed(pod, (places.as_ref(), &one_zone), rules));
            vacant.insert(self.class(numbers.0, bare, relaxed));
        }
        let queue = batch.order.iter().map(|place| (batch.pods[*place].0, class_of[*place].1));
        let requests =
            batch.order.iter().map(|place| by_footprint.keys()[class_of[*place].0.get()].requests());
        Classified {
            queue: queue.collect(),
            requests: requests.collect(),
            classes: classes.into_values().collect(),
        }
    }

    /// The class of pods with `footprint`, which makes the demand `bare`, and with the constraints `relaxed`.
    fn class(&mut self, footprint: FootprintIx, bare: &Demand, relaxed: &[LevelConstraints]) -> Class {
        let level = |LevelConstraints { rules, tolerations, profile }: &LevelConstraints| {
            let key = DemandKey { rules: *rules, footprint, tolerations: *tolerations };
            let tolerations = || self.tolerations[tolerations.get()].clone();
            let demand = || Demand { rules: *rules, tolerations: tolerations(), ..bare.clone() };
            self.levels.intern(key, demand, *profile)
        };
        Class::Levels(relaxed.iter().map(level).collect())
    }

    /// The constraints of `pod` at each relaxation level. Its volumes can be attached at `places` or anywhere, and those of the
    /// claims `one_zone` will be where the first pod with them is.
    fn relaxed(
        &mut self,
        pod: &Pod,
        (places, one_zone): (Option<&Arc<[Requirements]>>, &[SharedClaim]),
        rules: &mut Rules<'a>,
    ) -> Vec<LevelConstraints> {
        let pod: &Pod = &default_spread::applied(pod, self.snapshot);
        let mut pod_rules = self.social.then(|| self.topology.pod_rules((pod, one_zone), self.snapshot));
        let relaxations = relax::levels(pod, self.snapshot.settings.preference_policy, self.soft_taints);
        let mut levels = Vec::with_capacity(relaxations.len());
        for relaxed in relaxations {
            let requirements = requirements(pod, &relaxed, &self.bound, rules);
            let set = requirements.map(|known| rules.set(&known));
            let mut tolerations = pod.tolerations.clone();
            if relaxed.tolerate_soft_taints {
                tolerations.push(Toleration::prefer_no_schedule());
            }
            let tolerations = TolerationsIx::new(self.tolerations.insert_full(tolerations).0);
            let profile = pod_rules.as_mut().map(|pod_rules| {
                let strict = self.strict(pod, &relaxed, set, rules);
                self.topology.profile(pod_rules, &relaxed, Bounds { strict, places: places.cloned() })
            });
            levels.push(LevelConstraints { rules: set, tolerations, profile });
        }
        levels
    }

    /// Returns the demands of `pod` on its node itself, preferences aside; `all` are all its demands.
    fn strict(
        &self,
        pod: &Pod,
        relaxed: &Relaxed<'_>,
        all: Option<RuleSetId>,
        rules: &mut Rules<'a>,
    ) -> Arc<Requirements> {
        if let Some(all) = all.filter(|_| relaxed.preferred.is_none() && self.bound.is_empty()) {
            return rules.whole(all);
        }
        let strict = Relaxed { preferred: None, ..relaxed.clone() };
        let strict = requirements(pod, &strict, &BoundAntiAffinity::default(), rules).unwrap_or_default();
        let strict = rules.set(&strict);
        rules.whole(strict)
    }
}

/// Returns the demands of `pod`, whose volumes are `need`, on its node, requirements and tolerations aside.
fn bare(pod: &Pod, moves: bool, need: &Need, rules: &mut Rules<'_>, resources: &mut ResourceIndex) -> Demand {
    Demand {
        rules: None,
        requests: pod.requests.clone(),
        amounts: resources.amounts(&pod.requests.merge(&need.own)),
        tolerations: Vec::new(),
        host_ports: pod.host_ports.clone(),
        places: need.places.iter().map(|place| rules.set(place)).collect(),
        tied: need.tied.clone(),
        shared: need.shared.iter().map(|(volume, name)| (*volume, resources.id(name))).collect(),
        claims: Vec::new(),
        moves,
    }
}

/// The requirements of one level; `None` when they contradict each other.
fn requirements(
    pod: &Pod,
    relaxed: &Relaxed<'_>,
    bound: &BoundAntiAffinity<'_>,
    rules: &Rules<'_>,
) -> Option<Requirements> {
    let registry = rules.registry();
    let selects = !pod.node_selector.is_empty();
    let selected = selects.then(|| Requirements::from_labels(registry, &pod.node_selector));
    let terms =
        relaxed.required.into_iter().chain(relaxed.preferred).flat_map(|term| term.expressions.clone());
    let stated = terms.chain(bound.exclusions(pod)).map(|expression| Requirement::new(registry, &expression));
    let selected = selected.iter().flat_map(|selected| selected.iter().cloned());
    let stated: Vec<Requirement> = selected.chain(stated).collect();
    conjunction(&stated)
}
