//! Jobs: pods until a wanted number of them have succeeded. Pods end as the kubelet says; finished Jobs stay. What has ended
//! counts on when its pod is gone, with its node say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::convert::{JobPods, labels_of_pod};
use karpenter_model::names::label::JOB_COMPLETION_INDEX;
use serde_json::{Value, json};

use super::{StandIn, cluster::Cluster, pod::Pod, template::pod};
use crate::apiserver::object::{self, text};

/// The pods that have ended, by the uid of their Job.
#[derive(Default)]
pub(super) struct Jobs(BTreeMap<String, Ended>);

/// Uids of pods, by how they ended.
#[derive(Default)]
struct Ended {
    succeeded: BTreeSet<String>,
    failed: BTreeSet<String>,
}

impl StandIn for Jobs {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("batch", "jobs"), ("", "pods")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        for job in cluster.list("batch", "jobs") {
            let pods: Vec<Arc<Pod>> = cluster.pods.of_owner(object::uid(&job)).cloned().collect();
            let ended = self.0.entry(object::uid(&job).to_owned()).or_default();
            ended.learn(&pods);
            step(cluster, &job, &pods, ended);
        }
    }
}

impl Ended {
    fn learn(&mut self, pods: &[Arc<Pod>]) {
        for pod in pods {
            let uid = || object::uid(&pod.object).to_owned();
            match text(&pod.object, "/status/phase") {
                "Succeeded" => drop(self.succeeded.insert(uid())),
                "Failed" => drop(self.failed.insert(uid())),
                _ => {}
            }
        }
    }
}

/// A pod with this index, as long as the Job gives its pods any.
fn pod_of(job: &Value, number: u64) -> Value {
    let mut pod = pod(job, "Job");
    let labels = object::map_mut(&mut pod["metadata"], "labels");
    labels.extend(
        labels_of_pod("Job", job, "", number).into_iter().map(|(key, of)| (key.to_owned(), json!(of))),
    );
    pod
}

fn step(cluster: &Cluster<'_>, job: &Value, pods: &[Arc<Pod>], ended: &Ended) {
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.is_active()).collect();
    let so_far = JobPods {
        running: active.len() as u64,
        succeeded: ended.succeeded.len() as u64,
        failed: ended.failed.len() as u64,
    };
    let wanted = if object::is_deleting(job) { 0 } else { so_far.wanted(job) };
    let of_index = |pod: &&Arc<Pod>| pod.is_active() || text(&pod.object, "/status/phase") == "Succeeded";
    let index = |pod: &Arc<Pod>| object::label(&pod.object, JOB_COMPLETION_INDEX)?.parse().ok();
    let taken: BTreeSet<u64> = pods.iter().filter(of_index).filter_map(index).collect();
    let free = (0..).filter(|number| !taken.contains(number));
    for (_, number) in (so_far.running..wanted).zip(free) {
        cluster.create("", "pods", object::namespace(job), pod_of(job, number));
    }
    let surplus = usize::try_from(so_far.running.saturating_sub(wanted)).unwrap_or(0);
    for pod in active.into_iter().rev().take(surplus) {
        cluster.delete("", "pods", &pod.object);
    }
    let outcome = so_far.outcome(job).into_iter();
    let conditions: Vec<Value> = outcome.map(|kind| json!({"type": kind, "status": "True"})).collect();
    let JobPods { running, succeeded, failed } = so_far;
    let status =
        json!({"active": running, "succeeded": succeeded, "failed": failed, "conditions": conditions});
    cluster.report("batch", "jobs", job, &status);
}
