//! Daemon sets: one pod for every node that may run it, bound by the scheduler through node affinity. Updates of the
//! template do not roll.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    StandIn,
    cluster::Cluster,
    scheduler::{node_selector_admits, tolerates},
    template::{self, controls, count, is_active, is_ready, number},
};
use crate::apiserver::object::{self, list, text};

/// Taints every daemon pod tolerates.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

pub(super) struct DaemonSets;

impl StandIn for DaemonSets {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("apps", "daemonsets"), ("", "nodes"), ("", "pods")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        let sets = cluster.list("apps", "daemonsets");
        if sets.is_empty() {
            return;
        }
        let nodes = cluster.list("", "nodes");
        let pods = cluster.list("", "pods");
        for set in sets {
            let own: Vec<_> = pods.iter().filter(|pod| controls(&set, pod)).collect();
            if !object::is_deleting(&set) {
                populate(cluster, &set, &nodes, &own);
            }
            report(cluster, &set, &nodes, &own);
        }
    }
}

fn populate(cluster: &Cluster<'_>, set: &Value, nodes: &[Arc<Value>], own: &[&Arc<Value>]) {
    let model = pod_for(set, "");
    let mut by_node: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
    for pod in own {
        by_node.entry(node_of(pod)).or_default().push(pod);
    }
    for node in nodes.iter().filter(|node| !object::is_deleting(node)) {
        let present = by_node.remove(object::name(node)).unwrap_or_default();
        if should_run(&model, node) {
            let (active, ended): (Vec<&Arc<Value>>, Vec<&Arc<Value>>) =
                present.iter().partition(|pod| is_active(pod));
            for pod in ended
                .into_iter()
                .filter(|pod| !object::is_deleting(pod))
                .chain(active.iter().skip(1).copied())
            {
                cluster.delete("", "pods", pod);
            }
            if present.iter().all(|pod| !is_active(pod) && !object::is_deleting(pod)) {
                let pod = pod_for(set, object::name(node));
                cluster.create("", "pods", object::namespace(set), pod);
            }
        } else if must_leave(&model, node) {
            present.iter().filter(|pod| is_active(pod)).for_each(|pod| {
                cluster.delete("", "pods", pod);
            });
        }
    }
    // Remaining pods are meant for nodes that are gone; bound pods go with the garbage of their node.
    for pod in by_node.into_values().flatten().filter(|pod| text(pod, "/spec/nodeName").is_empty()) {
        cluster.delete("", "pods", pod);
    }
}

/// The node a daemon pod is bound to, or meant for.
fn node_of(pod: &Value) -> &str {
    let bound = text(pod, "/spec/nodeName");
    let terms =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let meant = || text(pod, &format!("{terms}/0/matchFields/0/values/0"));
    if bound.is_empty() { meant() } else { bound }
}

fn should_run(model: &Value, node: &Value) -> bool {
    node_selector_admits(model, node) && untolerated(model, node, &["NoSchedule", "NoExecute"]).is_none()
}

fn must_leave(model: &Value, node: &Value) -> bool {
    !node_selector_admits(model, node) || untolerated(model, node, &["NoExecute"]).is_some()
}

fn untolerated<'a>(model: &Value, node: &'a Value, effects: &[&str]) -> Option<&'a Value> {
    let tolerations = list(model, "/spec/tolerations");
    list(node, "/spec/taints")
        .iter()
        .filter(|taint| effects.contains(&text(taint, "/effect")))
        .find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// A pod of the set; pinned to `node` unless that is empty.
fn pod_for(set: &Value, node: &str) -> Value {
    let mut pod = template::pod(set, "DaemonSet");
    let spec = object::map_mut(&mut pod, "spec");
    object::default_to(spec, "tolerations", json!([]));
    if let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
        tolerations.extend(
            TOLERATED.map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect})),
        );
    }
    if !node.is_empty() {
        pin(&mut pod, node);
    }
    pod
}

fn pin(pod: &mut Value, node: &str) {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let affinity = object::map_mut(&mut pod["spec"], "affinity");
    object::default_to(affinity, "nodeAffinity", json!({}));
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
}

fn report(cluster: &Cluster<'_>, set: &Value, nodes: &[Arc<Value>], own: &[&Arc<Value>]) {
    let model = pod_for(set, "");
    let desired = count(nodes.iter().filter(|node| should_run(&model, node)));
    let current = count(own.iter().filter(|pod| is_active(pod)));
    let ready = count(own.iter().filter(|pod| is_active(pod) && is_ready(pod)));
    let status = json!({
        "desiredNumberScheduled": desired, "currentNumberScheduled": current, "updatedNumberScheduled": current,
        "numberReady": ready, "numberAvailable": ready, "numberMisscheduled": 0,
        "observedGeneration": number(set, "/metadata/generation"),
    });
    cluster.report("apps", "daemonsets", set, &status);
}
