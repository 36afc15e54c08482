//! Record of a played scenario, as far as expectations may ask for it: made of objects as the API server has them, and of
//! instances with their prices, all of which the caller supplies.
//!
//! A [`Picture`] is taken every few seconds and kept when it differs from the one before, so a quiet day is short.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_kube_sim::apiserver::object::{self, text};
use karpenter_model::Price;
use karpenter_model::clock::since;
use karpenter_model::names::label;
use serde_json::Value;

/// Facts about a run. [`judge`](super::judge::judge) compares it with what was expected.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub(crate) pictures: Vec<Picture>,
    /// Waits by uid.
    pub(crate) waits: BTreeMap<String, Wait>,
    pub(crate) removals: Vec<Removal>,
    /// Events by uid.
    pub(crate) events: BTreeMap<String, Occurrence>,
    pub(crate) took: Duration,
    /// Hourly price of one plan for all pods of the end; `None` where none was made.
    pub(crate) one_plan: Option<Price>,
}

impl Recording {
    /// Returns the number of nodes that have been there, the last picture included, and the number of pods that do not run in
    /// it.
    pub fn at_the_end(&self) -> (usize, u64) {
        let last = self.pictures.last();
        let nodes = last.map_or(0, |picture| picture.nodes.len());
        let pods = last.into_iter().flat_map(|picture| &picture.pods);
        (self.removals.len() + nodes, pods.filter(|(pod, _)| !pod.running).map(|(_, count)| count).sum())
    }
}

/// Cluster and account at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Since the beginning.
    pub(crate) at: Duration,
    pub(crate) per_hour: Price,
    pub(crate) nodes: Vec<NodeFact>,
    pub(crate) pods: BTreeMap<PodFact, u64>,
}

/// A registered node of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeFact {
    pub(crate) pool: String,
    pub(crate) zone: String,
    pub(crate) instance_type: String,
    pub(crate) capacity_type: String,
    pub(crate) arch: String,
}

/// Facts about a pod that expectations may ask for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodFact {
    pub(crate) namespace: String,
    pub(crate) workload: String,
    pub(crate) running: bool,
    pub(crate) node: Option<NodeFact>,
}

/// Waiting time of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) namespace: String,
    pub(crate) workload: String,
    created: Timestamp,
    running: Option<Timestamp>,
    /// Time at which the pod began to go, or the run ended.
    ended: Timestamp,
}

impl Wait {
    /// Returns the time from its creation until it ran, or as long as it was seen.
    pub(crate) fn lasted(&self) -> Duration {
        let until = self.running.unwrap_or(self.ended);
        since(self.created, until)
    }
}

/// A node that was removed.
#[derive(Clone, Debug)]
pub(crate) struct Removal {
    pub(crate) at: Duration,
    pub(crate) pool: String,
    /// Reason in the words of the controller or the event; see [`super::format::Reason`].
    pub(crate) reason: String,
}

/// An event that was written, once or more often.
#[derive(Clone, Debug)]
pub(crate) struct Occurrence {
    pub(crate) reason: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) message: String,
    /// Times at which it was written, since the beginning.
    pub(crate) times: Vec<Duration>,
}

/// Makes a [`Recording`] of what it is shown. Times of pictures, events and removals are those since the beginning.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Claims whose removal was seen, by uid.
    removed: BTreeSet<String>,
    /// Instances that the scenario ended.
    ended: BTreeSet<String>,
    recording: Recording,
}

impl Recorder {
    /// Records instances that the scenario takes back: removals of their nodes count as interruptions.
    pub fn taken(&mut self, ids: impl IntoIterator<Item = String>) {
        self.ended.extend(ids);
    }

    /// Records a state of a pod at `now`, for the time that the pod waits. `gone` is true for the last one.
    pub fn pod(&mut self, now: Timestamp, pod: &Value, gone: bool) {
        if owner_kind(pod) == "DaemonSet" {
            return;
        }
        let created = object::time(pod, "/metadata/creationTimestamp").unwrap_or(Timestamp::MIN);
        let wait = self.recording.waits.entry(object::uid(pod).to_owned()).or_insert_with(|| Wait {
            namespace: object::namespace(pod).to_owned(),
            workload: workload(pod),
            created,
            running: None,
            ended: Timestamp::MAX,
        });
        if wait.running.is_none() && text(pod, "/status/phase") == "Running" {
            wait.running = object::time(pod, "/status/startTime");
        }
        if gone || object::is_deleting(pod) {
            wait.ended = now.min(wait.ended);
        }
    }

    /// Records a state of an event of the core group, new or counted up.
    pub fn event(&mut self, at: Duration, event: &Value) {
        // Those of the group `events.k8s.io` have their count in a series, from the second time on.
        let count = event["count"].as_u64().or_else(|| event["series"]["count"].as_u64()).unwrap_or(1);
        let occurrence =
            self.recording.events.entry(object::uid(event).to_owned()).or_insert_with(|| Occurrence {
                reason: text(event, "/reason").to_owned(),
                kind: text(event, "/involvedObject/kind").to_owned(),
                name: text(event, "/involvedObject/name").to_owned(),
                message: text(event, "/message").to_owned(),
                times: Vec::new(),
            });
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(100_000);
        occurrence.times.resize(count.max(occurrence.times.len()), at);
    }

    /// Records a state of a claim. One that had a node and is being deleted, or gone, counts as a removal.
    pub fn claim(&mut self, at: Duration, claim: &Value, gone: bool) {
        let registered = !text(claim, "/status/nodeName").is_empty();
        if !registered
            || !(gone || object::is_deleting(claim))
            || !self.removed.insert(object::uid(claim).to_owned())
        {
            return;
        }
        let reason = self.reason(claim);
        let pool = object::label(claim, label::NODE_POOL).unwrap_or_default().to_owned();
        self.recording.removals.push(Removal { at, pool, reason });
    }

    fn reason(&self, claim: &Value) -> String {
        let conditions = object::list(claim, "/status/conditions").iter();
        let mut disrupted =
            conditions.filter(|one| one["type"] == "DisruptionReason" && one["status"] == "True");
        if let Some(reason) = disrupted.next().and_then(|one| one["reason"].as_str()) {
            return reason.to_owned();
        }
        let id = text(claim, "/status/providerID").rsplit('/').next().unwrap_or_default();
        if self.ended.contains(id) {
            return "Interrupted".to_owned();
        }
        let created = object::time(claim, "/metadata/creationTimestamp");
        let expires = text(claim, "/spec/expireAfter").parse::<jiff::SignedDuration>().ok();
        let expired = created.zip(expires).is_some_and(|(created, after)| {
            let deleted = object::time(claim, "/metadata/deletionTimestamp").unwrap_or(Timestamp::MAX);
            created.saturating_add(after).is_ok_and(|end| end <= deleted)
        });
        if expired { "Expired" } else { "Other" }.to_owned()
    }

    /// Takes a picture of all nodes and pods, and of all instances with what each costs an hour; keeps it when it differs from
    /// the one before.
    pub fn picture<'a>(
        &mut self,
        at: Duration,
        nodes: impl IntoIterator<Item = &'a Value>,
        pods: impl IntoIterator<Item = &'a Value>,
        instances: impl IntoIterator<Item = (InstanceState, Price)>,
    ) {
        let facts: BTreeMap<&str, NodeFact> =
            nodes.into_iter().filter_map(|node| Some((object::name(node), fact(node)?))).collect();
        let mut counted = BTreeMap::new();
        for pod in pods.into_iter().filter(|pod| !object::is_deleting(pod) && !has_ended(pod)) {
            let running = text(pod, "/status/phase") == "Running";
            let node = facts.get(text(pod, "/spec/nodeName")).cloned();
            let namespace = object::namespace(pod).to_owned();
            *counted.entry(PodFact { namespace, workload: workload(pod), running, node }).or_default() += 1;
        }
        let mut nodes: Vec<NodeFact> = facts.into_values().collect();
        nodes.sort();
        let paid = |state| matches!(state, InstanceState::Pending | InstanceState::Running);
        let per_hour = instances.into_iter().filter(|(state, _)| paid(*state)).map(|(_, price)| price).sum();
        let picture = Picture { at, per_hour, nodes, pods: counted };
        let last = self.recording.pictures.last();
        if last.is_none_or(|last| Picture { at, ..last.clone() } != picture) {
            self.recording.pictures.push(picture);
        }
    }

    /// Ends the recording: pods that still wait have waited until `now`, and the run took `took`.
    pub fn finish(mut self, took: Duration, now: Timestamp) -> Recording {
        for wait in self.recording.waits.values_mut().filter(|wait| wait.ended == Timestamp::MAX) {
            wait.ended = now;
        }
        self.recording.took = took;
        self.recording
    }
}

/// Returns whether a pod has run to its end: it neither runs nor waits.
fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
}

/// Returns the facts about a node that expectations may ask for; `None` for one without a pool.
fn fact(node: &Value) -> Option<NodeFact> {
    let of = |key: &str| object::label(node, key).unwrap_or_default().to_owned();
    Some(NodeFact {
        pool: object::label(node, label::NODE_POOL)?.to_owned(),
        zone: of(label::ZONE),
        instance_type: of(label::INSTANCE_TYPE),
        capacity_type: of(label::CAPACITY_TYPE),
        arch: of(label::ARCH),
    })
}

fn owner_kind(pod: &Value) -> &str {
    object::controller(pod).map(|owner| text(owner, "/kind")).unwrap_or_default()
}

/// The Deployment, DaemonSet or other owner of a pod, or its own name.
fn workload(pod: &Value) -> String {
    let Some(owner) = object::controller(pod) else { return object::name(pod).to_owned() };
    let name = text(owner, "/name");
    // A ReplicaSet has the name of its Deployment and the hash of its template.
    let deployment = (text(owner, "/kind") == "ReplicaSet").then(|| name.rsplit_once('-')).flatten();
    deployment.map_or(name, |(deployment, _)| deployment).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_have_ended_neither_run_nor_wait() {
        let pod =
            |phase: &str| json!({"metadata": {"name": phase, "namespace": "a"}, "status": {"phase": phase}});
        let pods = ["Pending", "Running", "Succeeded", "Failed"].map(pod);
        let mut recorder = Recorder::default();
        recorder.picture(Duration::ZERO, [], &pods, []);
        let recording = recorder.finish(Duration::ZERO, Timestamp::UNIX_EPOCH);
        let counted = recording.pictures[0].pods.iter().map(|(pod, count)| (pod.running, *count));
        assert_eq!(counted.collect::<BTreeMap<_, _>>(), [(false, 1), (true, 1)].into());
    }
}
