//! The metrics of the reference as its dashboards know them, written down from the specification and compared with the
//! tables of the code (spec disruption 6, spec scheduling 30, spec aws-provider 16).

use std::collections::{BTreeMap, BTreeSet};

use crate::metrics::{Descriptor, Kind, Metrics, Watched, buckets, reference};

/// Name without the prefix `karpenter_`, type, stability, labels.
const CORE: &str = "\
build_info Gauge Stable version goversion goarch commit
nodeclaims_created_total Counter Stable reason nodepool min_values_relaxed
nodeclaims_terminated_total Counter Stable nodepool capacity_type zone
nodeclaims_disrupted_total Counter Alpha reason nodepool capacity_type consolidation_policy termination_mode
nodeclaims_instance_termination_duration_seconds Histogram Beta nodepool
nodeclaims_termination_duration_seconds Histogram Beta nodepool
nodeclaims_unhealthy_disrupted_total Counter Alpha condition nodepool capacity_type image_id termination_mode
nodes_created_total Counter Stable nodepool zone
nodes_terminated_total Counter Stable nodepool zone
nodes_drained_total Counter Alpha nodepool
nodes_termination_duration_seconds Summary Beta nodepool
nodes_lifetime_duration_seconds Histogram Alpha nodepool
nodes_reboots_total Counter Beta result
nodes_reboot_duration_seconds Histogram Beta result
nodes_reboot_recovery_duration_seconds Histogram Beta
nodes_allocatable Gauge Beta node_name phase managed resource_type
nodes_total_pod_requests Gauge Beta node_name phase managed resource_type
nodes_total_pod_limits Gauge Beta node_name phase managed resource_type
nodes_total_daemon_requests Gauge Beta node_name phase managed resource_type
nodes_total_daemon_limits Gauge Beta node_name phase managed resource_type
nodes_system_overhead Gauge Beta node_name phase managed resource_type
nodes_current_lifetime_seconds Gauge Alpha node_name phase managed
cluster_utilization_percent Gauge Alpha resource_type
nodepools_limit Gauge Alpha resource_type nodepool
nodepools_usage Gauge Alpha resource_type nodepool
nodepools_cost_total Gauge Alpha nodepool
nodepools_cost_tracker_errors_total Counter Alpha nodepool
nodepools_allowed_disruptions Gauge Alpha nodepool reason
nodepools_nodes_consuming_budgets Gauge Alpha nodepool reason
pods_state Gauge Beta name namespace owner node scheduled nodepool zone arch capacity_type instance_type phase ready managed
pods_startup_duration_seconds Summary Stable
pods_bound_duration_seconds Histogram Alpha
pods_unstarted_time_seconds Gauge Alpha name namespace
pods_unbound_time_seconds Gauge Alpha name namespace
pods_provisioning_bound_duration_seconds Histogram Alpha
pods_provisioning_startup_duration_seconds Histogram Alpha
pods_provisioning_unbound_time_seconds Gauge Alpha name namespace
pods_provisioning_unstarted_time_seconds Gauge Alpha name namespace
pods_provisioning_scheduling_undecided_time_seconds Gauge Alpha name namespace
pods_scheduling_decision_duration_seconds Histogram Alpha
pods_disruption_initiated_total Counter Alpha reason nodepool capacity_type consolidation_policy termination_mode
pod_deletion_cost_pod_annotation_writes_total Counter Alpha result
pod_deletion_cost_nodes_with_pending_annotation_writes Gauge Alpha nodepool
pods_eviction_requests_total Counter Alpha code
pods_drained_total Counter Alpha reason
voluntary_disruption_decision_evaluation_duration_seconds Histogram Beta reason consolidation_type
voluntary_disruption_decisions_total Counter Stable decision reason consolidation_type
voluntary_disruption_decisions_by_nodepool_total Counter Alpha nodepool decision reason consolidation_type
voluntary_disruption_eligible_nodes Gauge Beta reason
voluntary_disruption_consolidation_timeouts_total Counter Beta consolidation_type
voluntary_disruption_failed_validations_total Counter Alpha consolidation_type
voluntary_disruption_queue_failures_total Counter Beta decision reason consolidation_type
consolidation_score Histogram Alpha decision nodepool policy
consolidation_moves_total Counter Alpha decision nodepool policy
cluster_state_node_count Gauge Stable
cluster_state_synced Gauge Stable
cluster_state_unsynced_time_seconds Gauge Stable
scheduler_scheduling_duration_seconds Histogram Stable controller
scheduler_queue_depth Gauge Beta controller scheduling_id
scheduler_unfinished_work_seconds Gauge Alpha controller scheduling_id
scheduler_ignored_pods_count Gauge Alpha
scheduler_unschedulable_pods_count Gauge Alpha controller
scheduler_pending_pods_by_effective_zone_count Gauge Alpha controller zone
cloudprovider_duration_seconds Histogram Beta controller method provider
cloudprovider_errors_total Counter Beta controller method provider error
cloudprovider_instance_type_offering_available Gauge Beta instance_type capacity_type zone
cloudprovider_instance_type_offering_price_estimate Gauge Beta instance_type capacity_type zone
cloudprovider_instance_type_cpu_cores Gauge Beta instance_type
cloudprovider_instance_type_memory_bytes Gauge Beta instance_type
cloudprovider_instance_launch_failures_total Counter Beta zone zone_id capacity_type reason
cloudprovider_instance_termination_failures_total Counter Beta zone zone_id
cloudprovider_batcher_batch_time_seconds Histogram Beta batcher
cloudprovider_batcher_batch_size Histogram Beta batcher
interruption_received_messages_total Counter Stable message_type
interruption_deleted_messages_total Counter Stable
interruption_message_queue_duration_seconds Histogram Stable
interruption_instance_status_unhealthy_total Counter Stable category
ec2nodeclasses_userdata_bytes Gauge Alpha nodeclass
";

/// Full name, type, stability, labels.
const OUTSIDE_THE_PREFIX: &str = "\
leader_election_master_status Gauge Stable name
leader_election_slowpath_total Counter Stable name
controller_runtime_conversion_webhook_panics_total Counter Stable
controller_runtime_reconcile_timeouts_total Counter Stable controller
workqueue_unfinished_work_seconds Gauge Stable name controller
controller_runtime_reconcile_total Counter Stable controller result
controller_runtime_reconcile_errors_total Counter Stable controller
controller_runtime_reconcile_time_seconds Histogram Stable controller
controller_runtime_active_workers Gauge Stable controller
controller_runtime_max_concurrent_reconciles Gauge Stable controller
workqueue_depth Gauge Stable name controller priority
workqueue_adds_total Counter Stable name controller
workqueue_retries_total Counter Stable name controller
client_go_request_total Counter Stable code method
rest_client_requests_total Counter Stable code method host
aws_sdk_go_request_total Counter Stable action code service
aws_sdk_go_request_retry_count Histogram Stable action code service
aws_sdk_go_request_duration_seconds Histogram Stable action code service
aws_sdk_go_request_attempt_total Counter Stable action code service
aws_sdk_go_request_attempt_duration_seconds Histogram Stable action code service
client_go_request_duration_seconds Histogram Stable verb group version kind subresource
operator_status_condition_count Gauge Deprecated namespace name type status reason group kind
operator_status_condition_current_status_seconds Gauge Deprecated namespace name type status reason group kind
operator_status_condition_transitions_total Counter Deprecated type status reason group kind
operator_status_condition_transition_seconds Histogram Deprecated type status group kind
operator_termination_current_time_seconds Gauge Deprecated namespace name group kind
operator_termination_duration_seconds Histogram Deprecated group kind
";

/// What each of `operator_{nodeclaim,nodepool,node,capacitybuffer,ec2nodeclass}_` has.
const OF_EACH_KIND: &str = "\
status_condition_count Gauge Beta namespace name type status reason
status_condition_current_status_seconds Gauge Beta namespace name type status reason
status_condition_transitions_total Counter Beta type status reason
status_condition_transition_seconds Histogram Beta type status
termination_current_time_seconds Gauge Beta namespace name
termination_duration_seconds Histogram Beta
";

fn declared() -> BTreeMap<&'static str, &'static Descriptor> {
    reference().into_iter().flat_map(|(_, rows)| rows).map(|row| (row.name, row)).collect()
}

/// Compares a row, which begins with the full name, with its declaration.
fn check(row: &str) {
    let words: Vec<&str> = row.split_whitespace().collect();
    let [name, kind, stability, labels @ ..] = &words[..] else { panic!("`{row}` is no row") };
    let declared = declared();
    let row = declared.get(name).unwrap_or_else(|| panic!("`{name}` is not declared"));
    let (own, its) = (format!("{:?} {:?}", row.kind, row.stability), format!("{kind} {stability}"));
    assert_eq!((own, row.labels), (its, labels), "{name}");
}

#[test]
fn every_metric_of_the_reference_is_declared_with_its_type_labels_and_stability() {
    for row in CORE.lines() {
        check(&format!("karpenter_{row}"));
    }
    for row in OUTSIDE_THE_PREFIX.lines() {
        check(row);
    }
    for kind in ["nodeclaim", "nodepool", "node", "capacitybuffer", "ec2nodeclass"] {
        for row in OF_EACH_KIND.lines() {
            check(&format!("operator_{kind}_{row}"));
        }
    }
}

#[test]
fn what_the_reference_does_not_have_says_so() {
    let known: BTreeSet<String> =
        CORE.lines().filter_map(|row| Some(format!("karpenter_{}", row.split(' ').next()?))).collect();
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
    declared.retain(|_, row| row.kind == Kind::Histogram && !row.help.contains("not in the reference"));
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
