//! Replica sets: as many pods as wanted. Pods are not adopted by label.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    StandIn,
    cluster::Cluster,
    pod::Pod,
    template::{count, number, pod},
};
use crate::apiserver::object::{self, text};

/// Remembers which sets nothing is left to do for, until they or their pods change.
#[derive(Default)]
pub(super) struct ReplicaSets {
    /// Revisions by uid.
    settled: BTreeMap<String, u64>,
}

impl StandIn for ReplicaSets {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("apps", "replicasets"), ("", "pods")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        let touched = cluster.pods.take_touched_owners();
        let mut settled = std::mem::take(&mut self.settled);
        for set in cluster.list("apps", "replicasets") {
            let (uid, revision) = (object::uid(&set), object::revision(&set));
            let before = settled.remove(uid);
            if before != Some(revision) || touched.contains(uid) {
                let owned = cluster.pods.of_owner(uid).filter(|pod| pod.is_active());
                let pods: Vec<Arc<Pod>> = owned.cloned().collect();
                let done = object::is_deleting(&set) || scale(cluster, &set, &pods);
                report(cluster, &set, &pods);
                // Refused pods are tried again with every change of any set or pod.
                if !done {
                    continue;
                }
            }
            self.settled.insert(uid.to_owned(), revision);
        }
    }
}

/// Creates and deletes pods; `false` when some of that was refused.
fn scale(cluster: &Cluster<'_>, set: &Value, pods: &[Arc<Pod>]) -> bool {
    let missing = number(set, "/spec/replicas") - count(pods.iter());
    for _ in 0..missing {
        if !cluster.create("", "pods", object::namespace(set), pod(set, "ReplicaSet")) {
            return false;
        }
    }
    let surplus = usize::try_from(-missing).unwrap_or(0);
    if surplus == 0 {
        return true;
    }
    let mut doomed: Vec<&Arc<Pod>> = pods.iter().collect();
    doomed.sort_by_cached_key(|pod| worth(pod));
    let deleted = doomed.into_iter().take(surplus).map(|pod| cluster.delete("", "pods", &pod.object));
    // Each is deleted, whatever the one before it said.
    deleted.filter(|deleted| !deleted).count() == 0
}

/// Least first: unbound, not running, not ready, cheap to delete, young.
fn worth(pod: &Pod) -> (bool, bool, bool, i64, std::cmp::Reverse<String>) {
    let object = &pod.object;
    let annotations = &object["metadata"]["annotations"];
    let cost = annotations.get("controller.kubernetes.io/pod-deletion-cost").and_then(Value::as_str);
    (
        !text(object, "/spec/nodeName").is_empty(),
        text(object, "/status/phase") == "Running",
        pod.ready,
        cost.and_then(|c| c.parse().ok()).unwrap_or(0),
        std::cmp::Reverse(text(object, "/metadata/creationTimestamp").to_owned()),
    )
}

fn report(cluster: &Cluster<'_>, set: &Value, pods: &[Arc<Pod>]) {
    let replicas = count(pods.iter());
    let ready = count(pods.iter().filter(|pod| pod.ready));
    let status = json!({
        "replicas": replicas, "fullyLabeledReplicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
        "observedGeneration": number(set, "/metadata/generation"),
    });
    cluster.report("apps", "replicasets", set, &status);
}
