//! From a snapshot to a solver: pods become classes, classes become asks.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use karpenter_model::{Pod, Requirement, Requirements, Snapshot, Toleration};

use super::Solver;
use crate::amounts::{ResourceId, ResourceIndex};
use crate::place::class::{Ask, Asks, Class, Signature};
use crate::place::conjunction::conjunction;
use crate::place::constraint::bound_anti_affinity::BoundAntiAffinity;
use crate::place::existing::Existing;
use crate::place::pool::Pools;
use crate::place::relax::{self, Wish};
use crate::place::reservations::Reservations;
use crate::place::topology::Topology;
use crate::place::volumes::{NeedId, Volumes};
use crate::place::{Placement, default_spread, queue, reject};
use crate::rules::{RuleSetId, Rules};

impl<'a> Solver<'a> {
    /// Interns and indexes `snapshot`.
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut rules = Rules::new(&snapshot.registry);
        let mut resources = ResourceIndex::default();
        let pods = queue::pods(snapshot);
        let volumes = Volumes::new(snapshot, &pods);
        let pools = Pools::new(snapshot, &volumes, &mut rules, &mut resources);
        let mut compiler = Compiler {
            snapshot,
            volumes,
            soft_taints: pools.spaces.iter().any(|space| relax::has_soft_taint(&space.pool.template.taints)),
            bound: BoundAntiAffinity::new(snapshot),
            social: Topology::concerns(&pods) || !snapshot.settings.default_spread.is_empty(),
            asks: Asks::default(),
            topology: Topology::default(),
        };
        let identity_matters = compiler.social || !compiler.bound.is_empty();
        let mut classes: IndexMap<Signature<'a>, Class> = IndexMap::new();
        let mut queue = Vec::with_capacity(pods.len());
        for pod in &pods {
            let need = compiler.volumes.need(pod);
            let entry = classes.entry(Signature::of(pod, need, &snapshot.settings, identity_matters));
            queue.push((*pod, entry.index()));
            entry.or_insert_with(|| compiler.class(pod, need, &mut rules, &mut resources));
        }
        let Compiler { volumes, asks, mut topology, .. } = compiler;
        topology.complete(snapshot, &pools.spaces, &pods);
        let settings = &snapshot.settings;
        let reservations = if settings.gates.reserved_capacity {
            Reservations::new(&pools.catalogues, settings.reservation_policy)
        } else {
            Reservations::default()
        };
        let keys = asks
            .iter()
            .flat_map(|ask| ask.rules.into_iter().chain(ask.places.iter().copied()))
            .flat_map(|set| rules.rules_of(set).iter().map(|rule| rules.requirement(*rule).key().clone()));
        let existing = Existing::new(snapshot, keys.collect(), &topology.keys(), &volumes, &mut resources);
        Self {
            snapshot,
            rules,
            pools,
            existing,
            topology,
            bins: Vec::new(),
            reservations,
            resources,
            asks,
            classes: classes.into_values().collect(),
            queue,
            placed: 0,
            refusals: BTreeMap::new(),
            placement: Placement::default(),
        }
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
    asks: Asks,
    topology: Topology,
}

impl<'a> Compiler<'a> {
    fn class(
        &mut self,
        pod: &Pod,
        need: NeedId,
        rules: &mut Rules<'a>,
        resources: &mut ResourceIndex,
    ) -> Class {
        let need = self.volumes.get(need);
        if let Some(outcome) = reject::rejection(pod, need, self.snapshot) {
            return Class::Refused(outcome);
        }
        let pod: &Pod = &default_spread::applied(pod, &self.snapshot.settings);
        let places: Vec<RuleSetId> = need.places.iter().map(|place| rules.set(place)).collect();
        let shared: Vec<(usize, ResourceId)> =
            need.shared.iter().map(|(volume, name)| (*volume, resources.id(name))).collect();
        let amounts = resources.amounts(&pod.requests.merge(&need.own));
        let wishes = relax::wishes(pod, self.snapshot.settings.preference_policy, self.soft_taints);
        let ask = |wish: Wish<'_>| {
            let mut tolerations = pod.tolerations.clone();
            if wish.tolerate_soft_taints {
                tolerations.push(Toleration::prefer_no_schedule());
            }
            let requirements = requirements(pod, &wish, &self.bound, rules);
            let profile = self.social.then(|| {
                let strict = Wish { preferred: None, ..wish.clone() };
                let strict = self::requirements(pod, &strict, &BoundAntiAffinity::default(), rules);
                self.topology.profile(pod, &wish, strict.unwrap_or_default(), self.snapshot)
            });
            self.asks.intern(Ask {
                rules: requirements.map(|requirements| rules.set(&requirements)),
                requests: pod.requests.clone(),
                amounts: amounts.clone(),
                tolerations,
                host_ports: pod.host_ports.clone(),
                places: places.clone(),
                shared: shared.clone(),
                profile,
            })
        };
        Class::Asks(wishes.into_iter().map(ask).collect())
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
    let selected = Requirements::from_labels(registry, &pod.node_selector);
    let terms = wish.required.into_iter().chain(wish.preferred).flat_map(|term| term.expressions.clone());
    let stated = terms.chain(bound.exclusions(pod)).map(|expression| Requirement::new(registry, &expression));
    let stated: Vec<Requirement> = selected.iter().cloned().chain(stated).collect();
    conjunction(&stated)
}
