//! Publishes what each Node offers and what is asked of it (spec scheduling 30).
//!
//! A Node that did not change costs one value, its age: the index keeps what did not change where it is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::resources;
use karpenter_model::{LabelKey, Node, Quantity, Resources};
use karpenter_telemetry::metrics::{Metrics, NodeFamilies};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::tell::units;

/// How often.
const PERIOD: Duration = Duration::from_secs(5);

/// Publishes until `shutdown`, unless series per object are switched off.
pub(crate) async fn run(context: Context, shutdown: CancellationToken) {
    if !context.settings.cluster_state_observability {
        shutdown.cancelled().await;
        return;
    }
    let mut published = Published::default();
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if let Some(snapshot) = context.snapshot() {
            let keys = by_name(&snapshot.registry.well_known);
            published.publish(&context.metrics, &keys, &snapshot.nodes, snapshot.now);
        }
    }
}

/// The Nodes as they were published last.
#[derive(Default)]
struct Published {
    nodes: HashMap<String, Known>,
}

struct Known {
    node: Arc<Node>,
    allocatable: Resources,
    requested: Resources,
}

impl Published {
    /// Publishes what changed since the last time, and every age.
    fn publish(&mut self, metrics: &Metrics, keys: &Keys, nodes: &[Arc<Node>], now: Timestamp) {
        let families = metrics.node_families(&keys.keys().cloned().collect::<Vec<_>>());
        let mut before = std::mem::take(&mut self.nodes);
        for node in nodes.iter().filter(|node| node.name.is_some()) {
            let name = node.display_name();
            let age = Duration::try_from(now.duration_since(node.created_at)).unwrap_or_default();
            let known = match before.remove(name) {
                Some(known) if Arc::ptr_eq(&known.node, node) => {
                    families.current_lifetime_seconds.update(name, [age.as_secs_f64()]);
                    known
                }
                _ => {
                    let labels = labels(keys, node);
                    amounts(families, &labels, node);
                    families.current_lifetime_seconds.set(name, [(labels, age.as_secs_f64())]);
                    let (allocatable, requested) = (node.effective_allocatable(), node.requested());
                    Known { node: Arc::clone(node), allocatable, requested }
                }
            };
            self.nodes.insert(name.to_owned(), known);
        }
        if !before.is_empty() {
            families.each().for_each(|family| family.retain(|name| self.nodes.contains_key(name)));
        }
        for resource in [resources::CPU, resources::MEMORY] {
            let total = |of: fn(&Known) -> &Resources| {
                let amounts = self.nodes.values().map(|known| of(known).amount(resource));
                amounts.fold(Quantity::ZERO, Quantity::saturating_add)
            };
            let (asked, there) = (total(|known| &known.requested), total(|known| &known.allocatable));
            let percent = if there == Quantity::ZERO { 0.0 } else { units(asked) / units(there) * 100.0 };
            metrics.nodes.utilization_percent.set([resource], percent);
        }
    }
}

fn amounts(families: &NodeFamilies, labels: &[String], node: &Node) {
    let (name, allocatable) = (node.display_name(), node.effective_allocatable());
    let overhead = node.effective_capacity().subtract(&allocatable);
    for (family, resources) in [
        (&families.allocatable, allocatable),
        (&families.total_pod_requests, node.requested()),
        (&families.total_pod_limits, node.limited()),
        (&families.total_daemon_requests, node.daemon_requested()),
        (&families.total_daemon_limits, node.daemon_limited()),
        (&families.system_overhead, overhead),
    ] {
        family.set(name, samples(labels, &resources));
    }
}

/// A value for each resource, whose name follows the labels of the Node.
fn samples(labels: &[String], resources: &Resources) -> Vec<(Vec<String>, f64)> {
    let row = |resource: &str, quantity: Quantity| {
        let mut labels = labels.to_vec();
        labels.push(resource.to_lowercase().replace('-', "_"));
        (labels, units(quantity))
    };
    resources.iter().map(|(resource, quantity)| row(resource.as_str(), *quantity)).collect()
}

/// Values of the well-known labels, then name, phase (which Kubernetes no longer fills) and whether it is ours.
fn labels(keys: &Keys, node: &Node) -> Vec<String> {
    let known = node.effective_labels();
    let values = keys.values().map(|key| known.get(key).map(ToString::to_string).unwrap_or_default());
    let own = [node.display_name().to_owned(), String::new(), node.is_managed().to_string()];
    values.chain(own).collect()
}

/// Well-known labels by the part after the domain, as a Prometheus label.
type Keys = BTreeMap<String, LabelKey>;

/// Of keys that differ only in their domain the last counts: a label name cannot be there twice.
fn by_name<'a>(keys: impl IntoIterator<Item = &'a LabelKey>) -> Keys {
    let name = |key: &LabelKey| {
        let suffix = key.as_str().rsplit('/').next().unwrap_or_default();
        suffix.replace(['-', '.'], "_")
    };
    keys.into_iter().map(|key| (name(key), key.clone())).collect()
}

#[cfg(test)]
mod tests {
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
        let mut published = Published::default();
        let node = Arc::new(node);
        published.publish(&metrics, &keys, &[Arc::clone(&node)], Timestamp::UNIX_EPOCH);
        published.publish(&metrics, &keys, &[Arc::clone(&node)], Timestamp::from_second(60).unwrap());
        let text = metrics.render();
        for want in [
            "karpenter_nodes_allocatable{managed=\"false\",node_name=\"n\",phase=\"\",resource_type=\"cpu\",zone=\"a\"} 1.5",
            "karpenter_nodes_system_overhead{managed=\"false\",node_name=\"n\",phase=\"\",resource_type=\"cpu\",zone=\"a\"} 0.5",
            "karpenter_nodes_current_lifetime_seconds{managed=\"false\",node_name=\"n\",phase=\"\",zone=\"a\"} 60",
            "karpenter_cluster_utilization_percent{resource_type=\"cpu\"} 0",
        ] {
            assert!(text.lines().any(|line| line == want), "missing `{want}` in:\n{text}");
        }
        let mut changed = Node::clone(&node);
        changed.labels = [("topology.kubernetes.io/zone".into(), "b".into())].into();
        published.publish(&metrics, &keys, &[Arc::new(changed)], Timestamp::UNIX_EPOCH);
        let text = metrics.render();
        assert!(text.contains("zone=\"b\"") && !text.contains("zone=\"a\""), "{text}");
        published.publish(&metrics, &keys, &[], Timestamp::UNIX_EPOCH);
        assert!(!metrics.render().contains("node_name=\"n\""));
    }
}
