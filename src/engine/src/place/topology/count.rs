//! Domains, and the number of pods of each before the pass begins (spec scheduling 18.2).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::names::label;
use karpenter_model::{LabelKey, LabelRegistry, LabelValue, Labels, Namespace, Node, Pod, PodKey, Snapshot};

use super::group::{Domain, Group, GroupKey, Kind};
use super::is_undecided;
use super::lookup::Lookup;
use super::reach::{Reach, Request};
use crate::index::{GroupIx, Ix, IxVec, SnapshotNodeIx};
use crate::interning::{Interned, InternedMap};
use crate::node_labels::value_of;

/// Makes domains known to `groups` and counts the pods that stay where they are; pods of `batch` do not count. New
/// nodes are within `reach`; `requests` are those of the pods of each group. Returns the spread constraints that do not count
/// every domain a new node may be in.
pub(crate) fn fill(
    groups: &mut InternedMap<GroupKey, Group>,
    lookup: &Lookup,
    snapshot: &Snapshot,
    (reach, requests): (&mut Reach<'_, '_>, &IxVec<GroupIx, Vec<&Request>>),
    batch: &[&Pod],
) -> Vec<GroupIx> {
    let mut partial = Vec::new();
    let keys: BTreeSet<LabelKey> = groups.keys().map(|key| key.topology_key.clone()).collect();
    reach.survey(&keys, snapshot);
    // Looked at only where pods are on nodes.
    let occupied = snapshot.nodes.iter().any(|node| !node.pods.is_empty());
    let batch: Interned<&PodKey> = batch.iter().filter(|_| occupied).map(|pod| &pod.key).collect();
    let bound = bound_pods(snapshot, &batch);
    let numbered = snapshot.nodes.iter().enumerate();
    let leaving = numbered.filter(|(_, node)| node.is_leaving());
    let leaving: Vec<SnapshotNodeIx> = leaving.map(|(index, _)| SnapshotNodeIx::new(index)).collect();
    let mut domains: BTreeMap<&LabelKey, Domains> = BTreeMap::new();
    // By group: places in `bound`.
    let mut matching: IxVec<GroupIx, Vec<usize>> = IxVec::filled(Vec::new(), groups.len());
    for (index, (namespace, labels)) in bound.keys().enumerate() {
        let candidates = lookup.candidates(labels).into_iter();
        let matched = candidates.filter(|group| groups.keys()[group.get()].selects(namespace, labels));
        matched.for_each(|group| matching[group].push(index));
    }
    let numbers = matching.positions();
    let each = groups.iter_mut().zip(numbers).zip(matching).zip(requests.iter());
    for ((((key, group), number), matching), requests) in each {
        let reached = reach.domains(key, requests);
        if matches!(key.kind, Kind::Spread { .. }) && reached.len() < reach.known(&key.topology_key) {
            partial.push(number);
        }
        for value in reached {
            group.reach(value);
        }
        let domains =
            domains.entry(&key.topology_key).or_insert_with(|| Domains::new(&key.topology_key, snapshot));
        let counts = key.counting_nodes(snapshot);
        // A host without pods is never named: there is always another one.
        if key.topology_key != label::HOSTNAME {
            let some = counts.as_ref().map(|counting| backers(&domains.of_nodes, Some(counting), snapshot));
            for (domain, nodes) in some.as_ref().unwrap_or(&domains.backers) {
                group.know(domain.clone(), *nodes);
            }
            for node in &leaving {
                if let Some(domain) = &domains.of_nodes[*node]
                    && counts.as_ref().is_none_or(|counts| counts[*node])
                {
                    group.leave(domain);
                }
            }
        }
        // The owners of such a rule are counted elsewhere: as `bound_owners`, or in the requirements of those
        // they keep out.
        if key.kind == Kind::Inverse {
            continue;
        }
        for nodes in matching.into_iter().map(|index| &bound[index]) {
            let counted = nodes.iter().filter(|node| counts.as_ref().is_none_or(|counts| counts[**node]));
            for node in counted {
                match &domains.of_nodes[*node] {
                    Some(value) => group.add(Domain::Value(value.clone())),
                    None => undecided(group, key, &snapshot.nodes[node.get()], &snapshot.registry),
                }
            }
        }
    }
    partial
}

/// Counts a pod that is promised a machine which is not launched yet, in every domain it may land in where that matters.
pub(super) fn undecided(group: &mut Group, key: &GroupKey, node: &Node, registry: &LabelRegistry) {
    if let Some(claim) = node.unlaunched().filter(|_| is_undecided(node, &key.topology_key, registry)) {
        let possible = group.possible(key, claim.requirements.get(key.topology_key.as_str()));
        for value in possible {
            group.add(Domain::Value(value));
        }
    }
}

/// The domains of one key.
struct Domains {
    /// Domain of every node.
    of_nodes: IxVec<SnapshotNodeIx, Option<LabelValue>>,
    /// Number of nodes that stay, by domain.
    backers: BTreeMap<LabelValue, u32>,
}

impl Domains {
    fn new(key: &LabelKey, snapshot: &Snapshot) -> Self {
        let of_nodes: IxVec<SnapshotNodeIx, Option<LabelValue>> =
            snapshot.nodes.iter().map(|node| value_of(node, key, &snapshot.registry)).collect();
        let backers =
            if *key == label::HOSTNAME { BTreeMap::new() } else { backers(&of_nodes, None, snapshot) };
        Self { of_nodes, backers }
    }
}

/// Returns the number of nodes in each domain that stay and count.
fn backers(
    domains: &IxVec<SnapshotNodeIx, Option<LabelValue>>,
    counting: Option<&IxVec<SnapshotNodeIx, bool>>,
    snapshot: &Snapshot,
) -> BTreeMap<LabelValue, u32> {
    let mut backers: BTreeMap<LabelValue, u32> = BTreeMap::new();
    for (index, node) in snapshot.nodes.iter().enumerate() {
        let index = SnapshotNodeIx::new(index);
        if node.is_leaving() {
            continue;
        }
        let Some(domain) = &domains[index] else { continue };
        if counting.is_some_and(|counting| !counting[index]) {
            continue;
        }
        match backers.get_mut(domain) {
            Some(nodes) => *nodes += 1,
            None => drop(backers.insert(domain.clone(), 1)),
        }
    }
    backers
}

/// Nodes of the pods that count, by namespace and labels: many pods, few different ones.
fn bound_pods<'a>(
    snapshot: &'a Snapshot,
    batch: &Interned<&PodKey>,
) -> InternedMap<(&'a Namespace, &'a Labels), Vec<SnapshotNodeIx>> {
    let mut bound: InternedMap<_, Vec<SnapshotNodeIx>> = InternedMap::default();
    for (index, node) in snapshot.nodes.iter().enumerate() {
        let (index, node): (SnapshotNodeIx, &'a Node) = (SnapshotNodeIx::new(index), node);
        for pod in node.pods.iter().filter(|pod| pod.is_active() && !batch.contains(&pod.key)) {
            bound.entry((&pod.key.namespace, &pod.labels)).or_default().push(index);
        }
    }
    bound
}
