//! From a snapshot to a solver: pods become classes, classes become asks.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use karpenter_model::{Expression, Pod, Requirement, Requirements, Snapshot, Toleration};

use super::Solver;
use crate::amounts::ResourceIndex;
use crate::place::class::{Ask, Asks, Class, Signature};
use crate::place::constraint::bound_anti_affinity::BoundAntiAffinity;
use crate::place::existing::Existing;
use crate::place::pool::Pools;
use crate::place::relax::{self, Wish};
use crate::place::topology::Topology;
use crate::place::{Placement, queue, reject};
use crate::rules::Rules;

impl<'a> Solver<'a> {
    /// Interns and indexes `snapshot`.
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut rules = Rules::new(&snapshot.registry);
        let mut resources = ResourceIndex::default();
        let pools = Pools::new(snapshot, &mut rules, &mut resources);
        let pods = queue::pods(snapshot);
        let mut compiler = Compiler {
            snapshot,
            soft_taints: pools.spaces.iter().any(|space| relax::has_soft_taint(&space.pool.template.taints)),
            bound: BoundAntiAffinity::new(snapshot),
            social: Topology::concerns(&pods),
            asks: Asks::default(),
            topology: Topology::default(),
        };
        let identity_matters = compiler.social || !compiler.bound.is_empty();
        let mut classes: IndexMap<Signature<'a>, Class> = IndexMap::new();
        let mut queue = Vec::with_capacity(pods.len());
        for pod in &pods {
            let entry = classes.entry(Signature::of(pod, identity_matters));
            queue.push((*pod, entry.index()));
            entry.or_insert_with(|| compiler.class(pod, &mut rules, &mut resources));
        }
        let Compiler { asks, mut topology, .. } = compiler;
        topology.complete(snapshot, &pools.spaces, &pods);
        let keys = asks
            .iter()
            .filter_map(|ask| ask.rules)
            .flat_map(|set| rules.rules_of(set).iter().map(|rule| rules.requirement(*rule).key().clone()));
        let existing = Existing::new(snapshot, keys.collect(), &mut resources);
        Self {
            snapshot,
            rules,
            pools,
            existing,
            topology,
            bins: Vec::new(),
            by_load: BTreeSet::new(),
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
    soft_taints: bool,
    bound: BoundAntiAffinity<'a>,
    /// Some pod of the pass has rules about others.
    social: bool,
    asks: Asks,
    topology: Topology,
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
                amounts: resources.amounts(&pod.requests),
                tolerations,
                host_ports: pod.host_ports.clone(),
                profile,
            })
        };
        Class::Asks(wishes.into_iter().map(ask).collect())
    }
}

/// The requirements of one wish; `None` when they contradict each other. An intersection that came out empty
/// would read as `DoesNotExist`, which nodes without the label satisfy, so it must not be mistaken for one.
fn requirements(
    pod: &Pod,
    wish: &Wish<'_>,
    bound: &BoundAntiAffinity<'_>,
    rules: &Rules<'_>,
) -> Option<Requirements> {
    let registry = rules.registry();
    let selected = Requirements::from_labels(registry, &pod.node_selector);
    let terms = wish.required.into_iter().chain(wish.preferred).flat_map(|term| term.expressions.clone());
    let stated: Vec<Expression> = terms.chain(bound.exclusions(pod)).collect();
    let stated: Vec<Requirement> =
        stated.iter().map(|expression| Requirement::new(registry, expression)).collect();
    let merged: Requirements = selected.iter().chain(&stated).cloned().collect();
    let needs_value = |key: &str| {
        let mut about = selected.iter().chain(&stated).filter(|requirement| requirement.key() == key);
        about.any(|requirement| !requirement.accepts_absence())
    };
    let contradiction =
        merged.iter().any(|requirement| requirement.is_empty() && needs_value(requirement.key().as_str()));
    (!contradiction).then_some(merged)
}
