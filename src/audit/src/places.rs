//! Where every pod will be once the plan is carried out, as far as rules about other pods can tell.

mod crowd;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::names::label;
use karpenter_model::{
    AffinityTerm, LabelKey, LabelRegistry, LabelSelector, LabelValue, Labels, Launch, Namespace, Node,
    NodeId, Plan, Pod, Requirement,
};

use crate::world::{World, value_of};
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
    /// The plan puts it there.
    pub(crate) new: bool,
}

/// All pods that count: those the plan places and active ones that stay where they are.
pub(crate) struct Places<'a> {
    all: Vec<Placed<'a>>,
    /// Who they are to the rules of others: by namespace and labels, where they are in the list.
    kinds: BTreeMap<(&'a Namespace, &'a Labels), Vec<usize>>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(world: &'a World<'_>, plan: &'a Plan) -> Self {
        let mut all: Vec<Placed<'a>> = Vec::new();
        let mut machines: BTreeMap<&'a NodeId, usize> = BTreeMap::new();
        for (machine, launch) in plan.launches.iter().enumerate() {
            let place = Place::Launch(launch);
            let pods = world.pods_of(launch).into_iter();
            all.extend(pods.map(|pod| Placed { pod, place, machine, new: true }));
        }
        let mut number = |node: &'a Node| {
            let next = plan.launches.len() + machines.len();
            *machines.entry(&node.id).or_insert(next)
        };
        for nomination in &plan.nominations {
            if let (Some(pod), Some(node)) = (world.pod(&nomination.pod), world.node(&nomination.target)) {
                all.push(Placed { pod, place: Place::Node(node), machine: number(node), new: true });
            }
        }
        for node in &world.snapshot.nodes {
            let machine = number(node);
            let staying = node.pods.iter().filter(|pod| pod.is_active() && world.pod(&pod.key).is_none());
            all.extend(staying.map(|pod| Placed { pod, place: Place::Node(node), machine, new: false }));
        }
        let mut kinds: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (index, placed) in all.iter().enumerate() {
            kinds.entry((&placed.pod.key.namespace, &placed.pod.labels)).or_default().push(index);
        }
        Self { all, kinds }
    }

    /// Pods the plan places.
    pub(crate) fn new_ones(&self) -> impl Iterator<Item = &Placed<'a>> {
        self.all.iter().filter(|placed| placed.new)
    }

    /// Those `is_meant` says yes to, in order. It is asked once per namespace and labels, and must look at nothing
    /// else: a rule is about thousands of pods, but about few kinds of them.
    pub(crate) fn of_kind(&self, is_meant: impl Fn(&Pod) -> bool) -> impl Iterator<Item = &Placed<'a>> {
        let meant =
            self.kinds.values().filter(|kind| kind.first().is_some_and(|one| is_meant(self.all[*one].pod)));
        let mut meant: Vec<usize> = meant.flatten().copied().collect();
        meant.sort_unstable();
        meant.into_iter().map(|index| &self.all[index])
    }
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

    /// Whether the machine may be in `domain` of `key`.
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

    /// The domains the machine may be in; where a claim does not say, those its instance types come in.
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

/// Whether the machine comes up without a label `key`: the instance decides about well-known ones alone, and the claim does
/// not ask for it.
fn lacks(launch: &Launch, key: &LabelKey, registry: &LabelRegistry) -> bool {
    let own = launch.requirements.get(key.as_str());
    !registry.is_well_known(key.as_str())
        && !launch.labels.contains_key(key)
        && own.is_none_or(Requirement::accepts_absence)
}

/// Whether `term` of a pod in namespace `own` is about `pod`.
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

/// Whether `selector` selects `pod`; without a selector no pod is selected.
pub(crate) fn matches(selector: Option<&LabelSelector>, pod: &Pod) -> bool {
    selector.is_some_and(|selector| selector.matches(&pod.labels))
}
