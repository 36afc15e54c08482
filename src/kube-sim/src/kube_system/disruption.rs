//! The status of disruption budgets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use karpenter_api::convert::allowance;
use serde_json::Value;

use super::{
    StandIn,
    cluster::Cluster,
    template::{has_ended, is_ready, number},
    unread::{Cursor, Unread},
};
use crate::apiserver::{
    label_selector_matches,
    object::{self, Key, text},
    store::{Change, ChangeKind},
};

/// Keeps which pods each budget is about, and works out those again that have changed.
#[derive(Default)]
pub(super) struct Disruption {
    budgets: Cursor,
    pods: Cursor,
    sets: Cursor,
    covered: BTreeMap<Key, BTreeMap<Key, Covered>>,
}

/// A pod that a budget is about, as far as it matters to it.
struct Covered {
    /// True if it has ended; such pods do not count.
    ended: bool,
    /// It serves and is to stay.
    healthy: bool,
    /// Uid of its controller.
    owner: Option<String>,
}

impl Covered {
    fn of(pod: &Value) -> Self {
        let owner = object::controller(pod).map(|owner| text(owner, "/uid").to_owned());
        Self { ended: has_ended(pod), healthy: is_ready(pod) && !object::is_deleting(pod), owner }
    }
}

impl StandIn for Disruption {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("policy", "poddisruptionbudgets"), ("", "pods"), ("apps", "replicasets")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        let budgets = cluster.list("policy", "poddisruptionbudgets");
        if budgets.is_empty() {
            *self = Self::default();
            return;
        }
        let changed = self.refresh(cluster, &budgets);
        if changed.is_empty() {
            return;
        }
        let wanted: BTreeMap<String, i64> = ["replicasets", "statefulsets"]
            .into_iter()
            .flat_map(|plural| cluster.list("apps", plural))
            .map(|set| (object::uid(&set).to_owned(), number(&set, "/spec/replicas")))
            .collect();
        for budget in budgets.iter().filter(|budget| changed.contains(&Key::of(budget))) {
            let covered = self.covered.get(&Key::of(budget)).into_iter().flat_map(BTreeMap::values);
            report(cluster, budget, covered, &wanted);
        }
    }
}

impl Disruption {
    /// Takes in what was written; returns the budgets that have to be worked out again.
    fn refresh(&mut self, cluster: &Cluster<'_>, budgets: &[Arc<Value>]) -> BTreeSet<Key> {
        let mut changed = BTreeSet::new();
        let all = |changed: &mut BTreeSet<Key>| changed.extend(budgets.iter().map(|budget| Key::of(budget)));
        let news = self.budgets.news(cluster.server, "policy", "poddisruptionbudgets");
        // Budgets seldom change, but for their status, which this stand-in writes.
        let new = match &news {
            Unread::Changes(changes) => changes.iter().any(|change| {
                let spec = |object: &Value| object["spec"].clone();
                changed.insert(Key::of(&change.object));
                change.kind == ChangeKind::Deleted
                    || change.previous.as_ref().is_none_or(|before| spec(before) != spec(&change.object))
            }),
            Unread::All(_) => true,
        };
        match self.pods.news(cluster.server, "", "pods") {
            Unread::Changes(changes) if !new => {
                for change in changes {
                    for budget in budgets.iter().filter(|budget| covers(budget, &change.object)) {
                        self.put(Key::of(budget), &change, &mut changed);
                    }
                    // A pod whose labels are others now may have left a budget.
                    for before in change.previous.iter().filter(|before| !same_labels(before, &change.object))
                    {
                        for budget in budgets.iter().filter(|budget| covers(budget, before)) {
                            if !covers(budget, &change.object) {
                                self.covered.entry(Key::of(budget)).or_default().remove(&Key::of(before));
                                changed.insert(Key::of(budget));
                            }
                        }
                    }
                }
            }
            Unread::Changes(_) | Unread::All(_) => {
                all(&mut changed);
                let pods = cluster.list("", "pods");
                let covered = |budget: &Arc<Value>| {
                    let covered = pods.iter().filter(|pod| covers(budget, pod));
                    (Key::of(budget), covered.map(|pod| (Key::of(pod), Covered::of(pod))).collect())
                };
                self.covered = budgets.iter().map(covered).collect();
            }
        }
        let resized = match self.sets.news(cluster.server, "apps", "replicasets") {
            Unread::Changes(changes) => changes.iter().any(|change| {
                let replicas = |set: &Value| number(set, "/spec/replicas");
                change.previous.as_ref().is_none_or(|before| replicas(before) != replicas(&change.object))
            }),
            Unread::All(_) => true,
        };
        if resized {
            all(&mut changed);
        }
        changed
    }

    fn put(&mut self, budget: Key, change: &Change, changed: &mut BTreeSet<Key>) {
        let covered = self.covered.entry(budget.clone()).or_default();
        if change.kind == ChangeKind::Deleted {
            covered.remove(&Key::of(&change.object));
        } else {
            covered.insert(Key::of(&change.object), Covered::of(&change.object));
        }
        changed.insert(budget);
    }
}

fn same_labels(before: &Value, after: &Value) -> bool {
    before["metadata"]["labels"] == after["metadata"]["labels"]
}

fn covers(budget: &Value, pod: &Value) -> bool {
    object::namespace(pod) == object::namespace(budget)
        && label_selector_matches(&budget["spec"]["selector"], &pod["metadata"]["labels"])
}

fn report<'a>(
    cluster: &Cluster<'_>,
    budget: &Value,
    covered: impl Iterator<Item = &'a Covered>,
    wanted: &BTreeMap<String, i64>,
) {
    let workload = |pod: &Covered| {
        let (uid, replicas) = wanted.get_key_value(pod.owner.as_ref()?)?;
        Some((uid, *replicas))
    };
    let pods = covered.filter(|pod| !pod.ended).map(|pod| (pod.healthy, workload(pod)));
    let status = allowance(budget, pods).status(budget);
    cluster.report("policy", "poddisruptionbudgets", budget, &status);
}
