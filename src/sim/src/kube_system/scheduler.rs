//! The scheduler: binds pending pods to nodes, and says why when it cannot.
//!
//! Filters: cordons, taints, node selector and required node affinity, resources, host ports, required pod affinity
//! and anti-affinity, hard topology spread. The emptiest node wins. Preferences, preemption, volumes and resource
//! claims are not played.

mod candidate;
mod node_selector;
mod pod_affinity;
mod spread;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use self::candidate::Candidate;
pub(super) use self::{candidate::tolerates, node_selector::admits as node_selector_admits};
use super::{StandIn, cluster::Cluster, template::number};
use crate::apiserver::{
    object::{self, list, text},
    store::Part,
};

pub(super) struct Scheduler;

impl StandIn for Scheduler {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("", "pods"), ("", "nodes")]
    }

    fn pass(&mut self, cluster: &Cluster<'_>) {
        let pods = cluster.list("", "pods");
        let mut pending: Vec<&Arc<Value>> = pods.iter().filter(|pod| is_pending(pod)).collect();
        if pending.is_empty() {
            return;
        }
        // Important pods first, then whoever waits longest.
        pending.sort_by_key(|pod| {
            (-number(pod, "/spec/priority"), text(pod, "/metadata/creationTimestamp").to_owned())
        });
        let mut candidates = candidate::all(&cluster.list("", "nodes"), &pods);
        for pod in pending {
            match choose(pod, &candidates) {
                Ok(index) => {
                    if cluster.bind(pod, &candidates[index].name) {
                        candidates[index].take(pod);
                    }
                }
                Err(reasons) => say_unschedulable(cluster, pod, candidates.len(), &reasons),
            }
        }
    }
}

fn is_pending(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && !object::is_deleting(pod)
        && matches!(text(pod, "/status/phase"), "" | "Pending")
        && text(pod, "/spec/schedulerName") == "default-scheduler"
        && list(pod, "/spec/schedulingGates").is_empty()
}

/// Index of the best candidate, or how many refused for each reason.
fn choose(pod: &Value, candidates: &[Candidate]) -> Result<usize, BTreeMap<String, usize>> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(i64, usize)> = None;
    for (index, candidate) in candidates.iter().enumerate() {
        if let Some(reason) = refusal(pod, candidate, candidates) {
            *reasons.entry(reason).or_default() += 1;
            continue;
        }
        let room = candidate.room();
        // Candidates are in order of their names, so ties go to the first name.
        if best.is_none_or(|(most, _)| room > most) {
            best = Some((room, index));
        }
    }
    best.map(|(_, index)| index).ok_or(reasons)
}

fn refusal(pod: &Value, candidate: &Candidate, all: &[Candidate]) -> Option<String> {
    let why = |text: &str| Some(text.to_owned());
    if candidate.is_cordoned_for(pod) {
        return why("node(s) were unschedulable");
    }
    if let Some(taint) = candidate.untolerated_taint(pod) {
        return Some(format!("node(s) had untolerated taint {{{taint}}}"));
    }
    if !node_selector::admits(pod, &candidate.node) {
        return why("node(s) didn't match Pod's node affinity/selector");
    }
    if let Some(resource) = candidate.insufficient(pod) {
        return Some(if resource == "pods" {
            "Too many pods".to_owned()
        } else {
            format!("Insufficient {resource}")
        });
    }
    if candidate.has_port_conflict(pod) {
        return why("node(s) didn't have free ports for the requested pod ports");
    }
    if !spread::admits(pod, candidate, all) {
        return why("node(s) didn't match pod topology spread constraints");
    }
    if !pod_affinity::attracted(pod, candidate, all) {
        return why("node(s) didn't match pod affinity rules");
    }
    if pod_affinity::repelled(pod, candidate, all) {
        return why("node(s) didn't match pod anti-affinity rules");
    }
    None
}

fn say_unschedulable(cluster: &Cluster<'_>, pod: &Value, nodes: usize, reasons: &BTreeMap<String, usize>) {
    let list: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let message = match list.as_slice() {
        [] => "no nodes available to schedule pods".to_owned(),
        list => format!("0/{nodes} nodes are available: {}.", list.join(", ")),
    };
    let conditions = object::list(pod, "/status/conditions");
    let says =
        |c: &Value| c["type"] == "PodScheduled" && c["status"] == "False" && c["message"] == message.as_str();
    if conditions.iter().any(says) {
        return;
    }
    let mut conditions: Vec<Value> =
        conditions.iter().filter(|c| c["type"] != "PodScheduled").cloned().collect();
    conditions.push(json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": cluster.timestamp(),
    }));
    cluster.patch("", "pods", pod, Part::Status, json!({"status": {"conditions": conditions}}));
}
