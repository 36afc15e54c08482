//! Metrics about voluntary disruption (spec disruption 6).

use super::area::area;
use super::buckets;

area! {
    /// Decisions to remove or replace nodes.
    pub struct Disruption {
        decision_evaluation_duration_seconds: Histogram = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds" ["reason", "consolidation_type"]
            Beta, "Duration of one pass of one method", buckets::DURATION;
        decisions_total: Counter = "karpenter_voluntary_disruption_decisions_total" ["decision", "reason", "consolidation_type"]
            Stable, "Commands started";
        decisions_by_nodepool_total: Counter = "karpenter_voluntary_disruption_decisions_by_nodepool_total" ["nodepool", "decision", "reason", "consolidation_type"]
            Alpha, "Commands started, by NodePool";
        eligible_nodes: Gauge = "karpenter_voluntary_disruption_eligible_nodes" ["reason"]
            Beta, "Candidates of one method";
        consolidation_timeouts_total: Counter = "karpenter_voluntary_disruption_consolidation_timeouts_total" ["consolidation_type"]
            Beta, "Searches that ran out of time";
        failed_validations_total: Counter = "karpenter_voluntary_disruption_failed_validations_total" ["consolidation_type"]
            Alpha, "Commands dropped by the second look";
        queue_failures_total: Counter = "karpenter_voluntary_disruption_queue_failures_total" ["decision", "reason", "consolidation_type"]
            Beta, "Replacements that did not become ready";
        held_nodes: Gauge = "karpenter_voluntary_disruption_held_nodes" ["brake"]
            Undocumented, "Nodes that a brake keeps from being disrupted";
        kept_nodes: Gauge = "karpenter_voluntary_disruption_kept_nodes" ["reason"]
            Undocumented, "Nodes that stay, by the first reason why";
        consolidation_score: Histogram = "karpenter_consolidation_score" ["decision", "nodepool", "policy"]
            Alpha, "Scores of the Balanced policy", buckets::SCORE;
        consolidation_moves_total: Counter = "karpenter_consolidation_moves_total" ["decision", "nodepool", "policy"]
            Alpha, "Moves the Balanced policy looked at";
    }
}
