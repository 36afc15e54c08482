//! Pods that do not tolerate a `NoExecute` taint of their node are deleted, at once or when their patience ends.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    StandIn,
    cluster::Cluster,
    scheduler::tolerates,
    unread::{Cursor, Unread},
};
use crate::apiserver::{
    object::{self, list},
    store::ChangeKind,
};

/// Remembers which nodes have such taints, and since when a taint has been seen, for taints that do not say.
#[derive(Default)]
pub(super) struct TaintEviction {
    cursor: Cursor,
    tainted: BTreeMap<String, Tainted>,
}

/// A node with such taints.
struct Tainted {
    uid: String,
    /// Taints, each with the time from which patience counts.
    taints: Vec<(Value, Timestamp)>,
}

impl StandIn for TaintEviction {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("", "nodes"), ("", "pods")]
    }

    fn watches_time(&self) -> bool {
        true
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        match self.cursor.news(cluster.server, "", "nodes") {
            Unread::Changes(changes) => {
                for change in changes {
                    self.note(&change.object, change.kind != ChangeKind::Deleted, cluster.now);
                }
            }
            Unread::All(nodes) => {
                let there: BTreeSet<&str> = nodes.iter().map(|node| object::name(node)).collect();
                self.tainted.retain(|name, _| there.contains(name.as_str()));
                for node in &nodes {
                    self.note(node, true, cluster.now);
                }
            }
        }
        for (name, Tainted { taints, .. }) in &self.tainted {
            for pod in cluster.pods.on_node(name).filter(|pod| !pod.deleting) {
                if taints.iter().any(|(taint, since)| must_go(&pod.object, taint, *since, cluster.now)) {
                    cluster.delete("", "pods", &pod.object);
                }
            }
        }
    }
}

impl TaintEviction {
    fn note(&mut self, node: &Value, there: bool, now: Timestamp) {
        let before = self.tainted.remove(object::name(node));
        let before = before.filter(|before| before.uid == object::uid(node));
        let first = |taint: &Value| {
            let mut known = before.iter().flat_map(|before| &before.taints);
            let known = known.find(|(known, _)| known["key"] == taint["key"]).map(|(_, since)| *since);
            object::time(taint, "/timeAdded").or(known).unwrap_or(now)
        };
        let taints = list(node, "/spec/taints").iter().filter(|taint| taint["effect"] == "NoExecute");
        let taints: Vec<_> = taints.map(|taint| (taint.clone(), first(taint))).collect();
        if there && !taints.is_empty() {
            let uid = object::uid(node).to_owned();
            self.tainted.insert(object::name(node).to_owned(), Tainted { uid, taints });
        }
    }
}

fn must_go(pod: &Value, taint: &Value, since: Timestamp, now: Timestamp) -> bool {
    let tolerations: Vec<&Value> =
        list(pod, "/spec/tolerations").iter().filter(|toleration| tolerates(toleration, taint)).collect();
    let patience = tolerations.iter().filter_map(|t| t["tolerationSeconds"].as_i64()).min();
    match patience {
        None => tolerations.is_empty(),
        Some(seconds) => now.duration_since(since) >= SignedDuration::from_secs(seconds),
    }
}
