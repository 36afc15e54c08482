//! Counts of NodeClaims that are deleted and of the pods that this moves: one rule for every place that deletes one.

use karpenter_api::NodeClaim;
use karpenter_model::claim::termination_mode;
use karpenter_model::names::label;
use karpenter_model::{ConsolidationPolicy, ProviderId};

use super::step::label_of;
use crate::Context;

/// Counts a NodeClaim that was deleted for `reason`, and its pods that have to move; deletions that only follow another one
/// have no reason and are not counted. `policy` is that of its pool if consolidation has chosen it.
pub fn disrupted(
    context: &Context,
    claim: &NodeClaim,
    reason: Option<&str>,
    policy: Option<ConsolidationPolicy>,
) {
    let Some(reason) = reason else { return };
    let (pool, capacity_type) = (label_of(claim, label::NODE_POOL), label_of(claim, label::CAPACITY_TYPE));
    let labels = [reason, pool, capacity_type, policy_label(policy), mode_of(claim)];
    context.metrics.nodeclaims.disrupted_total.inc(labels);
    context.metrics.pods.disruption_initiated_total.add(labels, moving_pods(context, claim));
    tracing::debug!(reason, "deleted nodeclaim");
}

/// Pods of the claim's Nodes that would come back elsewhere: neither of a DaemonSet nor static.
fn moving_pods(context: &Context, claim: &NodeClaim) -> u64 {
    let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).map(ProviderId::from);
    let nodes = id.map(|id| context.view.nodes_of(&id)).unwrap_or_default();
    let pods = nodes.iter().flat_map(|node| context.view.pods_on(&node.name));
    u64::try_from(pods.filter(|pod| pod.is_reschedulable()).count()).unwrap_or(u64::MAX)
}

/// Returns the mode of the claim's drain. A period that cannot be read counts as none, as it does for the drain.
fn mode_of(claim: &NodeClaim) -> &'static str {
    termination_mode(claim.spec.termination_grace_period.as_ref().and_then(|period| period.span().ok()))
}

const fn policy_label(policy: Option<ConsolidationPolicy>) -> &'static str {
    match policy {
        None => "",
        Some(ConsolidationPolicy::WhenEmpty) => "when_empty",
        Some(ConsolidationPolicy::WhenEmptyOrUnderutilized) => "when_empty_or_underutilized",
        Some(ConsolidationPolicy::Balanced) => "balanced",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_mode_of_a_termination_follows_the_grace_period_of_the_claim() {
        let table = [
            (json!(null), "graceful"),
            (json!("0s"), "forceful"),
            (json!("1s"), "eventual"),
            (json!("48h"), "eventual"),
            (json!("soon"), "graceful"),
        ];
        for (period, mode) in table {
            let mut claim = json!({
                "metadata": {"name": "a"},
                "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
            });
            if !period.is_null() {
                claim["spec"]["terminationGracePeriod"] = period.clone();
            }
            let claim: NodeClaim = serde_json::from_value(claim).unwrap();
            assert_eq!(mode_of(&claim), mode, "{period}");
        }
    }
}
