//! Places of all pods once the plan is carried out, as far as they matter to rules about other pods.

mod crowd;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::names::label;
use karpenter_model::{
    AffinityTerm, Daemon, LabelKey, LabelRegistry, LabelSelector, LabelValue, Labels, Launch, Namespace,
    Node, NodeId, Plan, Pod, Requirement,
};

use crate::world::{Expected, World, value_of};
pub(crate) use crowd::Crowd;

/// The machine of a pod.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// A machine that exists.
    Node(&'a Node),
    /// A machine the plan launches.
    Launch(&'a Launch),
}

/// A pod and its machine.
pub(crate) struct Placed<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) place: Place<'a>,
    /// Number of the machine: pods with the same one are on the same machine.
    pub(crate) machine: usize,
    pub(crate) origin: Origin,
}

/// Way in which a pod gets to its machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The plan puts it there.
    Plan,
    /// The pod is there and stays.
    Stays,
    /// A daemon set puts it there, for certain or perhaps.
    Daemon { certain: bool },
}

/// All pods that count: those the plan places, active ones that stay where they are, and those of daemons that come with a
/// machine. A daemon that needs other pods near it may not come, so it counts where it is.
pub(crate) struct Places<'a> {
    all: Vec<Placed<'a>>,
    /// Machines the plan launches.
    pub(crate) launches: &'a [Launch],
    /// Positions of the pods in the list, by namespace and labels, by which rules of others select.
    kinds: BTreeMap<(&'a Namespace, &'a Labels), Vec<usize>>,
    /// Daemons that keep others off each machine and may come to it.
    keeping_off: BTreeMap<usize, Vec<&'a Pod>>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(world: &'a World<'_>, plan: &'a Plan) -> Self {
        let social = social_daemons(world, plan);
        let mut all: Vec<Placed<'a>> = Vec::new();
        let mut machines: BTreeMap<&'a NodeId, usize> = BTreeMap::new();
        for (machine, launch) in plan.launches.iter().enumerate() {
            let place = Place::Launch(launch);
            let pods = world.pods_of(launch).into_iter();
            all.extend(pods.map(|pod| Placed { pod, place, machine, origin: Origin::Plan }));
            all.extend(daemons(world.daemons_with(launch, &social), place, machine));
        }
        let mut number = |node: &'a Node| {
            let next = plan.launches.len() + machines.len();
            *machines.entry(&node.id).or_insert(next)
        };
        for nomination in &plan.nominations {
            if let (Some(pod), Some(node)) = (world.pod(&nomination.pod), world.node(&nomination.target)) {
                all.push(Placed {
                    pod,
                    place: Place::Node(node),
                    machine: number(node),
                    origin: Origin::Plan,
                });
            }
        }
        for node in &world.snapshot.nodes {
            let machine = number(node);
            let staying = node.pods.iter().filter(|pod| pod.is_active() && world.pod(&pod.key).is_none());
            all.extend(staying.map(|pod| Placed {
                pod,
                place: Place::Node(node),
                machine,
                origin: Origin::Stays,
            }));
            if !social.is_empty() && !node.is_leaving() {
                let coming = world.daemons_to_come(node, social.iter().copied()).into_iter();
                let coming = coming.filter(|one| !is_kept_off(world, &one.daemon.pod, node));
                all.extend(daemons(coming.collect(), Place::Node(node), machine));
            }
        }
        let mut kinds: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        let mut keeping_off: BTreeMap<usize, Vec<&Pod>> = BTreeMap::new();
        for (index, placed) in all.iter().enumerate() {
            let Placed { pod, machine, origin, .. } = placed;
            if matches!(origin, Origin::Daemon { .. }) && !pod.pod_anti_affinity.required.is_empty() {
                keeping_off.entry(*machine).or_default().push(*pod);
            }
            kinds.entry((&placed.pod.key.namespace, &placed.pod.labels)).or_default().push(index);
        }
        Self { all, launches: &plan.launches, kinds, keeping_off }
    }

    /// Pods the plan places.
    pub(crate) fn new_ones(&self) -> impl Iterator<Item = &Placed<'a>> {
        self.all.iter().filter(|placed| placed.origin == Origin::Plan)
    }

    /// Daemons that keep others off the machine of `one` and may come to it.
    pub(crate) fn daemons_beside(&self, one: &Placed<'_>) -> impl Iterator<Item = &'a Pod> {
        self.keeping_off.get(&one.machine).into_iter().flatten().copied()
    }

    /// Returns the pods that `is_meant` accepts, in order. It is called once per namespace and labels, and must
    /// look at nothing else: a rule is about thousands of pods, but about few kinds of them.
    pub(crate) fn of_kind(&self, is_meant: impl Fn(&Pod) -> bool) -> impl Iterator<Item = &Placed<'a>> {
        let meant =
            self.kinds.values().filter(|kind| kind.first().is_some_and(|one| is_meant(self.all[*one].pod)));
        let mut meant: Vec<usize> = meant.flatten().copied().collect();
        meant.sort_unstable();
        meant.into_iter().map(|index| &self.all[index])
    }
}

/// Daemon sets that have rules about others or that rules of pods the plan places are about, and whose pods come without
/// others near them.
fn social_daemons<'a>(world: &'a World<'_>, plan: &Plan) -> Vec<&'a Daemon> {
    let launched = plan.launches.iter().flat_map(|launch| world.pods_of(launch));
    let sent = plan.nominations.iter().filter_map(|nomination| world.pod(&nomination.pod));
    // Pods of one deployment have the same rules.
    let rules: BTreeSet<_> = launched
        .chain(sent)
        .map(|pod| {
            (&pod.key.namespace, &pod.pod_affinity.required, &pod.pod_anti_affinity.required, &pod.spread)
        })
        .filter(|(_, with, from, spread)| !(with.is_empty() && from.is_empty() && spread.is_empty()))
        .collect();
    let is_named = |daemon: &Pod| {
        rules.iter().any(|(own, with, from, spread)| {
            with.iter().chain(*from).any(|term| selects(world, term, own, daemon))
                || spread.iter().any(|spread| matches(spread.selector.as_ref(), daemon))
        })
    };
    let alone = world.daemons().filter(|daemon| daemon.pod.pod_affinity.required.is_empty());
    alone
        .filter(|daemon| !daemon.pod.pod_anti_affinity.required.is_empty() || is_named(&daemon.pod))
        .collect()
}

/// `expected` daemons on a machine.
fn daemons<'a>(
    expected: Vec<Expected<'a>>,
    place: Place<'a>,
    machine: usize,
) -> impl Iterator<Item = Placed<'a>> {
    expected.into_iter().map(move |Expected { daemon, certain }| Placed {
        pod: &daemon.pod,
        place,
        machine,
        origin: Origin::Daemon { certain },
    })
}

/// Returns whether `daemon` and a pod on `node` keep off each other.
fn is_kept_off(world: &World<'_>, daemon: &Pod, node: &Node) -> bool {
    let keeps_off = |owner: &Pod, other: &Pod| {
        let mut terms = owner.pod_anti_affinity.required.iter();
        terms.any(|term| selects(world, term, &owner.key.namespace, other))
    };
    let mut active = node.pods.iter().filter(|pod| pod.is_active());
    active.any(|pod| keeps_off(daemon, pod) || keeps_off(pod, daemon))
}

impl Place<'_> {
    /// The domains the machine may be in under `key`, whichever name of the label that is; `None` when any is possible, and
    /// none of them when the machine will not have the label.
    pub(crate) fn domains(&self, registry: &LabelRegistry, key: &LabelKey) -> Option<BTreeSet<LabelValue>> {
        let key = &registry.normalize_key(key);
        match self {
            Self::Node(node) => Some(value_of(node, key, registry).into_iter().collect()),
            Self::Launch(launch) if *key == label::HOSTNAME => Some([launch.bin.to_string().into()].into()),
            Self::Launch(launch) if lacks(launch, key, registry) => Some(BTreeSet::new()),
            Self::Launch(launch) => launch.requirements.get(key.as_str())?.concrete().cloned(),
        }
    }

    /// Returns whether the machine may be in `domain` of `key`.
    fn may_be_in(&self, registry: &LabelRegistry, key: &LabelKey, domain: &LabelValue) -> bool {
        let key = &registry.normalize_key(key);
        match self {
            Self::Launch(launch) if *key != label::HOSTNAME && !lacks(launch, key, registry) => {
                launch.requirements.value_of(key).allows(domain.as_str())
            }
            _ => self.domains(registry, key).is_some_and(|domains| domains.contains(domain)),
        }
    }

    /// The domain of `key` the machine is in for certain, if there is only one for it.
    fn only_domain(&self, world: &World<'_>, key: &LabelKey) -> Option<LabelValue> {
        let mut domains = self.possible(world, key)?.into_iter();
        let first = domains.next()?;
        domains.next().is_none().then_some(first)
    }

    /// The domains the machine may be in; where a claim leaves it open, those its instance types are offered in.
    fn possible(&self, world: &World<'_>, key: &LabelKey) -> Option<BTreeSet<LabelValue>> {
        let (registry, domains) = (world.registry(), self.domains(world.registry(), key));
        if let (Self::Launch(launch), None) = (self, &domains) {
            let key = &registry.normalize_key(key);
            let own = launch.requirements.value_of(key);
            let types = world.types_of(launch).into_iter();
            let values = types.map(|known| known.requirements.get(key.as_str())?.concrete());
            let values: BTreeSet<&LabelValue> =
                values.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
            return Some(values.into_iter().filter(|value| own.allows(value.as_str())).cloned().collect());
        }
        domains
    }
}

/// Returns whether the machine comes up without a label `key`: the instance decides about well-known ones alone, and the
/// claim does not ask for it.
fn lacks(launch: &Launch, key: &LabelKey, registry: &LabelRegistry) -> bool {
    let own = launch.requirements.get(key.as_str());
    !registry.is_well_known(key.as_str())
        && !launch.labels.contains_key(key)
        && own.is_none_or(Requirement::accepts_absence)
}

/// Returns whether `term` of a pod in namespace `own` is about `pod`.
pub(crate) fn selects(world: &World<'_>, term: &AffinityTerm, own: &Namespace, pod: &Pod) -> bool {
    let namespace = &pod.key.namespace;
    let by_label = term.namespace_selector.as_ref().is_some_and(|selector| {
        let labels = world.snapshot.namespaces.get(namespace);
        selector.expressions.is_empty() || labels.is_some_and(|labels| selector.matches(labels))
    });
    let default = term.namespaces.is_empty() && term.namespace_selector.is_none() && namespace == own;
    let in_namespace = by_label || default || term.namespaces.contains(namespace);
    in_namespace && matches(term.selector.as_ref(), pod)
}

/// Returns whether `selector` selects `pod`; without a selector no pod is selected.
pub(crate) fn matches(selector: Option<&LabelSelector>, pod: &Pod) -> bool {
    selector.is_some_and(|selector| selector.matches(&pod.labels))
}
