//! Publishes what each Node offers and what is asked of it (spec scheduling 30).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::resources;
use karpenter_model::{LabelKey, Node, Quantity, Resources};
use karpenter_telemetry::metrics::Metrics;
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
            let nodes = snapshot.nodes.iter().map(AsRef::as_ref).filter(|node| node.name.is_some());
            publish(&context.metrics, &keys, &nodes.collect::<Vec<_>>(), snapshot.now);
        }
    }
}

fn publish(metrics: &Metrics, keys: &Keys, nodes: &[&Node], now: Timestamp) {
    let families = metrics.node_families(&keys.keys().cloned().collect::<Vec<_>>());
    let each = |of: fn(&Node) -> Resources| -> BTreeMap<Vec<String>, f64> {
        nodes.iter().flat_map(|node| samples(keys, node, &of(node))).collect()
    };
    families.allocatable.publish(each(Node::effective_allocatable));
    families.total_pod_requests.publish(each(Node::requested));
    families.total_pod_limits.publish(each(Node::limited));
    families.total_daemon_requests.publish(each(Node::daemon_requested));
    families.total_daemon_limits.publish(each(Node::daemon_limited));
    families
        .system_overhead
        .publish(each(|node| node.effective_capacity().subtract(&node.effective_allocatable())));
    let age = |node: &&Node| {
        let age = Duration::try_from(now.duration_since(node.created_at)).unwrap_or_default();
        (labels(keys, node), age.as_secs_f64())
    };
    families.current_lifetime_seconds.publish(nodes.iter().map(age).collect());
    for resource in [resources::CPU, resources::MEMORY] {
        let total = |of: fn(&Node) -> Resources| {
            nodes.iter().map(|node| of(node).amount(resource)).fold(Quantity::ZERO, Quantity::saturating_add)
        };
        let (asked, there) = (total(Node::requested), total(Node::effective_allocatable));
        let percent = if there == Quantity::ZERO { 0.0 } else { units(asked) / units(there) * 100.0 };
        metrics.nodes.utilization_percent.set([resource], percent);
    }
}

fn samples(keys: &Keys, node: &Node, resources: &Resources) -> Vec<(Vec<String>, f64)> {
    let row = |resource: &str, quantity: Quantity| {
        let mut labels = labels(keys, node);
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
        publish(&metrics, &keys, &[&node], Timestamp::from_second(60).unwrap());
        let text = metrics.render();
        for want in [
            "karpenter_nodes_allocatable{managed=\"false\",node_name=\"n\",phase=\"\",resource_type=\"cpu\",zone=\"a\"} 1.5",
            "karpenter_nodes_system_overhead{managed=\"false\",node_name=\"n\",phase=\"\",resource_type=\"cpu\",zone=\"a\"} 0.5",
            "karpenter_nodes_current_lifetime_seconds{managed=\"false\",node_name=\"n\",phase=\"\",zone=\"a\"} 60",
            "karpenter_cluster_utilization_percent{resource_type=\"cpu\"} 0",
        ] {
            assert!(text.lines().any(|line| line == want), "missing `{want}` in:\n{text}");
        }
        publish(&metrics, &keys, &[], Timestamp::UNIX_EPOCH);
        assert!(!metrics.render().contains("node_name=\"n\""));
    }
}
