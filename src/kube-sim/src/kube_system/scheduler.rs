//! The scheduler: binds pending pods to nodes, and says why when it cannot.
//!
//! Filters: cordons, taints, node selector and required node affinity, resources, host ports, where volumes are, required pod
//! affinity and anti-affinity, hard topology spread. A node that the pod names in `status.nominatedNodeName` is tried first, and
//! keeps room for it from pods that are no more important, and counts for the spread of others, until the pod is tried and fits
//! nowhere; else the node with the best score wins ([`score`]), of equal ones the first by name where the scheduler draws one.
//! Less important pods are sent away for one that fits nowhere (`preemption.rs`). Resource claims are not played.

mod affinity_term;
mod candidate;
mod lists;
mod node_selector;
mod pod_affinity;
mod preemption;
mod refusal;
mod score;
mod spread;
mod surroundings;
mod volumes;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use self::{
    candidate::Candidate,
    lists::{Lists, Objects},
    refusal::{Ask, Reason},
    surroundings::Surroundings,
    volumes::uses_claims,
};
pub(super) use self::{candidate::tolerates, node_selector::admits as node_selector_admits};
use super::{
    StandIn,
    cluster::Cluster,
    pod::Pod,
    unread::{Cursor, Unread},
};
use crate::apiserver::{
    object::{self, list, text},
    store::Part,
};

/// Keeps what is left on each node, and works it out again where something has changed.
#[derive(Default)]
pub(super) struct Scheduler {
    nodes: Cursor,
    /// Nodes in order of their names.
    candidates: Vec<Candidate>,
    /// Number of changes so far.
    changes: Changes,
    /// Number of changes when a pod, by uid, was refused last: before the next one that may help it, it is not tried again.
    refused: BTreeMap<String, Changes>,
}

/// Changes after which pods that were refused are tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Changes {
    /// Number of changes of nodes and of what runs on them.
    all: u64,
    /// Number of those that give room, or another node.
    openings: u64,
}

impl StandIn for Scheduler {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("", "pods"), ("", "nodes"), ("", "persistentvolumeclaims")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        let mut pending: Vec<Arc<Pod>> =
            cluster.pods.unbound().filter(|pod| is_pending(&pod.object)).cloned().collect();
        if pending.is_empty() {
            return;
        }
        // Important pods first, then those that have waited longest.
        pending.sort_by_cached_key(|pod| {
            (-pod.priority, text(&pod.object, "/metadata/creationTimestamp").to_owned())
        });
        self.refresh(cluster);
        let mut surroundings = Surroundings::of(cluster, &pending);
        let (candidates, changes) = (&mut self.candidates, self.changes);
        let mut tried = BTreeMap::new();
        for pod in &pending {
            if let Some(index) = nominated(&pod.object, candidates) {
                candidates[index].expect(pod);
            }
        }
        let mut refused: BTreeMap<String, Reasons> = BTreeMap::new();
        let mut taken_away = 0;
        for pod in &pending {
            let object = &*pod.object;
            let uid = object::uid(object);
            if let Some(then) = self.refused.get(uid).filter(|then| !helps(object, **then, changes)) {
                tried.insert(uid.to_owned(), *then);
                continue;
            }
            if surroundings.volumes.keep_waiting(object) {
                continue;
            }
            let siblings = siblings(object);
            let known = siblings.as_ref().and_then(|siblings| refused.get(siblings));
            let choice =
                known.map_or_else(|| choose(pod, candidates, &surroundings), |reasons| Err(reasons.clone()));
            match choice {
                Ok(index) => {
                    if cluster.bind(object, &candidates[index].name) {
                        candidates[index].take(pod);
                        surroundings.volumes.place(object);
                        if let Some(expecting) = nominated(object, candidates) {
                            candidates[expecting].no_longer_expect(object);
                        }
                    }
                }
                Err(reasons) => {
                    // Changes of claims and volumes are not counted.
                    if !uses_claims(object) {
                        tried.insert(uid.to_owned(), changes);
                    }
                    if preemption::is_under_way(pod, candidates) {
                        continue;
                    }
                    let preempted = preemption::choose(pod, candidates, &surroundings);
                    let named = preempted.as_ref().map(|(index, _)| candidates[*index].name.as_str());
                    say_unschedulable(cluster, object, (candidates.len(), &reasons), named);
                    taken_away += u64::from(named.is_none() && nominated(object, candidates).is_some());
                    if let Some((index, victims)) = preempted {
                        for victim in &victims {
                            preemption::send_away(cluster, victim);
                        }
                        candidates[index].expect(pod);
                    }
                    refused.extend(siblings.map(|siblings| (siblings, reasons)));
                }
            }
        }
        for candidate in candidates {
            candidate.expected.clear();
        }
        // A name that is gone keeps no other pod out any more.
        self.changes.all += taken_away;
        self.refused = tried;
    }
}

impl Scheduler {
    /// Takes in what was written about nodes and their pods.
    fn refresh(&mut self, cluster: &mut Cluster<'_>) {
        let mut names = cluster.pods.take_touched();
        match self.nodes.news(cluster.server, "", "nodes") {
            Unread::Changes(changes) => {
                names.extend(changes.iter().map(|change| object::name(&change.object).to_owned()));
            }
            Unread::All(nodes) => {
                names.extend(self.candidates.drain(..).map(|one| one.name));
                names.extend(nodes.iter().map(|node| object::name(node).to_owned()));
            }
        }
        self.changes.all += u64::from(!names.is_empty());
        for name in names {
            let place = self.candidates.binary_search_by(|one| one.name.as_str().cmp(&name));
            // One that is being deleted as well: only taints keep pods off it, and its own pods count for those that spread.
            let now = cluster.node(&name).map(|node| Candidate::of(node, cluster.pods.on_node(&name)));
            let before = place.ok().map(|index| &self.candidates[index]);
            let opens =
                now.as_ref().is_some_and(|now| before.is_none_or(|before| now.offers_more_than(before)));
            self.changes.openings += u64::from(opens);
            match (place, now) {
                (Ok(index), Some(now)) => self.candidates[index] = now,
                (Ok(index), None) => drop(self.candidates.remove(index)),
                (Err(index), Some(now)) => self.candidates.insert(index, now),
                (Err(_), None) => {}
            }
        }
    }
}

/// The candidate that a pod names.
fn nominated(pod: &Value, candidates: &[Candidate]) -> Option<usize> {
    let name = text(pod, "/status/nominatedNodeName");
    candidates.binary_search_by(|one| one.name.as_str().cmp(name)).ok()
}

/// Number of nodes that refused, by reason.
type Reasons = BTreeMap<String, usize>;

/// Pods with this in common get the same answer: what one of them was refused, binding others cannot grant within a
/// pass. `None` for pods that may be attracted to what is bound in between.
fn siblings(pod: &Value) -> Option<String> {
    let nominated = !text(pod, "/status/nominatedNodeName").is_empty();
    let replica = text(pod, "/metadata/ownerReferences/0/kind") == "ReplicaSet";
    let uniform = replica && !minds_others(pod) && !nominated;
    uniform.then(|| text(pod, "/metadata/ownerReferences/0/uid").to_owned())
}

/// Returns whether the changes since `then` may give a pod a place that it was refused.
fn helps(pod: &Value, then: Changes, now: Changes) -> bool {
    let affinity = &pod["spec"]["affinity"];
    let apart = affinity.get("podAntiAffinity").is_some() || !candidate::host_ports(pod).is_empty();
    if minds_others(pod) || apart { now != then } else { now.openings != then.openings }
}

/// Returns whether a pod's place depends on where other pods are.
fn minds_others(pod: &Value) -> bool {
    let attracted = pod["spec"]["affinity"].get("podAffinity").is_some();
    attracted || !list(pod, "/spec/topologySpreadConstraints").is_empty()
}

fn is_pending(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && !object::is_deleting(pod)
        && matches!(text(pod, "/status/phase"), "" | "Pending")
        && text(pod, "/spec/schedulerName") == "default-scheduler"
        && list(pod, "/spec/schedulingGates").is_empty()
}

/// Index of the best candidate, or how many refused for each reason.
fn choose(pod: &Pod, candidates: &[Candidate], surroundings: &Surroundings) -> Result<usize, Reasons> {
    let ask = Ask::of(pod, candidates, surroundings);
    if let Some(index) = nominated(&pod.object, candidates)
        && ask.refusal(&candidates[index]).is_none()
    {
        return Ok(index);
    }
    let (fitting, reasons) = sorted_out(&ask, candidates);
    best(pod, &fitting, candidates, surroundings).ok_or(reasons)
}

/// The candidates that fit, and how many do not for each reason.
fn sorted_out(ask: &Ask<'_>, candidates: &[Candidate]) -> (Vec<usize>, Reasons) {
    let mut reasons: BTreeMap<Reason<'_>, usize> = BTreeMap::new();
    let mut fitting = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        match ask.refusal(candidate) {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None => fitting.push(index),
        }
    }
    (fitting, reasons.iter().map(|(reason, count)| (reason.to_string(), *count)).collect())
}

/// The best of the candidates that fit; the first by name of equal ones, because they are in order of their names.
fn best(
    pod: &Pod,
    fitting: &[usize],
    candidates: &[Candidate],
    surroundings: &Surroundings,
) -> Option<usize> {
    if fitting.len() < 2 {
        return fitting.first().copied();
    }
    let scores = score::scores(pod, fitting, candidates, surroundings);
    let best = scores.iter().enumerate().min_by_key(|(index, score)| (Reverse(**score), *index));
    best.map(|(index, _)| fitting[index])
}

/// Returns the nodes among these `objects` of a cluster that a pod fits, with their scores, so that the stand-in can be
/// compared with another scheduler. Names in `status.nominatedNodeName` do not count.
pub fn scores(objects: &[Arc<Value>], pod: &Value) -> BTreeMap<String, i64> {
    let objects = Objects(objects);
    let pods: Vec<Arc<Pod>> = objects.list("", "pods").iter().map(|pod| Arc::new(Pod::of(pod))).collect();
    let on = |node: &Value| {
        let name = object::name(node).to_owned();
        pods.iter().filter(move |pod| text(&pod.object, "/spec/nodeName") == name)
    };
    let mut nodes = objects.list("", "nodes");
    nodes.sort_by(|one, other| object::name(one).cmp(object::name(other)));
    let candidates: Vec<Candidate> =
        nodes.into_iter().map(|node| Candidate::of(Arc::clone(&node), on(&node))).collect();
    let pod = Arc::new(Pod::of(&Arc::new(pod.clone())));
    let surroundings = Surroundings::of(&objects, std::slice::from_ref(&pod));
    let (fitting, _) = sorted_out(&Ask::of(&pod, &candidates, &surroundings), &candidates);
    let scores = score::scores(&pod, &fitting, &candidates, &surroundings);
    fitting.iter().map(|index| candidates[*index].name.clone()).zip(scores).collect()
}

/// Reports that none of `nodes` nodes takes a pod, and the node that it is `named` for, where others are sent away.
fn say_unschedulable(
    cluster: &Cluster<'_>,
    pod: &Value,
    (nodes, reasons): (usize, &Reasons),
    named: Option<&str>,
) {
    let list: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let message = match list.as_slice() {
        [] => "no nodes available to schedule pods".to_owned(),
        list => format!("0/{nodes} nodes are available: {}.", list.join(", ")),
    };
    let conditions = object::list(pod, "/status/conditions");
    let says =
        |c: &Value| c["type"] == "PodScheduled" && c["status"] == "False" && c["message"] == message.as_str();
    // A pod that fits nowhere is expected nowhere: where nothing can be preempted for it, its name of a node goes.
    let is_named = text(pod, "/status/nominatedNodeName") == named.unwrap_or_default();
    if conditions.iter().any(says) && is_named {
        return;
    }
    let mut conditions: Vec<Value> =
        conditions.iter().filter(|c| c["type"] != "PodScheduled").cloned().collect();
    conditions.push(json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": cluster.timestamp(),
    }));
    let status = json!({"conditions": conditions, "nominatedNodeName": named});
    cluster.patch("", "pods", pod, Part::Status, json!({"status": status}));
}
