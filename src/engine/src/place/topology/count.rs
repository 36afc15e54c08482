//! Which domains there are and how many pods each has before the pass begins (spec core-scheduling 18.2).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{LabelKey, LabelValue, Labels, Namespace, Node, Pod, PodKey, Snapshot, label};

use super::domain_of;
use super::group::{Domain, Group, GroupKey, Kind};
use super::lookup::Lookup;
use super::reach::Reach;
use crate::amounts::Amounts;
use crate::interning::{Interned, InternedMap};

/// Makes domains known to `groups` and counts the pods that stay where they are; pods of `batch` do not count. New
/// machines are within `reach`; `requests` are those of the pods of each group.
pub(crate) fn fill(
    groups: &mut InternedMap<GroupKey, Group>,
    lookup: &Lookup,
    snapshot: &Snapshot,
    (reach, requests): (&mut Reach<'_, '_>, &[Vec<&Amounts>]),
    batch: &[&Pod],
) {
    let keys: BTreeSet<LabelKey> = groups.keys().map(|key| key.topology_key.clone()).collect();
    reach.survey(&keys, snapshot);
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
    for (((key, group), matching), requests) in groups.iter_mut().zip(matching).zip(requests) {
        reach.domains(key, requests).into_iter().for_each(|value| group.know(value, 1));
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
