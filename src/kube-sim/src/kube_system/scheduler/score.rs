//! Scores of the nodes that a pod fits: the weighted sum of the plugins in kube-scheduler's default profile.
//!
//! | plugin | weight | file |
//! |---|---|---|
//! | `TaintToleration` | 3 | here |
//! | `NodeAffinity` | 2 | here |
//! | `PodTopologySpread` | 2 | `score/spread.rs` |
//! | `InterPodAffinity` | 2 | `score/affinity.rs` |
//! | `NodeResourcesFit` (`LeastAllocated`) | 1 | `karpenter_model::node::score` |
//! | `NodeResourcesBalancedAllocation` | 1 | `karpenter_model::node::score` |
//!
//! `ImageLocality` is not played, because kubelets here report no images; every node is scored, while the scheduler of a
//! cluster with more than a hundred nodes looks at some of them. Source: kube-scheduler 1.35, to whose own code the judge
//! compares these figures.

mod affinity;
mod spread;

use karpenter_model::Quantity;
use karpenter_model::node::score::{MAX, balanced, least_allocated};
use serde_json::Value;

use super::candidate::Candidate;
use super::node_selector;
use super::surroundings::Surroundings;
use crate::apiserver::object::{at, list};
use crate::kube_system::pod::Pod;
use crate::kube_system::requests;

/// Returns the scores of the candidates at `fitting`, in the same order.
pub(super) fn scores(
    pod: &Pod,
    fitting: &[usize],
    candidates: &[Candidate],
    surroundings: &Surroundings,
) -> Vec<i64> {
    let nodes: Vec<&Candidate> = fitting.iter().map(|index| &candidates[*index]).collect();
    let spread = spread::scores(pod, &nodes, candidates, surroundings);
    let affinity = affinity::scores(&pod.object, &nodes, candidates, surroundings);
    let taints = taints(&pod.object, &nodes);
    let preferred = preferred(&pod.object, &nodes);
    let scored = requests::for_score(&pod.object, false);
    let of_one = |(index, node): (usize, &&Candidate)| {
        3 * taints[index]
            + 2 * (preferred[index] + spread[index] + affinity[index])
            + by_room(pod, scored, node)
    };
    nodes.iter().enumerate().map(of_one).collect()
}

/// Scores for free and evenly used CPU and memory.
fn by_room(pod: &Pod, scored: [Quantity; 2], node: &Candidate) -> i64 {
    let (asked, scored) = node.shares_with(pod, scored);
    let asks = |name: &&str| !pod.requests.amount(name).is_zero();
    let is_best_effort = !["cpu", "memory"].iter().any(asks);
    let even = if is_best_effort { 0 } else { balanced(asked) };
    least_allocated(scored) + even
}

/// Most where no taint is to be avoided.
fn taints(pod: &Value, nodes: &[&Candidate]) -> Vec<i64> {
    let counts = nodes.iter().map(|node| i64::try_from(node.soft_taints_against(pod)).unwrap_or(i64::MAX));
    let counts: Vec<i64> = counts.collect();
    match counts.iter().max() {
        Some(&most) if most > 0 => counts.into_iter().map(|count| MAX - MAX * count / most).collect(),
        _ => vec![MAX; nodes.len()],
    }
}

/// Scores by the weights of the preferred node affinity.
fn preferred(pod: &Value, nodes: &[&Candidate]) -> Vec<i64> {
    const PREFERRED: &str = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    let terms = list(pod, PREFERRED);
    let weight = |node: &Candidate| {
        let met = terms.iter().filter(|term| {
            at(term, "/preference").is_some_and(|term| node_selector::term_matches(term, &node.node))
        });
        met.map(|term| term["weight"].as_i64().unwrap_or(0)).sum::<i64>()
    };
    let weights: Vec<i64> = nodes.iter().map(|node| weight(node)).collect();
    let most = weights.iter().max().copied().unwrap_or(0).max(1);
    weights.into_iter().map(|weight| MAX * weight / most).collect()
}
