//! Which domains there are and how many pods each has before the pass begins (spec core-scheduling 18.2).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{LabelKey, LabelValue, Labels, Namespace, Node, Pod, PodKey, Snapshot, Taint, label};

use super::domain_of;
use super::group::{Domain, Group, GroupKey, Kind};
use super::lookup::Lookup;
use crate::interning::{Interned, InternedMap};
use crate::place::pool::PoolSpace;

/// Domains new machines may be in, with the taints of each pool that reaches them.
type Universe<'a> = BTreeMap<LabelKey, BTreeMap<LabelValue, Vec<&'a [Taint]>>>;

/// Makes domains known to `groups` and counts the pods that stay where they are; pods of `batch` do not count.
pub(crate) fn fill(
    groups: &mut InternedMap<GroupKey, Group>,
    lookup: &Lookup,
    snapshot: &Snapshot,
    spaces: &[PoolSpace<'_>],
    batch: &[&Pod],
) {
    let keys: BTreeSet<LabelKey> = groups.keys().map(|key| key.topology_key.clone()).collect();
    let universe = universe(&keys, snapshot, spaces);
    // Looked at only where pods are on machines.
    let occupied = snapshot.nodes.iter().any(|node| !node.pods.is_empty());
    let batch: Interned<&PodKey> = batch.iter().filter(|_| occupied).map(|pod| &pod.key).collect();
    let bound = bound_pods(snapshot, &batch);
    let mut domains: BTreeMap<&LabelKey, Domains> = BTreeMap::new();
    let mut matching: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
    for (index, (namespace, labels)) in bound.keys().enumerate() {
        let candidates = lookup.candidates(labels).into_iter();
        let matched = candidates.filter(|group| groups.keys()[*group].selects(namespace, labels));
        matched.for_each(|group| matching[group].push(index));
    }
    for ((key, group), matching) in groups.iter_mut().zip(matching) {
        let reached = universe.get(&key.topology_key).into_iter().flatten();
        for (value, _) in reached.filter(|(_, taints)| reachable(key, taints)) {
            group.know(value.clone(), 1);
        }
        let domains =
            domains.entry(&key.topology_key).or_insert_with(|| Domains::new(&key.topology_key, snapshot));
        let counts = key.counting_nodes(snapshot);
        // A host without pods is never named: there is always another one.
        if key.topology_key != label::HOSTNAME {
            let some = counts.as_deref().map(|counting| backers(&domains.of_nodes, Some(counting), snapshot));
            for (domain, machines) in some.as_ref().unwrap_or(&domains.backers) {
                group.know(domain.clone(), *machines);
            }
        }
        if key.kind == Kind::Inverse {
            continue;
        }
        for nodes in matching.into_iter().map(|index| &bound[index]) {
            let counted = nodes.iter().filter(|node| counts.as_ref().is_none_or(|counts| counts[**node]));
            let domains = counted.filter_map(|node| domains.of_nodes[*node].clone());
            domains.for_each(|value| group.add(Domain::Value(value)));
        }
    }
}

/// The domains of one key.
struct Domains {
    /// Of every node.
    of_nodes: Vec<Option<LabelValue>>,
    /// How many of the machines that stay are in each.
    backers: BTreeMap<LabelValue, u32>,
}

impl Domains {
    fn new(key: &LabelKey, snapshot: &Snapshot) -> Self {
        let of_nodes: Vec<Option<LabelValue>> =
            snapshot.nodes.iter().map(|node| domain_of(node, key)).collect();
        let backers =
            if *key == label::HOSTNAME { BTreeMap::new() } else { backers(&of_nodes, None, snapshot) };
        Self { of_nodes, backers }
    }
}

/// How many of the machines that stay and count are in each domain.
fn backers(
    domains: &[Option<LabelValue>],
    counting: Option<&[bool]>,
    snapshot: &Snapshot,
) -> BTreeMap<LabelValue, u32> {
    let mut backers: BTreeMap<LabelValue, u32> = BTreeMap::new();
    for (index, _) in snapshot.nodes.iter().enumerate().filter(|(_, node)| !node.is_leaving()) {
        let Some(domain) = &domains[index] else { continue };
        if counting.is_some_and(|counting| !counting[index]) {
            continue;
        }
        match backers.get_mut(domain) {
            Some(machines) => *machines += 1,
            None => drop(backers.insert(domain.clone(), 1)),
        }
    }
    backers
}

/// Whether some pool that reaches a domain has no taint the group's pods do not tolerate, where that matters.
fn reachable(key: &GroupKey, pools: &[&[Taint]]) -> bool {
    match &key.kind {
        Kind::Spread { filter, .. } => pools.iter().any(|taints| filter.tolerates(taints)),
        Kind::Affinity | Kind::AntiAffinity | Kind::Inverse => true,
    }
}

fn universe<'a>(keys: &BTreeSet<LabelKey>, snapshot: &Snapshot, spaces: &[PoolSpace<'a>]) -> Universe<'a> {
    let mut universe = Universe::new();
    for space in spaces {
        let taints = space.pool.template.taints.as_slice();
        let types = snapshot.instance_types.get(&space.pool.name).into_iter().flat_map(|types| types.iter());
        let types: Vec<_> = types.collect();
        for key in keys.iter().filter(|key| **key != label::HOSTNAME) {
            let own = space.template.value_of(key);
            let mut values: BTreeSet<&LabelValue> = own.concrete().into_iter().flatten().collect();
            let offered =
                types.iter().filter_map(|candidate| candidate.requirements.get(key.as_str())?.concrete());
            values.extend(offered.flatten().filter(|value| own.allows(value.as_str())));
            let domains = universe.entry(key.clone()).or_default();
            for value in values {
                domains.entry(value.clone()).or_default().push(taints);
            }
        }
    }
    universe
}

/// Nodes of the pods that count, by namespace and labels: many pods, few different ones.
fn bound_pods<'a>(
    snapshot: &'a Snapshot,
    batch: &Interned<&PodKey>,
) -> InternedMap<(&'a Namespace, &'a Labels), Vec<usize>> {
    let mut bound: InternedMap<_, Vec<usize>> = InternedMap::default();
    for (index, node) in snapshot.nodes.iter().enumerate() {
        let node: &'a Node = node;
        for pod in node.pods.iter().filter(|pod| pod.is_active() && !batch.contains(&pod.key)) {
            bound.entry((&pod.key.namespace, &pod.labels)).or_default().push(index);
        }
    }
    bound
}
