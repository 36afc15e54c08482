//! The metrics of the reference as its dashboards know them, written down from the specification and compared with the
//! tables of the code (spec disruption 6, spec scheduling 30, spec aws-provider 16).

use std::collections::{BTreeMap, BTreeSet};

use crate::metrics::{Descriptor, Kind, Metrics, Stability, Watched, buckets, reference};

use Kind::{Counter, Gauge, Histogram, Summary};
use Stability::{Alpha, Beta, Deprecated, Stable};

type Row = (&'static str, Kind, &'static str, Stability);

/// Name without the prefix `karpenter_`, type, labels, stability.
const CORE: &[Row] = &[
    ("build_info", Gauge, "version goversion goarch commit", Stable),
    ("nodeclaims_created_total", Counter, "reason nodepool min_values_relaxed", Stable),
    ("nodeclaims_terminated_total", Counter, "nodepool capacity_type zone", Stable),
    (
        "nodeclaims_disrupted_total",
        Counter,
        "reason nodepool capacity_type consolidation_policy termination_mode",
        Alpha,
    ),
    ("nodeclaims_instance_termination_duration_seconds", Histogram, "nodepool", Beta),
    ("nodeclaims_termination_duration_seconds", Histogram, "nodepool", Beta),
    (
        "nodeclaims_unhealthy_disrupted_total",
        Counter,
        "condition nodepool capacity_type image_id termination_mode",
        Alpha,
    ),
    ("nodes_created_total", Counter, "nodepool zone", Stable),
    ("nodes_terminated_total", Counter, "nodepool zone", Stable),
    ("nodes_drained_total", Counter, "nodepool", Alpha),
    ("nodes_termination_duration_seconds", Summary, "nodepool", Beta),
    ("nodes_lifetime_duration_seconds", Histogram, "nodepool", Alpha),
    ("nodes_reboots_total", Counter, "result", Beta),
    ("nodes_reboot_duration_seconds", Histogram, "result", Beta),
    ("nodes_reboot_recovery_duration_seconds", Histogram, "", Beta),
    ("nodes_allocatable", Gauge, "node_name phase managed resource_type", Beta),
    ("nodes_total_pod_requests", Gauge, "node_name phase managed resource_type", Beta),
    ("nodes_total_pod_limits", Gauge, "node_name phase managed resource_type", Beta),
    ("nodes_total_daemon_requests", Gauge, "node_name phase managed resource_type", Beta),
    ("nodes_total_daemon_limits", Gauge, "node_name phase managed resource_type", Beta),
    ("nodes_system_overhead", Gauge, "node_name phase managed resource_type", Beta),
    ("nodes_current_lifetime_seconds", Gauge, "node_name phase managed", Alpha),
    ("cluster_utilization_percent", Gauge, "resource_type", Alpha),
    ("nodepools_limit", Gauge, "resource_type nodepool", Alpha),
    ("nodepools_usage", Gauge, "resource_type nodepool", Alpha),
    ("nodepools_cost_total", Gauge, "nodepool", Alpha),
    ("nodepools_cost_tracker_errors_total", Counter, "nodepool", Alpha),
    ("nodepools_allowed_disruptions", Gauge, "nodepool reason", Alpha),
    ("nodepools_nodes_consuming_budgets", Gauge, "nodepool reason", Alpha),
    (
        "pods_state",
        Gauge,
        "name namespace owner node scheduled nodepool zone arch capacity_type instance_type phase ready managed",
        Beta,
    ),
    ("pods_startup_duration_seconds", Summary, "", Stable),
    ("pods_bound_duration_seconds", Histogram, "", Alpha),
    ("pods_unstarted_time_seconds", Gauge, "name namespace", Alpha),
    ("pods_unbound_time_seconds", Gauge, "name namespace", Alpha),
    ("pods_provisioning_bound_duration_seconds", Histogram, "", Alpha),
    ("pods_provisioning_startup_duration_seconds", Histogram, "", Alpha),
    ("pods_provisioning_unbound_time_seconds", Gauge, "name namespace", Alpha),
    ("pods_provisioning_unstarted_time_seconds", Gauge, "name namespace", Alpha),
    ("pods_provisioning_scheduling_undecided_time_seconds", Gauge, "name namespace", Alpha),
    ("pods_scheduling_decision_duration_seconds", Histogram, "", Alpha),
    (
        "pods_disruption_initiated_total",
        Counter,
        "reason nodepool capacity_type consolidation_policy termination_mode",
        Alpha,
    ),
    ("pod_deletion_cost_pod_annotation_writes_total", Counter, "result", Alpha),
    ("pod_deletion_cost_nodes_with_pending_annotation_writes", Gauge, "nodepool", Alpha),
    ("pods_eviction_requests_total", Counter, "code", Alpha),
    ("pods_drained_total", Counter, "reason", Alpha),
    (
        "voluntary_disruption_decision_evaluation_duration_seconds",
        Histogram,
        "reason consolidation_type",
        Beta,
    ),
    ("voluntary_disruption_decisions_total", Counter, "decision reason consolidation_type", Stable),
    (
        "voluntary_disruption_decisions_by_nodepool_total",
        Counter,
        "nodepool decision reason consolidation_type",
        Alpha,
    ),
    ("voluntary_disruption_eligible_nodes", Gauge, "reason", Beta),
    ("voluntary_disruption_consolidation_timeouts_total", Counter, "consolidation_type", Beta),
    ("voluntary_disruption_failed_validations_total", Counter, "consolidation_type", Alpha),
    ("voluntary_disruption_queue_failures_total", Counter, "decision reason consolidation_type", Beta),
    ("consolidation_score", Histogram, "decision nodepool policy", Alpha),
    ("consolidation_moves_total", Counter, "decision nodepool policy", Alpha),
    ("cluster_state_node_count", Gauge, "", Stable),
    ("cluster_state_synced", Gauge, "", Stable),
    ("cluster_state_unsynced_time_seconds", Gauge, "", Stable),
    ("scheduler_scheduling_duration_seconds", Histogram, "controller", Stable),
    ("scheduler_queue_depth", Gauge, "controller scheduling_id", Beta),
    ("scheduler_unfinished_work_seconds", Gauge, "controller scheduling_id", Alpha),
    ("scheduler_ignored_pods_count", Gauge, "", Alpha),
    ("scheduler_unschedulable_pods_count", Gauge, "controller", Alpha),
    ("scheduler_pending_pods_by_effective_zone_count", Gauge, "controller zone", Alpha),
    ("cloudprovider_duration_seconds", Histogram, "controller method provider", Beta),
    ("cloudprovider_errors_total", Counter, "controller method provider error", Beta),
    ("cloudprovider_instance_type_offering_available", Gauge, "instance_type capacity_type zone", Beta),
    ("cloudprovider_instance_type_offering_price_estimate", Gauge, "instance_type capacity_type zone", Beta),
    ("cloudprovider_instance_type_cpu_cores", Gauge, "instance_type", Beta),
    ("cloudprovider_instance_type_memory_bytes", Gauge, "instance_type", Beta),
    ("cloudprovider_instance_launch_failures_total", Counter, "zone zone_id capacity_type reason", Beta),
    ("cloudprovider_instance_termination_failures_total", Counter, "zone zone_id", Beta),
    ("cloudprovider_batcher_batch_time_seconds", Histogram, "batcher", Beta),
    ("cloudprovider_batcher_batch_size", Histogram, "batcher", Beta),
    ("interruption_received_messages_total", Counter, "message_type", Stable),
    ("interruption_deleted_messages_total", Counter, "", Stable),
    ("interruption_message_queue_duration_seconds", Histogram, "", Stable),
    ("interruption_instance_status_unhealthy_total", Counter, "category", Stable),
    ("ec2nodeclasses_userdata_bytes", Gauge, "nodeclass", Alpha),
];

/// Full name, type, labels, stability.
const OUTSIDE_THE_PREFIX: &[Row] = &[
    ("leader_election_master_status", Gauge, "name", Stable),
    ("leader_election_slowpath_total", Counter, "name", Stable),
    ("controller_runtime_conversion_webhook_panics_total", Counter, "", Stable),
    ("controller_runtime_reconcile_timeouts_total", Counter, "controller", Stable),
    ("workqueue_unfinished_work_seconds", Gauge, "name controller", Stable),
    ("controller_runtime_reconcile_total", Counter, "controller result", Stable),
    ("controller_runtime_reconcile_errors_total", Counter, "controller", Stable),
    ("controller_runtime_reconcile_time_seconds", Histogram, "controller", Stable),
    ("controller_runtime_active_workers", Gauge, "controller", Stable),
    ("controller_runtime_max_concurrent_reconciles", Gauge, "controller", Stable),
    ("workqueue_depth", Gauge, "name controller priority", Stable),
    ("workqueue_adds_total", Counter, "name controller", Stable),
    ("workqueue_retries_total", Counter, "name controller", Stable),
    ("client_go_request_total", Counter, "code method", Stable),
    ("rest_client_requests_total", Counter, "code method host", Stable),
    ("aws_sdk_go_request_total", Counter, "action code service", Stable),
    ("aws_sdk_go_request_retry_count", Histogram, "action code service", Stable),
    ("aws_sdk_go_request_duration_seconds", Histogram, "action code service", Stable),
    ("aws_sdk_go_request_attempt_total", Counter, "action code service", Stable),
    ("aws_sdk_go_request_attempt_duration_seconds", Histogram, "action code service", Stable),
    ("client_go_request_duration_seconds", Histogram, "verb group version kind subresource", Stable),
    ("operator_status_condition_count", Gauge, "namespace name type status reason group kind", Deprecated),
    (
        "operator_status_condition_current_status_seconds",
        Gauge,
        "namespace name type status reason group kind",
        Deprecated,
    ),
    ("operator_status_condition_transitions_total", Counter, "type status reason group kind", Deprecated),
    ("operator_status_condition_transition_seconds", Histogram, "type status group kind", Deprecated),
    ("operator_termination_current_time_seconds", Gauge, "namespace name group kind", Deprecated),
    ("operator_termination_duration_seconds", Histogram, "group kind", Deprecated),
];

/// What each of `operator_{nodeclaim,nodepool,node,capacitybuffer,ec2nodeclass}_` has.
const OF_EACH_KIND: &[(&str, Kind, &str)] = &[
    ("status_condition_count", Gauge, "namespace name type status reason"),
    ("status_condition_current_status_seconds", Gauge, "namespace name type status reason"),
    ("status_condition_transitions_total", Counter, "type status reason"),
    ("status_condition_transition_seconds", Histogram, "type status"),
    ("termination_current_time_seconds", Gauge, "namespace name"),
    ("termination_duration_seconds", Histogram, ""),
];

fn declared() -> BTreeMap<&'static str, &'static Descriptor> {
    reference().into_iter().flat_map(|(_, rows)| rows).map(|row| (row.name, row)).collect()
}

fn check(name: &str, kind: Kind, labels: &str, stability: Stability) {
    let declared = declared();
    let row = declared.get(name).unwrap_or_else(|| panic!("`{name}` is not declared"));
    let want: Vec<&str> = labels.split_whitespace().collect();
    assert_eq!((row.kind, row.labels, row.stability), (kind, want.as_slice(), stability), "{name}");
}

#[test]
fn every_metric_of_the_reference_is_declared_with_its_type_labels_and_stability() {
    for (name, kind, labels, stability) in CORE {
        check(&format!("karpenter_{name}"), *kind, labels, *stability);
    }
    for (name, kind, labels, stability) in OUTSIDE_THE_PREFIX {
        check(name, *kind, labels, *stability);
    }
    for kind in ["nodeclaim", "nodepool", "node", "capacitybuffer", "ec2nodeclass"] {
        for (name, of, labels) in OF_EACH_KIND {
            check(&format!("operator_{kind}_{name}"), *of, labels, Beta);
        }
    }
}

#[test]
fn what_the_reference_does_not_have_says_so() {
    let known: BTreeSet<String> = CORE.iter().map(|(name, ..)| format!("karpenter_{name}")).collect();
    let ours: Vec<&str> = declared()
        .values()
        .filter(|row| row.help.contains("not in the reference"))
        .map(|row| row.name)
        .collect();
    assert!(ours.iter().all(|name| !known.contains(*name)), "{ours:?}");
    assert!(ours.contains(&"karpenter_scheduler_audit_findings_total"));
}

#[test]
fn buckets_are_those_of_the_reference() {
    let hours = |hours: &[f64]| -> Vec<f64> { hours.iter().map(|hours| hours * 3600.0).collect() };
    let mut lifetime = hours(&[0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0]);
    lifetime.extend(hours(&[24.0, 48.0, 72.0, 120.0, 240.0, 360.0, 480.0, 600.0, 720.0]));
    let times = |first: f64, factor: f64, count: i32| -> Vec<f64> {
        (0..count).map(|index| first * factor.powi(index)).collect()
    };
    let (duration, default) = (buckets::DURATION.to_vec(), buckets::DEFAULT.to_vec());
    assert_eq!((duration.len(), default.len()), (45, 11));
    let condition = times(0.5, 2.0, 15);
    let queue = times(1e-8, 10.0, 12);
    let rows: Vec<(&str, Vec<f64>)> = vec![
        ("karpenter_nodeclaims_instance_termination_duration_seconds", times(1.0, 2.0, 11)),
        ("karpenter_nodeclaims_termination_duration_seconds", times(1.0, 2.0, 12)),
        ("karpenter_nodes_lifetime_duration_seconds", lifetime),
        ("karpenter_nodes_reboot_duration_seconds", times(10.0, 2.0, 8)),
        ("karpenter_nodes_reboot_recovery_duration_seconds", times(10.0, 2.0, 8)),
        ("karpenter_pods_bound_duration_seconds", duration.clone()),
        ("karpenter_pods_provisioning_bound_duration_seconds", duration.clone()),
        ("karpenter_pods_provisioning_startup_duration_seconds", duration.clone()),
        ("karpenter_pods_scheduling_decision_duration_seconds", duration.clone()),
        ("karpenter_scheduler_scheduling_duration_seconds", duration.clone()),
        ("karpenter_voluntary_disruption_decision_evaluation_duration_seconds", duration.clone()),
        ("karpenter_interruption_message_queue_duration_seconds", duration.clone()),
        ("karpenter_cloudprovider_batcher_batch_time_seconds", duration),
        ("karpenter_cloudprovider_batcher_batch_size", buckets::BATCH_SIZE.to_vec()),
        ("karpenter_cloudprovider_duration_seconds", default.clone()),
        ("karpenter_consolidation_score", vec![0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0]),
        ("controller_runtime_reconcile_time_seconds", buckets::RECONCILE.to_vec()),
        ("workqueue_queue_duration_seconds", queue.clone()),
        ("workqueue_work_duration_seconds", queue),
        ("client_go_request_duration_seconds", times(0.001, 1.5, 20)),
        ("aws_sdk_go_request_duration_seconds", times(0.01, 1.5, 20)),
        ("aws_sdk_go_request_attempt_duration_seconds", times(0.01, 1.5, 20)),
        ("aws_sdk_go_request_retry_count", buckets::RETRIES.to_vec()),
        ("operator_status_condition_transition_seconds", default.clone()),
        ("operator_termination_duration_seconds", default.clone()),
        ("operator_ec2nodeclass_status_condition_transition_seconds", default.clone()),
        ("operator_ec2nodeclass_termination_duration_seconds", default),
        ("operator_nodeclaim_status_condition_transition_seconds", condition.clone()),
        ("operator_nodeclaim_termination_duration_seconds", condition.clone()),
        ("operator_nodepool_status_condition_transition_seconds", condition.clone()),
        ("operator_nodepool_termination_duration_seconds", condition.clone()),
        ("operator_node_status_condition_transition_seconds", condition.clone()),
        ("operator_node_termination_duration_seconds", condition.clone()),
        ("operator_capacitybuffer_status_condition_transition_seconds", condition.clone()),
        ("operator_capacitybuffer_termination_duration_seconds", condition),
    ];
    let near = |one: &f64, other: &f64| (one - other).abs() <= other * 1e-9;
    let mut declared = declared();
    declared.retain(|_, row| row.kind == Histogram && !row.help.contains("not in the reference"));
    for (name, want) in rows {
        let row = declared.remove(name).unwrap_or_else(|| panic!("`{name}` is no histogram"));
        let same = row.buckets.len() == want.len() && row.buckets.iter().zip(&want).all(|(a, b)| near(a, b));
        assert!(same, "{name}: {:?}, expected {want:?}", row.buckets);
    }
    let left: Vec<_> = declared.keys().collect();
    assert!(left.is_empty(), "histograms without a row: {left:?}");
}

#[test]
fn everything_declared_is_registered() {
    let metrics = Metrics::new();
    metrics.node_families(&["zone".to_owned()]);
    metrics.statuses(|kind| match kind {
        Watched::NodeClaim => vec!["karpenter_sh_nodepool".to_owned()],
        _ => Vec::new(),
    });
    for row in declared().values() {
        // A name that is taken cannot be registered with other labels.
        let other = prometheus::GaugeVec::new(prometheus::Opts::new(row.name, row.help), &["other"]).unwrap();
        let registered = metrics.registry.written().contains_key(row.name)
            || metrics.registry.kept.register(Box::new(other)).is_err();
        assert!(registered, "`{}` is not registered", row.name);
    }
    let statuses = metrics.statuses(|_| Vec::new());
    let change = ("Launched", "Unknown", "True", "Launched");
    let lasted = std::time::Duration::from_secs(3);
    statuses.of(Watched::NodeClaim).transition(&["default"], change, &[], lasted);
    let line = "operator_nodeclaim_status_condition_transitions_total{karpenter_sh_nodepool=\"default\",\
                reason=\"Launched\",status=\"True\",type=\"Launched\"} 1";
    let text = metrics.render();
    assert!(text.lines().any(|have| have == line), "{text}");
}
