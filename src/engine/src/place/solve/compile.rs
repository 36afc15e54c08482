//! From a snapshot to a solver: pods become classes, classes become asks.

use std::sync::Arc;

use karpenter_model::{Pod, Requirement, Requirements, Resources, Settings, Snapshot, Toleration};

use super::Solver;
use super::caches::Caches;
use super::compiled::Compiled;
use super::filling::Filling;
use crate::amounts::ResourceIndex;
use crate::index::{ArrivalIx, ClassIx, DemandIx, Ix, IxVec, PodIx, ProfileIx, RoleIx, TolerationsIx};
use crate::interning::{Entry, Interned, InternedMap};
use crate::place::ask::{Ask, AskKey, Wants};
use crate::place::class::{Class, Demand, Role};
use crate::place::conjunction::conjunction;
use crate::place::constraint::bound_anti_affinity::BoundAntiAffinity;
use crate::place::devices::Holdings;
use crate::place::existing::Existing;
use crate::place::pool::{Gathered, PoolSpace, Pools};
use crate::place::relax::{self, Wish};
use crate::place::reservations::Reservations;
use crate::place::topology::{Reach, Topology};
use crate::place::volumes::{Need, Volumes};
use crate::place::{default_spread, queue, reject};
use crate::rules::{RuleSetId, Rules};

/// Whose pods a pass is about.
pub(super) struct Audience<'a> {
    /// Pods as they are in the snapshot; those that have a machine and would have to move say so.
    pub(super) pods: IxVec<ArrivalIx, (&'a Pod, bool)>,
    /// The order in which they are tried, by their places in the list.
    pub(super) order: IxVec<PodIx, ArrivalIx>,
    /// The places in that order of each of the pods; only where a plan is made.
    pub(super) arrivals: IxVec<ArrivalIx, PodIx>,
    /// Whether counts must be able to do without any of the machines.
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
        let audience = Audience { pods, order, arrivals, reversible: false };
        Self::compiled(snapshot, (*snapshot.settings).clone(), audience)
    }

    /// Interns and indexes `snapshot` for `audience`.
    pub(super) fn compiled(snapshot: &'a Snapshot, settings: Settings, audience: Audience<'a>) -> Self {
        let mut rules = Rules::new(&snapshot.registry);
        let mut resources = ResourceIndex::default();
        let pods: Vec<&Pod> = audience.pods.iter().map(|(pod, _)| *pod).collect();
        let volumes = Volumes::new(snapshot, &pods);
        let Gathered { pools, mut catalogues, limits } =
            Gathered::new(snapshot, &volumes, &mut rules, &mut resources);
        let devices = Holdings::new(snapshot, audience.pods.iter().copied());
        let mut compiler = Compiler::new(snapshot, volumes, &pools, &audience);
        let Sorted { queue, requests, classes } =
            compiler.classes(&audience, &settings, devices.as_ref(), &mut rules, &mut resources);
        let Compiler { volumes, wants, mut topology, .. } = compiler;
        let staying: Vec<&Pod> =
            audience.pods.iter().filter(|(_, moves)| !moves).map(|(pod, _)| *pod).collect();
        let asked = wants.profiled();
        let asked = asked.map(|(ask, profile)| (profile, resources.amounts(&ask.requests))).collect();
        topology.complete(snapshot, &mut Reach::new((&pools, &mut catalogues), &mut rules, asked), &staying);
        let reservations = if settings.gates.reserved_capacity {
            Reservations::new(&catalogues, settings.reservation_policy)
        } else {
            Reservations::default()
        };
        let keys = wants
            .asks()
            .flat_map(|ask| ask.rules.into_iter().chain(ask.places.iter().copied()))
            .flat_map(|set| rules.rules_of(set).iter().map(|rule| rules.requirement(*rule).key().clone()));
        let existing = Existing::new(snapshot, keys.collect(), &topology.keys(), &volumes, &mut resources);
        let caches = Caches::new(rules, catalogues, &wants);
        let filling = Filling::new(existing, topology, reservations, devices, limits);
        let Audience { arrivals, reversible, .. } = audience;
        let explains = !reversible;
        let compiled =
            Compiled { settings, pools, resources, wants, classes, queue, requests, arrivals, explains };
        Self { compiled: Arc::new(compiled), caches, filling }
    }
}

/// Turns pods into classes and asks.
struct Compiler<'a> {
    snapshot: &'a Snapshot,
    volumes: Volumes<'a>,
    soft_taints: bool,
    bound: BoundAntiAffinity<'a>,
    /// Some pod of the pass has rules about others.
    social: bool,
    /// What pods tolerate.
    tolerations: Interned<Vec<Toleration>>,
    wants: Wants,
    topology: Topology,
}

/// Pods by class.
struct Sorted<'a> {
    /// Pods in the order they are tried, with their class.
    queue: IxVec<PodIx, (&'a Pod, ClassIx)>,
    /// What they request: one list for all that request the same.
    requests: IxVec<PodIx, &'a Resources>,
    classes: IxVec<ClassIx, Class>,
}

/// The role of a pod at one relaxation step.
struct Part {
    /// Requirements; `None` when they contradict each other.
    rules: Option<RuleSetId>,
    /// What it tolerates, by number.
    tolerations: TolerationsIx,
    /// What it is to other pods, where any pod has rules about others.
    profile: Option<ProfileIx>,
}

impl<'a> Compiler<'a> {
    fn new(snapshot: &'a Snapshot, volumes: Volumes<'a>, pools: &Pools<'a>, audience: &Audience<'a>) -> Self {
        let mut topology = Topology::default();
        let mut bound = BoundAntiAffinity::default();
        if audience.reversible {
            topology.count_bound_owners(snapshot);
        } else {
            bound = BoundAntiAffinity::new(snapshot);
        }
        let soft = |space: &PoolSpace<'_>| relax::has_soft_taint(&space.pool.template.taints);
        Self {
            snapshot,
            volumes,
            soft_taints: pools.spaces.iter().any(soft),
            bound,
            social: Topology::concerns(audience.pods.iter().map(|(pod, _)| *pod))
                || !topology.is_empty()
                || !snapshot.settings.default_spread.is_empty(),
            tolerations: Interned::default(),
            wants: Wants::default(),
            topology,
        }
    }

    /// The pods of `audience` in the order they are tried, with their classes.
    fn classes(
        &mut self,
        audience: &Audience<'a>,
        settings: &Settings,
        devices: Option<&Holdings<'_>>,
        rules: &mut Rules<'a>,
        resources: &mut ResourceIndex,
    ) -> Sorted<'a> {
        let mut classes: InternedMap<(DemandIx, RoleIx), Class> = InternedMap::default();
        let mut by_demand: InternedMap<Demand<'a>, Option<Ask>> = InternedMap::default();
        let mut by_role: InternedMap<Role<'a>, Option<Vec<Part>>> = InternedMap::default();
        // As they are in the snapshot, which is how they are in memory.
        let mut class_of: IxVec<ArrivalIx, (DemandIx, ClassIx)> = IxVec::default();
        let identity_matters = self.social || !self.bound.is_empty();
        for (pod, moves) in audience.pods.iter() {
            let need = self.volumes.need(pod);
            let demand = by_demand.entry(Demand::of(pod, need, *moves));
            let role = by_role.entry(Role::of(pod, settings, identity_matters));
            let numbers = (DemandIx::new(demand.index()), RoleIx::new(role.index()));
            let (demand, role) = (demand.or_default(), role.or_default());
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
                    vacant.insert(Class::Refused(reject::unserved_claim(reason)));
                    continue;
                }
            };
            let bare = || Ask { claims, ..bare(pod, *moves, need, rules, resources) };
            let bare = &*demand.get_or_insert_with(bare);
            let parts = role.get_or_insert_with(|| self.parts(pod, rules));
            vacant.insert(self.class(numbers.0, bare, parts));
        }
        let queue = audience.order.iter().map(|place| (audience.pods[*place].0, class_of[*place].1));
        let requests =
            audience.order.iter().map(|place| by_demand.keys()[class_of[*place].0.get()].requests());
        Sorted {
            queue: queue.collect(),
            requests: requests.collect(),
            classes: classes.into_values().collect(),
        }
    }

    /// What a pod that takes what `bare` takes, number `demand`, and has the role of `parts` asks for.
    fn class(&mut self, demand: DemandIx, bare: &Ask, parts: &[Part]) -> Class {
        let want = |Part { rules, tolerations, profile }: &Part| {
            let key = AskKey { rules: *rules, demand, tolerations: *tolerations };
            let tolerations = || self.tolerations[tolerations.get()].clone();
            let ask = || Ask { rules: *rules, tolerations: tolerations(), ..bare.clone() };
            self.wants.intern(key, ask, *profile)
        };
        Class::Wants(parts.iter().map(want).collect())
    }

    /// The role of `pod` at each relaxation step.
    fn parts(&mut self, pod: &Pod, rules: &mut Rules<'a>) -> Vec<Part> {
        let pod: &Pod = &default_spread::applied(pod, &self.snapshot.settings);
        let mut stance = self.social.then(|| self.topology.stance(pod, self.snapshot));
        let wishes = relax::wishes(pod, self.snapshot.settings.preference_policy, self.soft_taints);
        let mut parts = Vec::with_capacity(wishes.len());
        for wish in wishes {
            let requirements = requirements(pod, &wish, &self.bound, rules);
            let set = requirements.map(|known| rules.set(&known));
            let mut tolerations = pod.tolerations.clone();
            if wish.tolerate_soft_taints {
                tolerations.push(Toleration::prefer_no_schedule());
            }
            let tolerations = TolerationsIx::new(self.tolerations.insert_full(tolerations).0);
            let profile = stance.as_mut().map(|stance| {
                let strict = self.strict(pod, &wish, set, rules);
                self.topology.profile(stance, &wish, strict)
            });
            parts.push(Part { rules: set, tolerations, profile });
        }
        parts
    }

    /// What `pod` asks of its node itself, preferences aside; `all` is what it asks for altogether.
    fn strict(
        &self,
        pod: &Pod,
        wish: &Wish<'_>,
        all: Option<RuleSetId>,
        rules: &mut Rules<'a>,
    ) -> Arc<Requirements> {
        if let Some(all) = all.filter(|_| wish.preferred.is_none() && self.bound.is_empty()) {
            return rules.whole(all);
        }
        let strict = Wish { preferred: None, ..wish.clone() };
        let strict = requirements(pod, &strict, &BoundAntiAffinity::default(), rules).unwrap_or_default();
        let strict = rules.set(&strict);
        rules.whole(strict)
    }
}

/// What `pod`, whose volumes are `need`, asks of its machine, whatever its requirements and tolerations.
fn bare(pod: &Pod, moves: bool, need: &Need, rules: &mut Rules<'_>, resources: &mut ResourceIndex) -> Ask {
    Ask {
        rules: None,
        requests: pod.requests.clone(),
        amounts: resources.amounts(&pod.requests.merge(&need.own)),
        tolerations: Vec::new(),
        host_ports: pod.host_ports.clone(),
        places: need.places.iter().map(|place| rules.set(place)).collect(),
        shared: need.shared.iter().map(|(volume, name)| (*volume, resources.id(name))).collect(),
        claims: Vec::new(),
        moves,
    }
}

/// The requirements of one wish; `None` when they contradict each other.
fn requirements(
    pod: &Pod,
    wish: &Wish<'_>,
    bound: &BoundAntiAffinity<'_>,
    rules: &Rules<'_>,
) -> Option<Requirements> {
    let registry = rules.registry();
    let selects = !pod.node_selector.is_empty();
    let selected = selects.then(|| Requirements::from_labels(registry, &pod.node_selector));
    let terms = wish.required.into_iter().chain(wish.preferred).flat_map(|term| term.expressions.clone());
    let stated = terms.chain(bound.exclusions(pod)).map(|expression| Requirement::new(registry, &expression));
    let selected = selected.iter().flat_map(|selected| selected.iter().cloned());
    let stated: Vec<Requirement> = selected.chain(stated).collect();
    conjunction(&stated)
}
