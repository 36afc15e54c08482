//! Evictions that pod disruption budgets still allow once the nodes that are leaving have drained: a node whose pods
//! would only queue behind theirs waits, instead of being paid for twice meanwhile
//! (<https://github.com/aws/karpenter-provider-aws/issues/8164>).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{Namespace, Node, Pod, PodDisruptionBudget, Snapshot};

use super::Blocker;

/// A pod disruption budget, by namespace and name.
type Key<'a> = (&'a Namespace, &'a str);

/// The evictions that nodes which go have yet to ask for.
#[derive(Debug, Clone)]
pub(crate) struct Evictions<'a> {
    snapshot: &'a Snapshot,
    /// Pods on those nodes that each budget guards.
    spent: BTreeMap<Key<'a>, i32>,
    /// Budgets that let a pod of those nodes go, which still runs: what they allow next comes when it is replaced.
    moving: BTreeSet<Key<'a>>,
}

impl<'a> Evictions<'a> {
    /// Evictions from the nodes that are leaving and that `counts` admits.
    pub(crate) fn new(snapshot: &'a Snapshot, counts: impl Fn(&Node) -> bool) -> Self {
        let mut evictions = Self { snapshot, spent: BTreeMap::new(), moving: BTreeSet::new() };
        for node in snapshot.nodes.iter().filter(|node| node.is_leaving() && counts(node)) {
            evictions.spend(node);
        }
        evictions
    }

    /// `node` goes, and its pods will ask for their evictions.
    pub(crate) fn spend(&mut self, node: &'a Node) {
        for pod in &node.pods {
            if let Some(budget) = guard(pod, self.snapshot) {
                *self.spent.entry(key(budget)).or_default() += 1;
            }
            if pod.is_terminating() {
                self.moving.extend(self.snapshot.budgets.covering(pod).map(key));
            }
        }
    }

    /// Checks that the pods of `node` could be evicted after those of the nodes that are leaving. A budget that allows
    /// nothing, and is not about to, is not the concern of this check: it blocks the node by itself, unless its drain has
    /// a deadline.
    pub(crate) fn check(&self, node: &Node) -> Result<(), Blocker> {
        let spent = |budget: &PodDisruptionBudget| {
            let (key, allowed) = ((&budget.namespace, budget.name.as_str()), budget.disruptions_allowed);
            let spent = self.spent.get(&key).copied().unwrap_or_default();
            if allowed > 0 { spent >= allowed } else { self.moving.contains(&key) }
        };
        let guarded = node.pods.iter().filter_map(|pod| Some((pod, guard(pod, self.snapshot)?)));
        let mut waiting = guarded.filter(|(_, budget)| spent(budget));
        waiting.next().map_or(Ok(()), |(pod, budget)| Err(Blocker::budget_spent(pod, budget)))
    }
}

/// The budget that an eviction of `pod` would use up, if the API server would evict it at all.
fn guard<'a>(pod: &Pod, snapshot: &'a Snapshot) -> Option<&'a PodDisruptionBudget> {
    if !pod.asks_budgets(snapshot.now) {
        return None;
    }
    let mut covering = snapshot.budgets.of(&pod.key.namespace).iter().filter(|budget| budget.covers(pod));
    match (covering.next(), covering.next()) {
        (Some(budget), None) => Some(budget.as_ref()).filter(|budget| budget.guards(pod)),
        // The API server refuses to evict a pod that several budgets cover, so it uses up none of them.
        (Some(_), Some(_)) | (None, _) => None,
    }
}

fn key(budget: &PodDisruptionBudget) -> Key<'_> {
    (&budget.namespace, budget.name.as_str())
}
