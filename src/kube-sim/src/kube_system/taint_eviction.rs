//! Pods that do not tolerate a `NoExecute` taint of their node are deleted, at once or when their patience ends.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{StandIn, cluster::Cluster, scheduler::tolerates};
use crate::apiserver::object::{self, list, text};

/// Remembers since when a taint has been seen on a node, for taints that do not say.
#[derive(Default)]
pub(super) struct TaintEviction {
    seen: BTreeMap<(String, String), Timestamp>,
}

impl StandIn for TaintEviction {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("", "nodes"), ("", "pods")]
    }

    fn watches_time(&self) -> bool {
        true
    }

    fn pass(&mut self, cluster: &Cluster<'_>) {
        let nodes = cluster.list("", "nodes");
        let mut tainted: BTreeMap<&str, Vec<(&Value, Timestamp)>> = BTreeMap::new();
        let mut seen = BTreeMap::new();
        for node in &nodes {
            for taint in list(node, "/spec/taints").iter().filter(|t| t["effect"] == "NoExecute") {
                let name = (object::uid(node).to_owned(), text(taint, "/key").to_owned());
                let first = self.seen.get(&name).copied().unwrap_or(cluster.now);
                seen.insert(name, first);
                let since = object::time(taint, "/timeAdded").unwrap_or(first);
                tainted.entry(object::name(node)).or_default().push((taint, since));
            }
        }
        self.seen = seen;
        if tainted.is_empty() {
            return;
        }
        for pod in cluster.list("", "pods").iter().filter(|pod| !object::is_deleting(pod)) {
            let taints = tainted.get(text(pod, "/spec/nodeName")).map(Vec::as_slice).unwrap_or_default();
            if taints.iter().any(|(taint, since)| must_go(pod, taint, *since, cluster.now)) {
                cluster.delete("", "pods", pod);
            }
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
