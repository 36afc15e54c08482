//! Hard topology spread constraints, and the counts that soft ones are scored by.
//!
//! The counts are taken once per pod. A node must do as it is, and as if the pods that name it and are no less important were
//! there: pods that spread and name one node keep each other out.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

use super::{candidate::Candidate, node_selector};
use crate::{
    apiserver::{
        label_selector_matches,
        object::{self, list, text},
    },
    kube_system::pod::Pod,
};

/// The hard constraints of one pod, with the pods that are there counted.
pub(super) struct Spread(Vec<Counted>);

struct Counted {
    key: String,
    counts: BTreeMap<String, i64>,
    /// There are as many domains as there have to be; the least count is 0 otherwise.
    enough: bool,
    least: i64,
    /// Pods that name a node, by its name.
    expected: BTreeMap<String, i64>,
    own: i64,
    max_skew: i64,
}

impl Spread {
    /// Counts the pods on `all` nodes for every hard constraint of `pod`.
    pub(super) fn of(owner: &Pod, all: &[Candidate]) -> Self {
        let pod = &*owner.object;
        let hard = |c: &&Value| text(c, "/whenUnsatisfiable") != "ScheduleAnyway";
        let constraints: Vec<&Value> =
            list(pod, "/spec/topologySpreadConstraints").iter().filter(hard).collect();
        if constraints.is_empty() {
            return Self(Vec::new());
        }
        let keyed = |c: &&Candidate| constraints.iter().all(|k| c.label(text(k, "/topologyKey")).is_some());
        let keyed: Vec<&Candidate> = all.iter().filter(keyed).collect();
        Self(constraints.into_iter().map(|constraint| Counted::of(constraint, owner, &keyed)).collect())
    }

    /// Returns whether no constraint is violated by going to the candidate.
    pub(super) fn admits(&self, candidate: &Candidate) -> bool {
        self.0.iter().all(|counted| {
            let Some(domain) = candidate.label(&counted.key) else { return false };
            let expected = counted.expected.get(&candidate.name).copied().unwrap_or(0);
            let here = counted.counts.get(domain).copied().unwrap_or(0);
            let admits = |here: i64, least: i64| here + counted.own - least <= counted.max_skew;
            admits(here, counted.least)
                && (expected == 0 || admits(here + expected, counted.least_with(domain, expected)))
        })
    }
}

impl Counted {
    /// Returns the least count when `more` are added in `domain`.
    fn least_with(&self, domain: &str, more: i64) -> i64 {
        let with_more = |(name, count): (&String, &i64)| if name == domain { count + more } else { *count };
        if self.enough { self.counts.iter().map(with_more).min().unwrap_or(0) } else { 0 }
    }

    /// Counts on those of the nodes with all `keyed` labels that the policies of the constraint include.
    fn of(constraint: &Value, owner: &Pod, keyed: &[&Candidate]) -> Self {
        let pod = &*owner.object;
        let eligible: Vec<&&Candidate> =
            keyed.iter().filter(|node| includes(constraint, pod, node)).collect();
        let key = text(constraint, "/topologyKey").to_owned();
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for node in &eligible {
            let slot = counts.entry(node.label(&key).unwrap_or_default().to_owned()).or_default();
            *slot += matching(constraint, pod, &node.pods);
        }
        let names = |other: &&Arc<Pod>| {
            object::uid(&other.object) != object::uid(pod)
                && other.priority >= owner.priority
                && counts_for(constraint, pod, &other.object)
        };
        let expected = eligible.iter().filter(|node| !node.expected.is_empty()).map(|node| {
            let naming = node.expected.iter().filter(names).count();
            (node.name.clone(), i64::try_from(naming).unwrap_or(i64::MAX))
        });
        let domains = i64::try_from(counts.len()).unwrap_or(i64::MAX);
        let enough = domains >= constraint["minDomains"].as_i64().unwrap_or(1);
        Self {
            key,
            expected: expected.collect(),
            least: if enough { counts.values().min().copied().unwrap_or(0) } else { 0 },
            counts,
            enough,
            own: i64::from(selects(constraint, pod, pod)),
            max_skew: constraint["maxSkew"].as_i64().unwrap_or(1),
        }
    }
}

/// Returns whether a node counts for a constraint by its policies: `nodeAffinityPolicy`, honoured by default, and
/// `nodeTaintsPolicy`, ignored by default.
pub(super) fn includes(constraint: &Value, pod: &Value, node: &Candidate) -> bool {
    let by_affinity = text(constraint, "/nodeAffinityPolicy") != "Ignore";
    let by_taints = text(constraint, "/nodeTaintsPolicy") == "Honor";
    (!by_affinity || node_selector::admits(pod, &node.node))
        && (!by_taints || node.untolerated_taint(pod).is_none())
}

/// Number of `pods` that count for a constraint of `owner`.
pub(super) fn matching(constraint: &Value, owner: &Value, pods: &[Arc<Pod>]) -> i64 {
    let count = pods.iter().filter(|other| counts_for(constraint, owner, &other.object)).count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn counts_for(constraint: &Value, owner: &Value, other: &Value) -> bool {
    let selector = &constraint["labelSelector"];
    let says_nothing = selector["matchLabels"].as_object().is_none_or(Map::is_empty)
        && list(selector, "/matchExpressions").is_empty()
        && !list(constraint, "/matchLabelKeys")
            .iter()
            .any(|key| object::label(owner, key.as_str().unwrap_or_default()).is_some());
    // The scheduler counts no pod where a selector would select each of them.
    !says_nothing && !object::is_deleting(other) && selects(constraint, owner, other)
}

fn selects(constraint: &Value, owner: &Value, other: &Value) -> bool {
    let keys = list(constraint, "/matchLabelKeys").iter().filter_map(Value::as_str);
    let mut own = keys.filter_map(|key| Some((key, object::label(owner, key)?)));
    object::namespace(owner) == object::namespace(other)
        && label_selector_matches(&constraint["labelSelector"], &other["metadata"]["labels"])
        && own.all(|(key, value)| object::label(other, key) == Some(value))
}
