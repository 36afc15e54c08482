//! Stateful sets: pods with numbers, each with claims of its own that outlive it. One that is deleted comes again under its
//! name. Updates of the template do not roll.

use std::{collections::BTreeMap, sync::Arc};

use karpenter_api::convert::{labels_of_pod, mount_claims};
use serde_json::{Value, json};

use super::{
    StandIn,
    cluster::Cluster,
    pod::Pod,
    template::{self, count, number},
};
use crate::apiserver::object::{self, text};

pub(super) struct StatefulSets;

impl StandIn for StatefulSets {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("apps", "statefulsets"), ("", "pods")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        for set in cluster.list("apps", "statefulsets") {
            let owned = cluster.pods.of_owner(object::uid(&set));
            let pods: BTreeMap<i64, Arc<Pod>> =
                owned.filter_map(|pod| Some((ordinal(&set, &pod.object)?, Arc::clone(pod)))).collect();
            if !object::is_deleting(&set) {
                scale(cluster, &set, &pods);
            }
            report(cluster, &set, &pods);
        }
    }
}

/// The number of a pod of the set.
fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    object::name(pod).strip_prefix(object::name(set))?.strip_prefix('-')?.parse().ok()
}

/// One step for a set that minds the order; else all that is to be done.
fn scale(cluster: &Cluster<'_>, set: &Value, pods: &BTreeMap<i64, Arc<Pod>>) {
    let ordered = text(set, "/spec/podManagementPolicy") != "Parallel";
    let first = number(set, "/spec/ordinals/start");
    let wanted = first + number(set, "/spec/replicas");
    for number in first..wanted {
        match pods.get(&number) {
            None => {
                create(cluster, set, number);
            }
            Some(pod) if pod.ended && !pod.deleting => {
                cluster.delete("", "pods", &pod.object);
            }
            Some(pod) if pod.ready && !pod.deleting => continue,
            Some(_) => {}
        }
        if ordered {
            return;
        }
    }
    let surplus = pods.range(..first).chain(pods.range(wanted..));
    for pod in surplus.rev().map(|(_, pod)| pod) {
        if !pod.deleting {
            cluster.delete("", "pods", &pod.object);
        }
        if ordered {
            return;
        }
    }
}

fn create(cluster: &Cluster<'_>, set: &Value, number: i64) {
    let (name, namespace) = (format!("{}-{number}", object::name(set)), object::namespace(set));
    let mut pod = template::pod(set, "StatefulSet");
    for claim in mount_claims(set, namespace, &name, &mut pod) {
        // One of an earlier pod of this name is used again.
        let _there_already = cluster.create("", "persistentvolumeclaims", namespace, claim);
    }
    pod["spec"]["hostname"] = json!(name);
    let metadata = object::map_mut(&mut pod, "metadata");
    metadata.remove("generateName");
    metadata.insert("name".to_owned(), json!(name));
    let labels = object::map_mut(&mut pod["metadata"], "labels");
    let number = u64::try_from(number).unwrap_or_default();
    for (key, value) in labels_of_pod("StatefulSet", set, &name, number) {
        labels.insert(key.to_owned(), json!(value));
    }
    cluster.create("", "pods", namespace, pod);
}

fn report(cluster: &Cluster<'_>, set: &Value, pods: &BTreeMap<i64, Arc<Pod>>) {
    let active = || pods.values().filter(|pod| pod.is_active());
    let (replicas, ready) = (count(active()), count(active().filter(|pod| pod.ready)));
    let status = json!({
        "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready, "currentReplicas": replicas,
        "updatedReplicas": replicas, "observedGeneration": number(set, "/metadata/generation"),
    });
    cluster.report("apps", "statefulsets", set, &status);
}
