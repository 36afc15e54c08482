//! Hard topology spread constraints, with the default policies: node affinity honoured, taints ignored.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{candidate::Candidate, node_selector};
use crate::apiserver::{
    label_selector_matches,
    object::{self, list, text},
};

/// Whether no hard constraint of the pod is violated by going to the candidate.
pub(super) fn admits(pod: &Value, candidate: &Candidate, all: &[Candidate]) -> bool {
    let hard = |c: &&Value| text(c, "/whenUnsatisfiable") != "ScheduleAnyway";
    let constraints: Vec<&Value> = list(pod, "/spec/topologySpreadConstraints").iter().filter(hard).collect();
    let keyed = |c: &&Candidate| constraints.iter().all(|k| c.label(text(k, "/topologyKey")).is_some());
    constraints.iter().all(|constraint| {
        let key = text(constraint, "/topologyKey");
        let Some(domain) = candidate.label(key) else { return false };
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for other in all.iter().filter(keyed).filter(|c| node_selector::admits(pod, &c.node)) {
            let matching = other.pods.iter().filter(|p| counts_for(constraint, pod, p)).count();
            let slot = counts.entry(other.label(key).unwrap_or_default()).or_default();
            *slot += i64::try_from(matching).unwrap_or(i64::MAX);
        }
        let domains = i64::try_from(counts.len()).unwrap_or(i64::MAX);
        let enough = domains >= constraint["minDomains"].as_i64().unwrap_or(1);
        let least = if enough { counts.values().min().copied().unwrap_or(0) } else { 0 };
        let own = i64::from(counts_for(constraint, pod, pod));
        let skew = counts.get(domain).copied().unwrap_or(0) + own - least;
        skew <= constraint["maxSkew"].as_i64().unwrap_or(1)
    })
}

fn counts_for(constraint: &Value, owner: &Value, other: &Value) -> bool {
    let keys = list(constraint, "/matchLabelKeys").iter().filter_map(Value::as_str);
    let mut same = keys.map(|key| object::label(owner, key) == object::label(other, key));
    object::namespace(owner) == object::namespace(other)
        && !object::is_deleting(other)
        && label_selector_matches(&constraint["labelSelector"], &other["metadata"]["labels"])
        && same.all(|same| same)
}
