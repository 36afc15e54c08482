//! Scrape of a running controller, checked against the table of metrics.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use karpenter_telemetry::metrics::{Descriptor, Kind, reference};
use serde_json::json;

use crate::world::{MINUTE, SECOND, World};

/// A family as exported: its type, and the labels of all its samples with their values.
#[derive(Debug, Default)]
struct Exported {
    kind: String,
    labels: BTreeMap<String, BTreeSet<String>>,
}

fn parse(text: &str) -> BTreeMap<String, Exported> {
    let mut families: BTreeMap<String, Exported> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            name.clone_into(&mut current);
            kind.clone_into(&mut families.entry(current.clone()).or_default().kind);
        } else if !line.starts_with('#') {
            let inside = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
            let family = families.get_mut(&current).expect("a type before the samples");
            // Label values hold no commas in these scenarios, save for quoted addresses, which have none either.
            let pairs = inside.map_or("", |(inside, _)| inside).split("\",");
            for (name, value) in pairs.filter_map(|pair| pair.split_once('=')) {
                if name != "le" && name != "quantile" {
                    let values = family.labels.entry(name.to_owned()).or_default();
                    values.insert(value.trim_matches('"').to_owned());
                }
            }
        }
    }
    families
}

/// Families with labels of the provider besides their own.
fn has_further_labels(name: &str) -> bool {
    let per_node =
        name.starts_with("karpenter_nodes_") && !name.contains("duration") && !name.ends_with("_total");
    per_node || name.starts_with("operator_nodeclaim_") || name.starts_with("operator_node_")
}

#[tokio::test(start_paused = true)]
async fn a_scrape_shows_only_what_is_declared_with_its_type_and_labels() {
    let world = World::with_pool(&json!({"limits": {"cpu": "100"}})).await;
    world.pod("web", "1");
    world.pod_with("nowhere", "1", &json!({"nodeSelector": {"kubernetes.io/arch": "sparc"}}));
    let process = world.start();
    let running = || {
        let pods = world.pods();
        pods.iter().any(|pod| pod.metadata.name.as_deref() == Some("web") && crate::world::is_running(pod))
    };
    world.until("the pod runs", 5 * MINUTE, running).await;
    // Everything that is published periodically has been.
    tokio::time::sleep(40 * SECOND).await;
    let midway = parse(&process.metrics.render());
    world.delete::<Pod>("web").await;
    world.all_gone().await;
    let mut exported = parse(&process.metrics.render());
    for (name, family) in midway {
        exported.entry(name).or_insert(family);
    }
    let declared: BTreeMap<&str, &Descriptor> =
        reference().into_iter().flat_map(|(_, rows)| rows).map(|row| (row.name, row)).collect();
    for (name, Exported { kind, labels }) in &exported {
        let labels: BTreeSet<String> = labels.keys().cloned().collect();
        let row = declared.get(name.as_str()).unwrap_or_else(|| panic!("`{name}` is not declared"));
        let want = match row.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Summary => "summary",
        };
        assert_eq!(kind, want, "{name}");
        let own: BTreeSet<String> = row.labels.iter().map(ToString::to_string).collect();
        if has_further_labels(name) {
            assert!(labels.is_superset(&own), "{name}: {labels:?} lacks some of {own:?}");
        } else {
            assert_eq!(labels, own, "{name}");
        }
    }
    let missing: Vec<&&str> = PUBLISHED.iter().filter(|name| !exported.contains_key(**name)).collect();
    assert!(missing.is_empty(), "never published: {missing:?}");
    process.stop().await;
}

/// Family, label, and the values that two pods, of which one fits nowhere, and the life of one node leave there. Where
/// the specification says how values are spelt: lower case for decisions, snake case for causes and resources, camel
/// case for budgets and drains.
const SPELT: &[(&str, &str, &[&str])] = &[
    ("karpenter_nodeclaims_created_total", "reason", &["provisioned"]),
    ("karpenter_nodeclaims_created_total", "min_values_relaxed", &["false"]),
    ("karpenter_nodeclaims_created_total", "nodepool", &["default"]),
    ("karpenter_nodeclaims_disrupted_total", "reason", &["empty"]),
    ("karpenter_nodeclaims_disrupted_total", "capacity_type", &["spot"]),
    ("karpenter_nodeclaims_disrupted_total", "consolidation_policy", &["when_empty_or_underutilized"]),
    ("karpenter_nodeclaims_disrupted_total", "termination_mode", &["graceful"]),
    ("karpenter_nodeclaims_terminated_total", "capacity_type", &["spot"]),
    ("karpenter_nodeclaims_terminated_total", "zone", &["zone-a"]),
    ("karpenter_nodes_created_total", "zone", &["zone-a"]),
    ("karpenter_nodes_allocatable", "resource_type", &["cpu", "ephemeral_storage", "memory", "pods"]),
    ("karpenter_nodes_allocatable", "managed", &["true"]),
    ("karpenter_nodes_allocatable", "nodepool", &["default"]),
    ("karpenter_nodes_allocatable", "instance_type", &["small"]),
    ("karpenter_nodepools_limit", "resource_type", &["cpu", "ephemeral_storage"]),
    (
        "karpenter_nodepools_allowed_disruptions",
        "reason",
        &["Drifted", "Empty", "Underutilized", "Unhealthy"],
    ),
    (
        "karpenter_nodepools_nodes_consuming_budgets",
        "reason",
        &["Drifted", "Empty", "Underutilized", "Unhealthy"],
    ),
    ("karpenter_pods_state", "phase", &["Pending", "Running"]),
    ("karpenter_pods_state", "ready", &["false", "true"]),
    ("karpenter_pods_state", "scheduled", &["false", "true"]),
    ("karpenter_pods_state", "managed", &["false", "true"]),
    ("karpenter_pods_state", "capacity_type", &["", "spot"]),
    ("karpenter_pods_state", "owner", &["", "/apis/apps/v1/namespaces/default/replicasets/web"]),
    ("karpenter_scheduler_scheduling_duration_seconds", "controller", &["disruption", "provisioner"]),
    ("karpenter_scheduler_unschedulable_pods_count", "controller", &["provisioner"]),
    ("karpenter_scheduler_pending_pods_by_effective_zone_count", "zone", &["flexible"]),
    ("karpenter_voluntary_disruption_decisions_total", "decision", &["delete"]),
    ("karpenter_voluntary_disruption_decisions_total", "reason", &["empty"]),
    ("karpenter_voluntary_disruption_decisions_total", "consolidation_type", &["empty"]),
    ("karpenter_voluntary_disruption_decisions_by_nodepool_total", "nodepool", &["default"]),
    (
        "karpenter_voluntary_disruption_eligible_nodes",
        "reason",
        &["drifted", "empty", "underutilized", "unhealthy"],
    ),
    (
        "karpenter_voluntary_disruption_consolidation_timeouts_total",
        "consolidation_type",
        &["multi", "single"],
    ),
    ("operator_nodeclaim_status_condition_count", "status", &["True", "Unknown"]),
];

#[tokio::test(start_paused = true)]
async fn label_values_are_spelt_as_dashboards_know_them() {
    let world = World::with_pool(&json!({"limits": {"cpu": "100", "ephemeral-storage": "1Ti"}})).await;
    world.set("web", 1, "1");
    world.pod_with("nowhere", "1", &json!({"nodeSelector": {"kubernetes.io/arch": "sparc"}}));
    let process = world.start();
    let mut seen: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut look = || {
        for (family, exported) in parse(&process.metrics.render()) {
            for (label, values) in exported.labels {
                seen.entry((family.clone(), label)).or_default().extend(values);
            }
        }
    };
    for second in 0..600 {
        // Gauges come and go.
        look();
        if second == 120 {
            world.scale("web", 0).await;
        }
        tokio::time::sleep(SECOND).await;
    }
    assert!(world.claims().is_empty());
    let differing: Vec<_> = SPELT
        .iter()
        .filter_map(|(family, label, values)| {
            let want: BTreeSet<String> = values.iter().map(ToString::to_string).collect();
            let have = seen.get(&((*family).to_owned(), (*label).to_owned())).cloned().unwrap_or_default();
            (have != want).then_some((family, label, have))
        })
        .collect();
    assert!(differing.is_empty(), "{differing:#?}");
    process.stop().await;
}

/// Metrics that the life of one node must leave.
const PUBLISHED: &[&str] = &[
    "controller_runtime_active_workers",
    "controller_runtime_max_concurrent_reconciles",
    "controller_runtime_reconcile_time_seconds",
    "controller_runtime_reconcile_total",
    "karpenter_build_info",
    "karpenter_cloudprovider_duration_seconds",
    "karpenter_cluster_state_node_count",
    "karpenter_cluster_state_synced",
    "karpenter_cluster_state_unsynced_time_seconds",
    "karpenter_cluster_utilization_percent",
    "karpenter_nodeclaims_created_total",
    "karpenter_nodeclaims_disrupted_total",
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    "karpenter_nodeclaims_termination_duration_seconds",
    "karpenter_nodeclaims_terminated_total",
    "karpenter_nodepools_cost_total",
    "karpenter_nodepools_limit",
    "karpenter_nodepools_usage",
    "karpenter_nodes_allocatable",
    "karpenter_nodes_created_total",
    "karpenter_nodes_current_lifetime_seconds",
    "karpenter_nodes_drained_total",
    "karpenter_nodes_lifetime_duration_seconds",
    "karpenter_nodes_system_overhead",
    "karpenter_nodes_terminated_total",
    "karpenter_nodes_termination_duration_seconds",
    "karpenter_nodes_total_pod_requests",
    "karpenter_pods_bound_duration_seconds",
    "karpenter_pods_disruption_initiated_total",
    "karpenter_pods_provisioning_bound_duration_seconds",
    "karpenter_pods_provisioning_startup_duration_seconds",
    "karpenter_pods_scheduling_decision_duration_seconds",
    "karpenter_pods_startup_duration_seconds",
    "karpenter_pods_state",
    "karpenter_pods_unbound_time_seconds",
    "karpenter_pods_unstarted_time_seconds",
    "karpenter_scheduler_ignored_pods_count",
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    "karpenter_scheduler_scheduling_duration_seconds",
    "karpenter_scheduler_unschedulable_pods_count",
    "karpenter_voluntary_disruption_decisions_total",
    "karpenter_voluntary_disruption_eligible_nodes",
    "operator_node_status_condition_count",
    "operator_node_status_condition_current_status_seconds",
    "operator_nodeclaim_status_condition_count",
    "operator_nodeclaim_status_condition_current_status_seconds",
    "operator_nodeclaim_status_condition_transition_seconds",
    "operator_nodeclaim_status_condition_transitions_total",
    "operator_nodeclaim_termination_duration_seconds",
    "operator_nodepool_status_condition_count",
    "operator_nodepool_status_condition_transitions_total",
    "operator_status_condition_count",
    "operator_status_condition_transitions_total",
    "operator_termination_duration_seconds",
    "workqueue_adds_total",
    "workqueue_depth",
    "workqueue_queue_duration_seconds",
    "workqueue_work_duration_seconds",
];
