//! Deletion costs of the pods of each node, so that a ReplicaSet that scales in deletes those whose node is removed
//! next (core #2894).
//!
//! Nodes that go already come first, then drifted ones, as many as the budgets for drift let go, then those consolidation
//! would take next, as many as its budgets let go. Pods of every other node have no cost.

use std::collections::BTreeSet;

use karpenter_model::{
    ConditionType, DisruptionReason, Node, NodeId, Pod, PodKey, PodOwner, PodUid, PoolName, Snapshot, Taint,
};

use super::Rank;
use crate::disrupt::budget::Budgets;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::lookup::Lookup;

/// The cost of pods whose node is being removed already: no pod is cheaper.
pub const GOING: i32 = i32::MIN;

/// Namespace whose pods may have any controller: those of DNS and the network come back by themselves.
const SYSTEM: &str = "kube-system";

/// A node whose pods do not have the cost that they are to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repricing {
    pub node: NodeId,
    /// Its pool, if it has one.
    pub pool: Option<PoolName>,
    /// Deletion cost of its pods; `None` where they are to have none.
    pub cost: Option<i32>,
    /// Its pods that cost something else.
    pub pods: Vec<(PodKey, PodUid)>,
}

/// The costs to write and to remove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repricings {
    /// Nodes with pods to change: those that go, those with a rank, the lowest first, then those without.
    pub nodes: Vec<Repricing>,
    /// Pods that cost what they are to cost.
    pub unchanged: usize,
}

/// Returns the changes needed so that every pod of a ReplicaSet on a managed node has the cost of its node.
pub fn repricings(snapshot: &Snapshot) -> Repricings {
    let ranked = ranked(snapshot);
    let mut all = Repricings::default();
    let lowest = ranked.len();
    let with_rank = ranked.iter().enumerate().map(|(position, node)| (*node, Some(rank(position, lowest))));
    let going = snapshot.nodes.iter().map(AsRef::as_ref).filter(|node| is_going(node));
    let known: BTreeSet<&NodeId> = ranked.iter().map(|node| &node.id).collect();
    let rest = || snapshot.nodes.iter().map(AsRef::as_ref).filter(|node| !is_going(node));
    let without = rest().filter(|node| !known.contains(&node.id)).map(|node| (node, None));
    for (node, cost) in going.map(|node| (node, Some(GOING))).chain(with_rank).chain(without) {
        if node.claim.is_none() {
            continue;
        }
        let (changed, unchanged): (Vec<&Pod>, Vec<&Pod>) = node
            .pods
            .iter()
            .map(AsRef::as_ref)
            .filter(|pod| is_counted(pod))
            .partition(|pod| pod.written_deletion_cost != cost);
        all.unchanged += unchanged.len();
        if !changed.is_empty() {
            let pods = changed.into_iter().map(|pod| (pod.key.clone(), pod.uid.clone())).collect();
            all.nodes.push(Repricing { node: node.id.clone(), pool: node.pool(), cost, pods });
        }
    }
    all
}

/// Returns the cost of the node at `position` among this number of `nodes`: consecutive, and -1 for the last.
fn rank(position: usize, nodes: usize) -> i32 {
    // Below zero, because a pod without the annotation counts as zero to the ReplicaSet.
    i32::try_from(nodes - position).map_or(GOING + 1, |places| -places)
}

/// Returns whether a ReplicaSet looks at the cost of `pod`. One that is terminating is deleted already.
fn is_counted(pod: &Pod) -> bool {
    pod.owner == PodOwner::ReplicaSet && pod.is_active()
}

fn is_going(node: &Node) -> bool {
    let disrupted = Taint::disrupted();
    node.is_leaving() || node.deletion.is_some() || node.taints.iter().any(|taint| taint.matches(&disrupted))
}

/// Nodes that have a rank, the first to be removed at the head.
fn ranked(snapshot: &Snapshot) -> Vec<&Node> {
    let lookup = Lookup::new(snapshot);
    let free = snapshot.nodes.iter().filter(|node| !is_going(node) && pods_come_back(node));
    let candidates = free.filter_map(|node| Candidate::of(node, &lookup).ok());
    let quiet = candidates.filter(|candidate| !candidate.cannot_drain() && candidate.instance_type.is_some());
    let (mut drifted, others): (Vec<_>, Vec<_>) = quiet.partition(Candidate::is_drifted);
    drifted.sort_by_cached_key(|candidate| {
        (candidate.claim.true_since(ConditionType::Drifted), candidate.node.id.clone())
    });
    // Nodes of static pools are made again whatever runs on them.
    let consolidates =
        |one: &Candidate<'_>| one.pool.disruption.consolidate_after.is_some() && one.pool.replicas.is_none();
    let mut others: Vec<_> = others.into_iter().filter(consolidates).collect();
    others.sort_by(|a, b| Rank::of(a).cmp(&Rank::of(b)));
    let of_drift = within_budgets(snapshot, drifted, DisruptionReason::Drifted);
    let of_consolidation = within_budgets(snapshot, others, DisruptionReason::Underutilized);
    of_drift.into_iter().chain(of_consolidation).collect()
}

/// Returns those of `candidates`, in their order, that the budgets of their pools let go for `reason`.
fn within_budgets<'a>(
    snapshot: &'a Snapshot,
    candidates: Vec<Candidate<'a>>,
    reason: DisruptionReason,
) -> Vec<&'a Node> {
    let mut budgets = Budgets::new(snapshot, &BTreeSet::new());
    let fitting = candidates.into_iter().filter(|candidate| budgets.take(candidate, reason).is_ok());
    fitting.map(|candidate| candidate.node).collect()
}

/// Returns whether every pod of `node` outside the system's namespace belongs to a workload that a scale-in may move: others stay
/// where they are, and keep the node.
fn pods_come_back(node: &Node) -> bool {
    let moves = |pod: &Pod| {
        let owned = matches!(pod.owner, PodOwner::ReplicaSet | PodOwner::Job | PodOwner::DaemonSet);
        owned || pod.key.namespace.as_str() == SYSTEM
    };
    node.pods.iter().all(|pod| moves(pod))
}

#[cfg(test)]
mod tests;
