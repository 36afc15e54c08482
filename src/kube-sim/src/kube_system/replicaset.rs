//! Replica sets: as many pods as wanted. Pods are not adopted by label.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    StandIn,
    cluster::Cluster,
    template::{count, is_active, is_ready, number, pod},
};
use crate::apiserver::object::{self, text};

pub(super) struct ReplicaSets;

impl StandIn for ReplicaSets {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("apps", "replicasets"), ("", "pods")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        for set in cluster.list("apps", "replicasets") {
            let owned = cluster.pods.of_owner(object::uid(&set)).filter(|pod| is_active(pod));
            let pods: Vec<Arc<Value>> = owned.cloned().collect();
            if !object::is_deleting(&set) {
                scale(cluster, &set, &pods);
            }
            report(cluster, &set, &pods);
        }
    }
}

fn scale(cluster: &Cluster<'_>, set: &Value, pods: &[Arc<Value>]) {
    let missing = number(set, "/spec/replicas") - count(pods.iter());
    for _ in 0..missing {
        if !cluster.create("", "pods", object::namespace(set), pod(set, "ReplicaSet")) {
            return;
        }
    }
    let surplus = usize::try_from(-missing).unwrap_or(0);
    if surplus == 0 {
        return;
    }
    let mut doomed: Vec<&Arc<Value>> = pods.iter().collect();
    doomed.sort_by_cached_key(|pod| worth(pod));
    for pod in doomed.into_iter().take(surplus) {
        cluster.delete("", "pods", pod);
    }
}

/// Least first: unbound, not running, not ready, cheap to delete, young.
fn worth(pod: &Value) -> (bool, bool, bool, i64, std::cmp::Reverse<String>) {
    let annotations = &pod["metadata"]["annotations"];
    let cost = annotations.get("controller.kubernetes.io/pod-deletion-cost").and_then(Value::as_str);
    (
        !text(pod, "/spec/nodeName").is_empty(),
        text(pod, "/status/phase") == "Running",
        is_ready(pod),
        cost.and_then(|c| c.parse().ok()).unwrap_or(0),
        std::cmp::Reverse(text(pod, "/metadata/creationTimestamp").to_owned()),
    )
}

fn report(cluster: &Cluster<'_>, set: &Value, pods: &[Arc<Value>]) {
    let replicas = count(pods.iter());
    let ready = count(pods.iter().filter(|pod| is_ready(pod)));
    let status = json!({
        "replicas": replicas, "fullyLabeledReplicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
        "observedGeneration": number(set, "/metadata/generation"),
    });
    cluster.report("apps", "replicasets", set, &status);
}
