//! Where every pod will be once the plan is carried out, as far as rules about other pods can tell.

use std::collections::BTreeSet;

use karpenter_model::{
    AffinityTerm, LabelKey, LabelSelector, LabelValue, Launch, Namespace, Node, Plan, Pod, label,
};

use crate::world::World;

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
    /// The plan puts it there.
    pub(crate) new: bool,
}

/// All pods that count: those the plan places and active ones that stay where they are.
pub(crate) struct Places<'a> {
    pub(crate) all: Vec<Placed<'a>>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(world: &World<'a>, plan: &'a Plan) -> Self {
        let mut all = Vec::new();
        for launch in &plan.launches {
            let pods = world.pods_of(launch).into_iter();
            all.extend(pods.map(|pod| Placed { pod, place: Place::Launch(launch), new: true }));
        }
        for nomination in &plan.nominations {
            if let (Some(pod), Some(node)) = (world.pod(&nomination.pod), world.node(&nomination.target)) {
                all.push(Placed { pod, place: Place::Node(node), new: true });
            }
        }
        for node in &world.snapshot.nodes {
            let staying = node.pods.iter().filter(|pod| pod.is_active() && world.pod(&pod.key).is_none());
            all.extend(staying.map(|pod| Placed { pod, place: Place::Node(node), new: false }));
        }
        Self { all }
    }

    /// Pods the plan places.
    pub(crate) fn new_ones(&self) -> impl Iterator<Item = &Placed<'a>> {
        self.all.iter().filter(|placed| placed.new)
    }
}

impl Place<'_> {
    /// The domains the machine may be in under `key`; `None` when any is possible.
    pub(crate) fn domains(&self, key: &LabelKey) -> Option<BTreeSet<LabelValue>> {
        match self {
            Self::Node(node) if *key == label::HOSTNAME => Some([node.hostname()].into()),
            Self::Node(node) => Some(node.effective_labels().get(key).cloned().into_iter().collect()),
            Self::Launch(launch) if *key == label::HOSTNAME => Some([launch.bin.to_string().into()].into()),
            Self::Launch(launch) => launch.requirements.get(key.as_str())?.concrete().cloned(),
        }
    }

    /// Whether two machines may be in one domain.
    pub(crate) fn may_share(&self, other: &Self, key: &LabelKey) -> bool {
        let allows = |place: &Self, value: &LabelValue| match place {
            Self::Launch(launch) if *key != label::HOSTNAME => {
                launch.requirements.value_of(key).allows(value.as_str())
            }
            _ => place.domains(key).is_some_and(|domains| domains.contains(value)),
        };
        match (self.domains(key), other.domains(key)) {
            (Some(own), _) => own.iter().any(|value| allows(other, value)),
            (None, Some(others)) => others.iter().any(|value| allows(self, value)),
            (None, None) => true,
        }
    }

    /// The domains the machine may be in; where a claim does not say, those its instance types come in.
    fn possible(&self, world: &World<'_>, key: &LabelKey) -> Option<BTreeSet<LabelValue>> {
        if let (Self::Launch(launch), None) = (self, self.domains(key)) {
            let own = launch.requirements.value_of(key);
            let types = world.types_of(launch).into_iter();
            let values = types.map(|known| known.requirements.get(key.as_str())?.concrete());
            let values: BTreeSet<&LabelValue> =
                values.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
            return Some(values.into_iter().filter(|value| own.allows(value.as_str())).cloned().collect());
        }
        self.domains(key)
    }

    /// The one domain both machines are in for certain.
    pub(crate) fn surely_shares(&self, world: &World<'_>, other: &Self, key: &LabelKey) -> bool {
        match (self.possible(world, key), other.possible(world, key)) {
            (Some(own), Some(others)) => own.len() == 1 && own == others,
            _ => false,
        }
    }
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

/// Whether `selector` is about `pod`; no selector is about nobody.
pub(crate) fn matches(selector: Option<&LabelSelector>, pod: &Pod) -> bool {
    selector.is_some_and(|selector| selector.matches(&pod.labels))
}
