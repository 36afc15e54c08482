//! Metrics about pods: how long they wait for a node and how they leave one (spec disruption 6).

use super::area::area;
use super::buckets;

area! {
    /// Waiting for nodes and leaving them.
    pub struct Pods {
        state: Collected = "karpenter_pods_state" ["name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed"]
            Beta, "One series per pod, always 1";
        startup_duration_seconds: Summary = "karpenter_pods_startup_duration_seconds" []
            Stable, "From creation until the pod is ready";
        bound_duration_seconds: Histogram = "karpenter_pods_bound_duration_seconds" []
            Alpha, "From creation until the pod is bound", buckets::DURATION;
        unstarted_time_seconds: Collected = "karpenter_pods_unstarted_time_seconds" ["name", "namespace"]
            Alpha, "Age of a pod that is not ready yet";
        unbound_time_seconds: Collected = "karpenter_pods_unbound_time_seconds" ["name", "namespace"]
            Alpha, "Age of a pod that is not bound yet";
        provisioning_bound_duration_seconds: Histogram = "karpenter_pods_provisioning_bound_duration_seconds" []
            Alpha, "From the first plan for the pod until it is bound", buckets::DURATION;
        provisioning_startup_duration_seconds: Histogram = "karpenter_pods_provisioning_startup_duration_seconds" []
            Alpha, "From the first plan for the pod until it is ready", buckets::DURATION;
        provisioning_unbound_time_seconds: Collected = "karpenter_pods_provisioning_unbound_time_seconds" ["name", "namespace"]
            Alpha, "Time since the first plan for a pod that is not bound yet";
        provisioning_unstarted_time_seconds: Collected = "karpenter_pods_provisioning_unstarted_time_seconds" ["name", "namespace"]
            Alpha, "Time since the first plan for a pod that is not ready yet";
        provisioning_scheduling_undecided_time_seconds: Collected = "karpenter_pods_provisioning_scheduling_undecided_time_seconds" ["name", "namespace"]
            Alpha, "Time since a pod was seen that has no decision yet";
        scheduling_decision_duration_seconds: Histogram = "karpenter_pods_scheduling_decision_duration_seconds" []
            Alpha, "From seeing a pod until the first decision about it", buckets::DURATION;
        disruption_initiated_total: Counter = "karpenter_pods_disruption_initiated_total" ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"]
            Alpha, "Pods that have to move because their NodeClaim was deleted; daemon pods and static ones are not counted";
        deletion_cost_writes_total: Counter = "karpenter_pod_deletion_cost_pod_annotation_writes_total" ["result"]
            Alpha, "Deletion costs of pods that were to be written or removed";
        nodes_with_pending_deletion_costs: Gauge = "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes" ["nodepool"]
            Alpha, "Nodes whose pods have their deletion costs written by a later pass";
        eviction_requests_total: Counter = "karpenter_pods_eviction_requests_total" ["code"]
            Alpha, "Calls of the eviction API by HTTP status";
        drained_total: Counter = "karpenter_pods_drained_total" ["reason"]
            Alpha, "Pods evicted from nodes that are being removed";
    }
}
