//! Metrics about planning and the view it is based on (spec scheduling 30).

use super::area::area;
use super::buckets;

area! {
    /// Planning passes.
    pub struct Scheduler {
        scheduling_duration_seconds: Histogram = "karpenter_scheduler_scheduling_duration_seconds" ["controller"]
            Stable, "Duration of one planning pass", buckets::DURATION;
        queue_depth: Gauge = "karpenter_scheduler_queue_depth" ["controller", "scheduling_id"]
            Beta, "Pods left in the running pass";
        unfinished_work_seconds: Gauge = "karpenter_scheduler_unfinished_work_seconds" ["controller", "scheduling_id"]
            Alpha, "Age of the running pass";
        ignored_pods_count: Gauge = "karpenter_scheduler_ignored_pods_count" []
            Alpha, "Pods refused before planning";
        unschedulable_pods_count: Gauge = "karpenter_scheduler_unschedulable_pods_count" ["controller"]
            Alpha, "Pods no NodePool can take";
        pending_pods_by_effective_zone_count: Gauge = "karpenter_scheduler_pending_pods_by_effective_zone_count" ["controller", "zone"]
            Alpha, "Pending pods by the zone they are bound to, flexible or none";
        held_pods_count: Gauge = "karpenter_scheduler_held_pods_count" []
            Alpha, "Pods not planned for because the scheduler did not use nodes launched for their like; not in the reference";
        unused_promises_total: Counter = "karpenter_scheduler_unused_promises_total" []
            Alpha, "Times a node came up and pods promised to it stayed unscheduled; not in the reference";
        audit_findings_total: Counter = "karpenter_scheduler_audit_findings_total" ["rule"]
            Alpha, "Plans refused because they break a rule; not in the reference, alert on any increase";
    }
}

area! {
    /// The view plans are based on.
    pub struct ClusterState {
        node_count: Gauge = "karpenter_cluster_state_node_count" []
            Stable, "Nodes in the view";
        synced: Gauge = "karpenter_cluster_state_synced" []
            Stable, "1 when the view is complete";
        unsynced_time_seconds: Gauge = "karpenter_cluster_state_unsynced_time_seconds" []
            Stable, "How long the view has been incomplete";
    }
}
