//! Metrics about `NodeClaims` (spec disruption 6).

use super::area::area;
use super::buckets;

area! {
    /// The life of `NodeClaims`.
    pub struct NodeClaims {
        created_total: Counter = "karpenter_nodeclaims_created_total" ["reason", "nodepool", "min_values_relaxed"]
            Stable, "NodeClaims created";
        terminated_total: Counter = "karpenter_nodeclaims_terminated_total" ["nodepool", "capacity_type", "zone"]
            Stable, "NodeClaims whose finalizer was removed";
        disrupted_total: Counter = "karpenter_nodeclaims_disrupted_total" ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"]
            Alpha, "NodeClaims the controller decided to delete";
        instance_termination_duration_seconds: Histogram = "karpenter_nodeclaims_instance_termination_duration_seconds" ["nodepool"]
            Beta, "From asking the cloud to end the instance until it is gone", buckets::INSTANCE_TERMINATION;
        termination_duration_seconds: Histogram = "karpenter_nodeclaims_termination_duration_seconds" ["nodepool"]
            Beta, "From the deletion of a NodeClaim until its finalizer is removed", buckets::CLAIM_TERMINATION;
        unhealthy_disrupted_total: Counter = "karpenter_nodeclaims_unhealthy_disrupted_total" ["condition", "nodepool", "capacity_type", "image_id", "termination_mode"]
            Alpha, "NodeClaims deleted because their node was unhealthy";
    }
}
