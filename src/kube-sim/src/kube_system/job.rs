//! Jobs: pods until a wanted number of them have succeeded. Pods end as the kubelet says; finished Jobs stay. What has ended
//! counts on when its pod is gone, with its node say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    StandIn,
    cluster::Cluster,
    pod::Pod,
    template::{count, number, pod},
};
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

fn step(cluster: &Cluster<'_>, job: &Value, pods: &[Arc<Pod>], ended: &Ended) {
    let (succeeded, failed) = (count(ended.succeeded.iter()), count(ended.failed.iter()));
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.is_active()).collect();
    let outcome = if succeeded >= number(job, "/spec/completions") {
        Some("Complete")
    } else if failed > number(job, "/spec/backoffLimit") {
        Some("Failed")
    } else {
        None
    };
    let idle = outcome.is_some() || job["spec"]["suspend"] == true || object::is_deleting(job);
    let left = number(job, "/spec/completions") - succeeded;
    let wanted = if idle { 0 } else { left.min(number(job, "/spec/parallelism")) };
    let running = count(active.iter());
    for _ in running..wanted {
        cluster.create("", "pods", object::namespace(job), pod(job, "Job"));
    }
    let surplus = usize::try_from(running - wanted).unwrap_or(0);
    for pod in active.into_iter().rev().take(surplus) {
        cluster.delete("", "pods", &pod.object);
    }
    let conditions: Vec<Value> =
        outcome.into_iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
    let status =
        json!({"active": running, "succeeded": succeeded, "failed": failed, "conditions": conditions});
    cluster.report("batch", "jobs", job, &status);
}
