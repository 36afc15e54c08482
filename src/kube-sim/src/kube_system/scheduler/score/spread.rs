//! Scores by soft topology spread constraints; pods without constraints have those that the scheduler gives by default.

use std::collections::BTreeMap;

use karpenter_model::names::label;
use karpenter_model::node::score::MAX;
use serde_json::{Value, json};

use crate::apiserver::object::{list, text};
use crate::kube_system::pod::Pod;
use crate::kube_system::scheduler::candidate::Candidate;
use crate::kube_system::scheduler::spread;
use crate::kube_system::scheduler::surroundings::Surroundings;

/// Returns a score for each of `nodes`, which are among `all`.
pub(super) fn scores(
    pod: &Pod,
    nodes: &[&Candidate],
    all: &[Candidate],
    surroundings: &Surroundings,
) -> Vec<i64> {
    let own = list(&pod.object, "/spec/topologySpreadConstraints");
    let soft = |one: &&Value| text(one, "/whenUnsatisfiable") == "ScheduleAnyway";
    let default = if own.is_empty() { by_default(surroundings.selector_of(&pod.object)) } else { Vec::new() };
    let constraints: Vec<&Value> = default.iter().chain(own).filter(soft).collect();
    if constraints.is_empty() {
        return vec![0; nodes.len()];
    }
    let keyed = |node: &Candidate| constraints.iter().all(|one| node.label(key(one)).is_some());
    // Nodes without a zone are spread over by default, too.
    let counts = |node: &Candidate| own.is_empty() || keyed(node);
    let scored: Vec<bool> = nodes.iter().map(|node| counts(node)).collect();
    let among: Vec<&Candidate> =
        nodes.iter().zip(&scored).filter(|(_, scored)| **scored).map(|(node, _)| *node).collect();
    let eligible: Vec<&Candidate> = all.iter().filter(|node| counts(node)).collect();
    let domains: Vec<Domains> =
        constraints.iter().map(|one| Domains::of(one, &pod.object, &among, &eligible)).collect();
    let sums: Vec<Option<i64>> = nodes
        .iter()
        .zip(scored)
        .map(|(node, scored)| scored.then(|| sum(&domains, &pod.object, node)))
        .collect();
    normalized(&sums)
}

/// The constraints of a scheduler without configuration (`defaultingType: System`).
fn by_default(selector: Option<Value>) -> Vec<Value> {
    let Some(selector) = selector else { return Vec::new() };
    let constraint = |key: &str, skew: i64| json!({"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector});
    vec![constraint(label::HOSTNAME, 3), constraint(label::ZONE, 5)]
}

fn key(constraint: &Value) -> &str {
    text(constraint, "/topologyKey")
}

/// One constraint, with the pods counted that are in the domains of the nodes to be scored.
struct Domains<'a> {
    constraint: &'a Value,
    counts: BTreeMap<String, i64>,
    /// Weight of a pod: domains that are many are not to drown those that are few.
    weight: f64,
}

impl<'a> Domains<'a> {
    fn of(constraint: &'a Value, pod: &Value, nodes: &[&Candidate], all: &[&Candidate]) -> Self {
        let key = key(constraint);
        let domain = |node: &Candidate| node.label(key).unwrap_or_default().to_owned();
        let mut counts = BTreeMap::new();
        if key != label::HOSTNAME {
            counts.extend(nodes.iter().map(|node| (domain(node), 0)));
            for node in all.iter().filter(|node| spread::includes(constraint, pod, node)) {
                if let Some(count) = counts.get_mut(&domain(node)) {
                    *count += spread::matching(constraint, pod, &node.pods);
                }
            }
        }
        let size = if key == label::HOSTNAME { nodes.len() } else { counts.len() };
        #[expect(clippy::cast_precision_loss, reason = "a number of domains")]
        let weight = ((size + 2) as f64).ln();
        Self { constraint, counts, weight }
    }
}

/// The less, the better the node.
fn sum(domains: &[Domains<'_>], pod: &Value, node: &Candidate) -> i64 {
    let mut sum = 0.0;
    for one in domains {
        let Some(domain) = node.label(key(one.constraint)) else { continue };
        let count = if key(one.constraint) == label::HOSTNAME {
            spread::matching(one.constraint, pod, &node.pods)
        } else {
            one.counts.get(domain).copied().unwrap_or(0)
        };
        let skew = one.constraint["maxSkew"].as_i64().unwrap_or(1);
        #[expect(clippy::cast_precision_loss, reason = "the scheduler computes in this precision")]
        let score = (count as f64).mul_add(one.weight, (skew - 1) as f64);
        sum += score;
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounded to an integer")]
    let sum = f64::round(sum) as i64;
    sum
}

/// A node that lacks a label has no score.
fn normalized(sums: &[Option<i64>]) -> Vec<i64> {
    let known = || sums.iter().flatten();
    let (least, most) = (known().min().copied().unwrap_or(0), known().max().copied().unwrap_or(0));
    let score = |sum: &Option<i64>| match sum {
        None => 0,
        Some(_) if most == 0 => MAX,
        Some(sum) => MAX * (most + least - sum) / most,
    };
    sums.iter().map(score).collect()
}
