//! Metrics about Nodes (spec disruption 6). Families whose labels depend on the provider are not here.

use super::area::area;
use super::buckets;

area! {
    /// The life of Nodes.
    pub struct Nodes {
        created_total: Counter = "karpenter_nodes_created_total" ["nodepool", "zone"]
            Stable, "Nodes registered";
        terminated_total: Counter = "karpenter_nodes_terminated_total" ["nodepool", "zone"]
            Stable, "Nodes whose finalizer was removed";
        drained_total: Counter = "karpenter_nodes_drained_total" ["nodepool"]
            Alpha, "Nodes drained";
        termination_duration_seconds: Summary = "karpenter_nodes_termination_duration_seconds" ["nodepool"]
            Beta, "From the deletion of a Node until its finalizer is removed";
        lifetime_duration_seconds: Histogram = "karpenter_nodes_lifetime_duration_seconds" ["nodepool"]
            Alpha, "Age of Nodes at their end", buckets::NODE_LIFETIME;
        reboots_total: Counter = "karpenter_nodes_reboots_total" ["result"]
            Beta, "Reboots of instances that have ended";
        reboot_duration_seconds: Histogram = "karpenter_nodes_reboot_duration_seconds" ["result"]
            Beta, "From the request of a reboot until its end", buckets::REBOOT;
        reboot_recovery_duration_seconds: Histogram = "karpenter_nodes_reboot_recovery_duration_seconds" []
            Beta, "From the call to the cloud until the node is ready again, for reboots that succeeded", buckets::REBOOT;
        utilization_percent: Collected = "karpenter_cluster_utilization_percent" ["resource_type"]
            Alpha, "Requested share of what all nodes offer";
    }
}
