//! Preemption: a pod that fits nowhere has less important ones sent away from a node that would take it without them.
//!
//! The fewest and least important pods go that suffice: of a node's candidates the most important stay first. The node is then
//! named for the pod, and no other one is chosen while they leave. Disruption budgets do not count, and what keeps a pod
//! out for the sake of a less important one elsewhere (spread, affinity) is taken for lasting.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::json;

use super::candidate::Candidate;
use super::nominated;
use super::refusal::Ask;
use super::surroundings::Surroundings;
use crate::apiserver::object::{self, text};
use crate::apiserver::store::Part;
use crate::kube_system::cluster::Cluster;
use crate::kube_system::pod::Pod;

/// Returns whether pods that were evicted for `pod` are still on the node that it names.
pub(super) fn is_under_way(pod: &Pod, candidates: &[Candidate]) -> bool {
    let leaving = |other: &Arc<Pod>| other.deleting && other.priority < pod.priority;
    nominated(&pod.object, candidates).is_some_and(|index| candidates[index].pods.iter().any(leaving))
}

/// The node that costs the least important pods, and those; `None` where none would take `pod` without them.
pub(super) fn choose(
    pod: &Pod,
    candidates: &[Candidate],
    surroundings: &Surroundings,
) -> Option<(usize, Vec<Arc<Pod>>)> {
    if text(&pod.object, "/spec/preemptionPolicy") == "Never" {
        return None;
    }
    let ask = Ask::of(pod, candidates, surroundings);
    let found = candidates.iter().enumerate();
    let found = found.filter_map(|(index, candidate)| Some((index, victims(pod, &ask, candidate)?)));
    found.min_by_key(|(index, victims)| {
        let most = victims.iter().map(|victim| victim.priority).max();
        (most, victims.len(), *index)
    })
}

/// Sends a pod away.
pub(super) fn send_away(cluster: &Cluster<'_>, victim: &Pod) {
    let mut conditions = object::list(&victim.object, "/status/conditions").to_vec();
    conditions.push(json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "lastTransitionTime": cluster.timestamp(),
    }));
    cluster.patch("", "pods", &victim.object, Part::Status, json!({"status": {"conditions": conditions}}));
    cluster.delete("", "pods", &victim.object);
}

/// The pods of a node that have to go for `pod`.
fn victims(pod: &Pod, ask: &Ask<'_>, candidate: &Candidate) -> Option<Vec<Arc<Pod>>> {
    let (mut less, mut staying): (Vec<_>, Vec<_>) =
        candidate.pods.iter().cloned().partition(|other| other.priority < pod.priority);
    if less.is_empty() || !takes(ask, candidate, &staying) {
        return None;
    }
    less.sort_by_key(|other| Reverse(other.priority));
    let mut victims = Vec::new();
    for other in less {
        staying.push(other);
        if !takes(ask, candidate, &staying) {
            victims.extend(staying.pop());
        }
    }
    Some(victims)
}

/// Returns whether a node would take the pod if only these pods were on it.
fn takes(ask: &Ask<'_>, candidate: &Candidate, pods: &[Arc<Pod>]) -> bool {
    let mut without = Candidate::of(Arc::clone(&candidate.node), pods.iter());
    without.expected.clone_from(&candidate.expected);
    ask.refusal(&without).is_none()
}
