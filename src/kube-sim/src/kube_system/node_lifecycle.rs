//! The life cycle of nodes: taints that follow conditions, and nodes whose heartbeat stays away.
//!
//! Only nodes with a Lease can be silent; a Node made by hand is believed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{StandIn, cluster::Cluster};
use crate::apiserver::{
    object::{self, list, text},
    store::Part,
};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(super) struct NodeLifecycle {
    grace: SignedDuration,
}

impl NodeLifecycle {
    pub(super) fn new(grace: Duration) -> Self {
        Self { grace: SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX) }
    }
}

impl StandIn for NodeLifecycle {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("", "nodes")]
    }

    fn watches_time(&self) -> bool {
        true
    }

    fn pass(&mut self, cluster: &Cluster<'_>) {
        let beats: BTreeMap<String, Timestamp> = cluster
            .list("coordination.k8s.io", "leases")
            .iter()
            .filter(|lease| object::namespace(lease) == "kube-node-lease")
            .filter_map(|lease| {
                Some((object::name(lease).to_owned(), object::time(lease, "/spec/renewTime")?))
            })
            .collect();
        for node in cluster.list("", "nodes") {
            let last = beats.get(object::name(&node));
            let silent = last.is_some_and(|last| cluster.now.duration_since(*last) > self.grace);
            if silent && object::condition(&node, "Ready") != Some("Unknown") {
                declare_unknown(cluster, &node);
            } else {
                keep_taints(cluster, &node);
            }
        }
    }
}

fn declare_unknown(cluster: &Cluster<'_>, node: &Arc<Value>) {
    let mut conditions = list(node, "/status/conditions").to_vec();
    for condition in &mut conditions {
        condition["status"] = json!("Unknown");
        condition["reason"] = json!("NodeStatusUnknown");
        condition["message"] = json!("Kubelet stopped posting node status.");
        condition["lastTransitionTime"] = json!(cluster.timestamp());
    }
    cluster.patch("", "nodes", node, Part::Status, json!({"status": {"conditions": conditions}}));
}

fn keep_taints(cluster: &Cluster<'_>, node: &Value) {
    let cordoned = node["spec"]["unschedulable"] == true;
    let ready = object::condition(node, "Ready");
    // Nodes made by hand often have no conditions at all; they are left as they are.
    let (not_ready, unreachable) = (ready == Some("False"), ready == Some("Unknown"));
    let wanted = [
        (NOT_READY, "NoSchedule", not_ready),
        (NOT_READY, "NoExecute", not_ready),
        (UNREACHABLE, "NoSchedule", unreachable),
        (UNREACHABLE, "NoExecute", unreachable),
        (UNSCHEDULABLE, "NoSchedule", cordoned),
    ];
    let before = list(node, "/spec/taints");
    let mut after = before.to_vec();
    for (key, effect, present) in wanted {
        let is_it = |taint: &Value| text(taint, "/key") == key && text(taint, "/effect") == effect;
        let has = after.iter().any(is_it);
        if present && !has {
            after.push(json!({"key": key, "effect": effect, "timeAdded": cluster.timestamp()}));
        } else if !present && has && (ready.is_some() || key == UNSCHEDULABLE) {
            after.retain(|taint| !is_it(taint));
        }
    }
    if after != before {
        let change = json!({
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": after},
        });
        cluster.patch("", "nodes", node, Part::Main, change);
    }
}
