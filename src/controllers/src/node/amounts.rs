//! Publishes what each Node offers and what is asked of it (spec scheduling 30), read off the cluster when it is asked
//! for.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::resources;
use karpenter_model::{LabelKey, Node, Quantity, Resources, Snapshot};
use karpenter_telemetry::metrics::{Collecting, Family, Metrics};

use crate::Context;
use crate::publish::{resource_type, seconds, units, word};

/// Publishes for as long as what is returned is held.
pub(crate) fn collect(context: &Context) -> Vec<Collecting> {
    let keys = by_name(&context.view.registry().well_known);
    let frozen = context.clone();
    collect_from(&context.metrics, keys, Arc::new(move || frozen.snapshot()))
}

/// The cluster as it is now, once it is known.
type Cluster = Arc<dyn Fn() -> Option<Snapshot> + Send + Sync>;

fn collect_from(metrics: &Metrics, keys: Keys, cluster: Cluster) -> Vec<Collecting> {
    let families = metrics.node_families(&keys.keys().cloned().collect::<Vec<_>>());
    let keys = Arc::new(keys);
    let amounts = |family: &Family, of: fn(&Node) -> Resources| {
        let (cluster, keys) = (Arc::clone(&cluster), Arc::clone(&keys));
        family.collect(move |lines| {
            let Some(snapshot) = cluster() else { return };
            for node in named(&snapshot) {
                let labels = labels(&keys, node);
                for (resource, quantity) in of(node).iter() {
                    let resource = resource_type(resource);
                    lines.gauge(&[labels.as_slice(), &[resource.as_str()]].concat(), units(*quantity));
                }
            }
        })
    };
    let mut all = vec![
        amounts(&families.allocatable, Node::effective_allocatable),
        amounts(&families.total_pod_requests, Node::requested),
        amounts(&families.total_pod_limits, Node::limited),
        amounts(&families.total_daemon_requests, Node::daemon_requested),
        amounts(&families.total_daemon_limits, Node::daemon_limited),
        amounts(&families.system_overhead, |node| {
            node.effective_capacity().subtract(&node.effective_allocatable())
        }),
    ];
    let known = Arc::clone(&cluster);
    all.push(families.current_lifetime_seconds.collect(move |lines| {
        let Some(snapshot) = known() else { return };
        for node in named(&snapshot) {
            lines.gauge(&labels(&keys, node), seconds(node.created_at, snapshot.now));
        }
    }));
    all.push(metrics.nodes.utilization_percent.collect(move |series| {
        let Some(snapshot) = cluster() else { return };
        let (mut asked, mut there) = (Resources::new(), Resources::new());
        for node in named(&snapshot) {
            asked.add(&node.requested());
            there.add(&node.effective_allocatable());
        }
        for resource in [resources::CPU, resources::MEMORY] {
            series([resource], percent(asked.amount(resource), there.amount(resource)));
        }
    }));
    all
}

/// The machines that have a Node.
fn named(snapshot: &Snapshot) -> impl Iterator<Item = &Node> {
    snapshot.nodes.iter().map(AsRef::as_ref).filter(|node| node.name.is_some())
}

/// The share of what is `there` that is `asked` for, in percent.
fn percent(asked: Quantity, there: Quantity) -> f64 {
    if there == Quantity::ZERO { 0.0 } else { units(asked) / units(there) * 100.0 }
}

/// Values of the well-known labels, then name, phase (which Kubernetes no longer fills) and whether it is ours.
fn labels<'a>(keys: &Keys, node: &'a Node) -> Vec<&'a str> {
    let known = node.effective_labels();
    let values = keys.values().map(|key| known.get(key).map_or("", |value| value.as_str()));
    values.chain([node.display_name(), "", word(node.is_managed())]).collect()
}

/// Well-known labels by the part after the domain, as a Prometheus label.
type Keys = BTreeMap<String, LabelKey>;

/// Returns the keys by name. The last of keys that differ only in their domain counts: a label name cannot be there twice.
fn by_name<'a>(keys: impl IntoIterator<Item = &'a LabelKey>) -> Keys {
    let name = |key: &LabelKey| {
        let suffix = key.as_str().rsplit('/').next().unwrap_or_default();
        suffix.replace(['-', '.'], "_")
    };
    keys.into_iter().map(|key| (name(key), key.clone())).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn a_node_is_labelled_with_what_is_well_known_about_it() {
        let metrics = Metrics::new();
        let mut node = Node::new("n".into(), Timestamp::UNIX_EPOCH);
        node.name = Some("n".into());
        node.labels = [("topology.kubernetes.io/zone".into(), "a".into())].into();
        node.capacity = Resources::new().with("cpu", Quantity::from_millis(2000));
        node.allocatable = Resources::new().with("cpu", Quantity::from_millis(1500));
        let keys = by_name(&["topology.example.com/zone".into(), "topology.kubernetes.io/zone".into()]);
        let cluster = Arc::new(Mutex::new(Snapshot::empty(Timestamp::UNIX_EPOCH)));
        let known = Arc::clone(&cluster);
        let _collecting = collect_from(&metrics, keys, Arc::new(move || Some(known.lock().clone())));
        *cluster.lock() = Snapshot {
            nodes: vec![Arc::new(node.clone())],
            ..Snapshot::empty(Timestamp::from_second(60).unwrap())
        };
        let text = metrics.render();
        for want in [
            "karpenter_nodes_allocatable{managed=\"false\",node_name=\"n\",phase=\"\",resource_type=\"cpu\",zone=\"a\"} 1.5",
            "karpenter_nodes_system_overhead{managed=\"false\",node_name=\"n\",phase=\"\",resource_type=\"cpu\",zone=\"a\"} 0.5",
            "karpenter_nodes_current_lifetime_seconds{managed=\"false\",node_name=\"n\",phase=\"\",zone=\"a\"} 60",
            "karpenter_cluster_utilization_percent{resource_type=\"cpu\"} 0",
        ] {
            assert!(text.lines().any(|line| line == want), "missing `{want}` in:\n{text}");
        }
        node.labels = [("topology.kubernetes.io/zone".into(), "b".into())].into();
        cluster.lock().nodes = vec![Arc::new(node)];
        let text = metrics.render();
        assert!(text.contains("zone=\"b\"") && !text.contains("zone=\"a\""), "{text}");
        cluster.lock().nodes.clear();
        assert!(!metrics.render().contains("node_name=\"n\""));
    }
}
