//! Hard topology spread constraints, with the default policies: node affinity honoured, taints ignored.
//!
//! The counts are taken once per pod.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{candidate::Candidate, node_selector};
use crate::apiserver::{
    label_selector_matches,
    object::{self, list, text},
};

/// The hard constraints of one pod, with the pods that are there counted.
pub(super) struct Spread(Vec<Counted>);

struct Counted {
    key: String,
    counts: BTreeMap<String, i64>,
    least: i64,
    own: i64,
    max_skew: i64,
}

impl Spread {
    /// Counts the pods on `all` nodes for every hard constraint of `pod`.
    pub(super) fn of(pod: &Value, all: &[Candidate]) -> Self {
        let hard = |c: &&Value| text(c, "/whenUnsatisfiable") != "ScheduleAnyway";
        let constraints: Vec<&Value> =
            list(pod, "/spec/topologySpreadConstraints").iter().filter(hard).collect();
        if constraints.is_empty() {
            return Self(Vec::new());
        }
        let keyed = |c: &&Candidate| constraints.iter().all(|k| c.label(text(k, "/topologyKey")).is_some());
        let eligible: Vec<&Candidate> =
            all.iter().filter(keyed).filter(|c| node_selector::admits(pod, &c.node)).collect();
        Self(constraints.into_iter().map(|constraint| Counted::of(constraint, pod, &eligible)).collect())
    }

    /// Whether no constraint is violated by going to the candidate.
    pub(super) fn admits(&self, candidate: &Candidate) -> bool {
        self.0.iter().all(|counted| {
            let Some(domain) = candidate.label(&counted.key) else { return false };
            let here = counted.counts.get(domain).copied().unwrap_or(0);
            here + counted.own - counted.least <= counted.max_skew
        })
    }
}

impl Counted {
    fn of(constraint: &Value, pod: &Value, eligible: &[&Candidate]) -> Self {
        let key = text(constraint, "/topologyKey").to_owned();
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for node in eligible {
            let matching =
                node.pods.iter().filter(|other| counts_for(constraint, pod, &other.object)).count();
            let slot = counts.entry(node.label(&key).unwrap_or_default().to_owned()).or_default();
            *slot += i64::try_from(matching).unwrap_or(i64::MAX);
        }
        let domains = i64::try_from(counts.len()).unwrap_or(i64::MAX);
        let enough = domains >= constraint["minDomains"].as_i64().unwrap_or(1);
        Self {
            key,
            least: if enough { counts.values().min().copied().unwrap_or(0) } else { 0 },
            counts,
            own: i64::from(counts_for(constraint, pod, pod)),
            max_skew: constraint["maxSkew"].as_i64().unwrap_or(1),
        }
    }
}

fn counts_for(constraint: &Value, owner: &Value, other: &Value) -> bool {
    let keys = list(constraint, "/matchLabelKeys").iter().filter_map(Value::as_str);
    let mut same = keys.map(|key| object::label(owner, key) == object::label(other, key));
    object::namespace(owner) == object::namespace(other)
        && !object::is_deleting(other)
        && label_selector_matches(&constraint["labelSelector"], &other["metadata"]["labels"])
        && same.all(|same| same)
}
