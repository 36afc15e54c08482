//! Metrics about `NodePools` (spec disruption 6).

use super::area::area;

area! {
    /// What `NodePools` allow, use and cost.
    pub struct NodePools {
        limit: Gauge = "karpenter_nodepools_limit" ["resource_type", "nodepool"]
            Alpha, "Limits of the NodePool";
        usage: Gauge = "karpenter_nodepools_usage" ["resource_type", "nodepool"]
            Alpha, "Resources the nodes of the NodePool have";
        cost_total: Gauge = "karpenter_nodepools_cost_total" ["nodepool"]
            Alpha, "Price of the nodes of the NodePool, in dollars per hour";
        cost_tracker_errors_total: Counter = "karpenter_nodepools_cost_tracker_errors_total" ["nodepool"]
            Alpha, "Nodes whose price could not be found";
        allowed_disruptions: Gauge = "karpenter_nodepools_allowed_disruptions" ["nodepool", "reason"]
            Alpha, "Nodes the budgets of the NodePool let go now";
        nodes_consuming_budgets: Gauge = "karpenter_nodepools_nodes_consuming_budgets" ["nodepool", "reason"]
            Alpha, "Nodes that count against the budgets of the NodePool";
    }
}
