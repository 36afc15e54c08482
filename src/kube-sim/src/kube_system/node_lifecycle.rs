//! The life cycle of nodes: taints that follow conditions, and nodes whose heartbeat stays away.
//!
//! Only nodes that have had a Lease can be silent; a Node made by hand is believed. A Lease that is collected with its Node is
//! remembered where the Node is there again: its kubelet may end before it makes another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    StandIn,
    cluster::Cluster,
    unread::{Cursor, Unread},
};
use crate::apiserver::{
    object::{self, list, text},
    store::{ChangeKind, Part},
};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(super) struct NodeLifecycle {
    grace: SignedDuration,
    nodes: Cursor,
    leases: Cursor,
    /// Time of the last heartbeat of each node.
    beats: BTreeMap<String, Timestamp>,
    in_order: BTreeSet<(Timestamp, String)>,
}

impl NodeLifecycle {
    pub(super) fn new(grace: Duration) -> Self {
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        let (nodes, leases) = (Cursor::default(), Cursor::default());
        Self { grace, nodes, leases, beats: BTreeMap::new(), in_order: BTreeSet::new() }
    }

    /// Reads heartbeats.
    fn listen(&mut self, cluster: &Cluster<'_>) {
        match self.leases.news(cluster.server, "coordination.k8s.io", "leases") {
            Unread::Changes(changes) => {
                for change in changes.iter().filter(|change| change.kind != ChangeKind::Deleted) {
                    self.heard(&change.object);
                }
            }
            Unread::All(leases) => {
                (self.beats, self.in_order) = (BTreeMap::new(), BTreeSet::new());
                for lease in &leases {
                    self.heard(lease);
                }
            }
        }
    }

    fn heard(&mut self, lease: &Value) {
        if object::namespace(lease) != "kube-node-lease" {
            return;
        }
        let name = object::name(lease);
        self.forget(name);
        if let Some(at) = object::time(lease, "/spec/renewTime") {
            self.beats.insert(name.to_owned(), at);
            self.in_order.insert((at, name.to_owned()));
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(before) = self.beats.remove(name) {
            self.in_order.remove(&(before, name.to_owned()));
        }
    }

    fn is_silent(&self, name: &str, now: Timestamp) -> bool {
        self.beats.get(name).is_some_and(|last| now.duration_since(*last) > self.grace)
    }
}

impl StandIn for NodeLifecycle {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("", "nodes")]
    }

    fn watches_time(&self) -> bool {
        true
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        self.listen(cluster);
        let mut names: BTreeSet<String> = match self.nodes.news(cluster.server, "", "nodes") {
            Unread::Changes(changes) => {
                changes.iter().map(|change| object::name(&change.object).to_owned()).collect()
            }
            Unread::All(nodes) => nodes.iter().map(|node| object::name(node).to_owned()).collect(),
        };
        let silent = self.in_order.iter().take_while(|(at, _)| cluster.now.duration_since(*at) > self.grace);
        names.extend(silent.map(|(_, name)| name.clone()));
        for name in names {
            let silent = self.is_silent(&name, cluster.now);
            let Some(node) = cluster.node(&name) else {
                if silent {
                    self.forget(&name);
                }
                continue;
            };
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
