//! Look-ups over a snapshot.

mod catalogue;
mod daemons;

use std::cell::OnceCell;
use std::collections::BTreeMap;

use karpenter_model::names::label;
use karpenter_model::{
    Command, Effect, InstanceType, LabelKey, LabelRegistry, LabelValue, Launch, Method, Node, NodeId,
    Operator, Pod, PodKey, Pool, PoolName, Requirement, Requirements, Snapshot, Taint, Target,
};

pub(crate) use catalogue::{Catalogue, Daemons};
pub(crate) use daemons::Expected;

/// A snapshot with its names resolved.
pub(crate) struct World<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// Pods that need a place.
    waiting: BTreeMap<&'a PodKey, &'a Pod>,
    pools: BTreeMap<&'a PoolName, &'a Pool>,
    nodes: BTreeMap<&'a NodeId, &'a Node>,
    /// Machines by the names plans call them.
    targets: BTreeMap<Target, &'a Node>,
    /// Instance types of each pool, from their first use.
    catalogues: BTreeMap<&'a PoolName, OnceCell<Catalogue<'a>>>,
}

impl<'a> World<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let leaving = snapshot.nodes.iter().filter(|node| node.is_leaving()).flat_map(|node| &node.pods);
        let moving = leaving.filter(|pod| snapshot.currently_reschedulable(pod));
        let pending = snapshot.waiting();
        Self {
            snapshot,
            waiting: moving.chain(pending).map(|pod| (&pod.key, pod.as_ref())).collect(),
            pools: snapshot.pools.iter().map(|pool| (&pool.name, pool.as_ref())).collect(),
            nodes: snapshot.nodes.iter().map(|node| (&node.id, node.as_ref())).collect(),
            targets: targets(snapshot),
            catalogues: snapshot.instance_types.keys().map(|pool| (pool, OnceCell::new())).collect(),
        }
    }

    pub(crate) fn registry(&self) -> &'a LabelRegistry {
        &self.snapshot.registry
    }

    /// The waiting pod `key`.
    pub(crate) fn pod(&self, key: &PodKey) -> Option<&'a Pod> {
        self.waiting.get(key).copied()
    }

    /// Returns whether an earlier plan has promised `pod` a place on `node`.
    pub(crate) fn is_promised(&self, pod: &Pod, node: &Node) -> bool {
        let promise = self.snapshot.promises.get(&pod.key);
        promise.and_then(|target| self.node(target)).is_some_and(|promised| promised.id == node.id)
    }

    /// Every waiting pod.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &'a Pod> {
        self.waiting.values().copied()
    }

    /// The waiting pods of `launch`.
    pub(crate) fn pods_of(&self, launch: &Launch) -> Vec<&'a Pod> {
        launch.pods.iter().filter_map(|key| self.pod(key)).collect()
    }

    pub(crate) fn pool(&self, name: &PoolName) -> Option<&'a Pool> {
        self.pools.get(name).copied()
    }

    /// The machine `target` names.
    pub(crate) fn node(&self, target: &Target) -> Option<&'a Node> {
        self.targets.get(target).copied()
    }

    /// The machine with key `id`.
    pub(crate) fn machine(&self, id: &NodeId) -> Option<&'a Node> {
        self.nodes.get(id).copied()
    }

    /// The instance types of the pool `name`.
    pub(crate) fn catalogue(&self, name: &PoolName) -> Option<&Catalogue<'a>> {
        let (catalogue, types) = (self.catalogues.get(name)?, self.snapshot.instance_types.get(name)?);
        let daemons = || self.pool(name).map(|pool| self.daemons_of(pool)).unwrap_or_default();
        Some(catalogue.get_or_init(|| Catalogue::new(types, daemons())))
    }

    /// The instance types of `launch`, as far as its pool has them.
    pub(crate) fn types_of(&self, launch: &Launch) -> Vec<&'a InstanceType> {
        let Some(catalogue) = self.catalogue(&launch.pool) else { return Vec::new() };
        launch.instance_types.iter().filter_map(|name| catalogue.instance_type(name)).collect()
    }

    /// The instance types of `launch`, with the daemons that will run on a new machine of each.
    pub(crate) fn types_with_daemons(&self, launch: &Launch) -> Vec<(&'a InstanceType, &Daemons<'a>)> {
        let Some(catalogue) = self.catalogue(&launch.pool) else { return Vec::new() };
        launch.instance_types.iter().filter_map(|name| catalogue.with_daemons(name)).collect()
    }

    /// Returns the requirements that claims of `pool` start with: its requirements and labels.
    pub(crate) fn template_of(&self, pool: &Pool) -> Requirements {
        let mut template = pool.template.requirements.clone();
        template.add_all(&Requirements::from_labels(self.registry(), &pool.template.labels));
        let mut own = |key: &str, value: &str| template.add(Requirement::one_of(key.into(), [value.into()]));
        own(label::NODE_POOL, pool.name.as_str());
        own(pool.template.node_class.label_key().as_str(), pool.template.node_class.name.as_str());
        template
    }
}

/// Returns whether `command` replaces a machine of a static pool: by one like it, for no pod in particular.
pub(crate) fn is_for_static(snapshot: &Snapshot, command: &Command) -> bool {
    let fixed =
        |name: &PoolName| snapshot.pools.iter().any(|pool| pool.name == *name && pool.replicas.is_some());
    match command.method {
        Method::StaticDrift => true,
        Method::Repair => command.candidates.iter().any(|gone| fixed(&gone.pool)),
        _ => false,
    }
}

/// Every name a plan may call a machine by: that of its Node, its key, and that of its claim.
fn targets(snapshot: &Snapshot) -> BTreeMap<Target, &Node> {
    let mut targets = BTreeMap::new();
    for node in &snapshot.nodes {
        let key = Target::Node(node.id.as_str().into());
        let name = node.name.clone().map(Target::Node);
        let claim = node.claim.as_ref().map(|claim| Target::Claim(claim.name.clone()));
        for target in [Some(key), name, claim].into_iter().flatten() {
            targets.entry(target).or_insert(node.as_ref());
        }
    }
    targets
}

/// The first taint that keeps `pod` away for good: soft taints do not.
pub(crate) fn hard_taint<'t>(taints: &'t [Taint], pod: &Pod) -> Option<&'t Taint> {
    let tolerated = |taint: &Taint| pod.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    taints.iter().find(|taint| taint.effect != Effect::PreferNoSchedule && !tolerated(taint))
}

/// Returns the hard requirements of `pod`, one list per required node affinity term; never empty. Kept apart
/// rather than intersected, because two statements that exclude each other must not read as `DoesNotExist`.
pub(crate) fn stated(pod: &Pod, registry: &LabelRegistry) -> Vec<Vec<Requirement>> {
    let selector: Vec<Requirement> =
        Requirements::from_labels(registry, &pod.node_selector).iter().cloned().collect();
    if pod.required_terms.is_empty() {
        return vec![selector];
    }
    let terms = pod.required_terms.iter().map(|term| {
        let expressions = term.expressions.iter().map(|expression| Requirement::new(registry, expression));
        selector.iter().cloned().chain(expressions).collect()
    });
    terms.collect()
}

/// The value of the label `key` of `node`, under its present name or an earlier one; the host name falls back to the name
/// of the node.
pub(crate) fn value_of(node: &Node, key: &LabelKey, registry: &LabelRegistry) -> Option<LabelValue> {
    let key = &registry.normalize_key(key);
    if *key == label::HOSTNAME {
        return Some(node.hostname());
    }
    let labels = node.effective_labels();
    let earlier = || labels.iter().find(|(name, _)| registry.normalize_key(name) == *key);
    let value = labels.get(key).or_else(|| earlier().map(|(_, value)| value))?;
    Some(registry.normalize_value(key, value))
}

/// Returns whether the labels of `node` satisfy every requirement, as the Kubernetes scheduler would judge it.
pub(crate) fn satisfies(node: &Node, requirements: &[Requirement], registry: &LabelRegistry) -> bool {
    requirements.iter().all(|requirement| {
        let key = requirement.key();
        let promised = node.unlaunched().and_then(|claim| claim.requirements.get(key.as_str()));
        match (value_of(node, key, registry), promised) {
            (Some(value), _) => requirement.allows(value.as_str()),
            // Whatever it becomes must do, so it must be at least as narrow as what is asked.
            (None, Some(own)) => own.intersection(requirement).with_min_values(own.min_values()) == *own,
            (None, None) => matches!(requirement.operator(), Operator::NotIn | Operator::DoesNotExist),
        }
    })
}
