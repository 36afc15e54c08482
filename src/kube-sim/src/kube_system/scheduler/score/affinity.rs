//! Scores by preferred pod affinity and anti-affinity, in both directions, and by the required affinity of pods that are there.

use std::collections::BTreeMap;

use karpenter_model::node::score::MAX;
use serde_json::Value;

use crate::apiserver::object::text;
use crate::kube_system::scheduler::affinity_term::{preferred, selects, terms};
use crate::kube_system::scheduler::candidate::Candidate;
use crate::kube_system::scheduler::surroundings::Surroundings;

/// Weight of a required affinity term of a pod that is there (`hardPodAffinityWeight`).
const REQUIRED: i64 = 1;

/// Sums of weights by topology key and domain.
type Weights = BTreeMap<(String, String), i64>;

/// Returns a score for each of `nodes`, which are among `all`.
pub(super) fn scores(
    pod: &Value,
    nodes: &[&Candidate],
    all: &[Candidate],
    surroundings: &Surroundings,
) -> Vec<i64> {
    let weights = weights(pod, all, surroundings);
    let sum = |node: &&Candidate| {
        let here = weights.iter().filter(|((key, domain), _)| node.label(key) == Some(domain));
        here.map(|(_, weight)| weight).sum::<i64>()
    };
    let sums: Vec<i64> = nodes.iter().map(sum).collect();
    let (least, most) = (sums.iter().min().copied().unwrap_or(0), sums.iter().max().copied().unwrap_or(0));
    if least == most {
        return vec![0; nodes.len()];
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the scheduler divides in this precision and cuts the result"
    )]
    let share = |sum: i64| (MAX as f64 * ((sum - least) as f64 / (most - least) as f64)) as i64;
    sums.into_iter().map(share).collect()
}

fn weights(pod: &Value, all: &[Candidate], surroundings: &Surroundings) -> Weights {
    let (attracted, repelled) = (preferred(pod, "podAffinity"), preferred(pod, "podAntiAffinity"));
    let has_own = !(attracted.is_empty() && repelled.is_empty());
    let mut weights = Weights::new();
    for node in all {
        let mut add = |term: &Value, weight: i64| {
            let key = text(term, "/topologyKey");
            if let Some(domain) = node.label(key) {
                *weights.entry((key.to_owned(), domain.to_owned())).or_default() += weight;
            }
        };
        // Without preferences of its own, only pods with an affinity have a say about the pod.
        for other in node.pods.iter().filter(|other| has_own || has_affinity(&other.object)) {
            let other = &*other.object;
            let mut weigh = |list: &[Value], owner: &Value, about: &Value, sign: i64| {
                for entry in list {
                    let term = &entry["podAffinityTerm"];
                    if selects(term, owner, about, surroundings) {
                        add(term, sign * entry["weight"].as_i64().unwrap_or(0));
                    }
                }
            };
            weigh(attracted, pod, other, 1);
            weigh(repelled, pod, other, -1);
            weigh(preferred(other, "podAffinity"), other, pod, 1);
            weigh(preferred(other, "podAntiAffinity"), other, pod, -1);
            for term in
                terms(other, "podAffinity").iter().filter(|term| selects(term, other, pod, surroundings))
            {
                add(term, REQUIRED);
            }
        }
    }
    weights
}

fn has_affinity(pod: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"]
        .into_iter()
        .any(|kind| !terms(pod, kind).is_empty() || !preferred(pod, kind).is_empty())
}
