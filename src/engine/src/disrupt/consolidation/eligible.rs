//! Nodes eligible for consolidation, in the order of the checks (spec disruption 3.9).

use karpenter_model::names::label;
use karpenter_model::report::ReasonCode;
use karpenter_model::{ConsolidationPolicy, Snapshot};

use super::refusal::Refusal;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::empty::quiet_for;

/// Checks that consolidation may act on `candidate`, or returns the first reason against it. Empty nodes
/// belong to another method.
pub(crate) fn check(candidate: &Candidate<'_>, snapshot: &Snapshot) -> Result<(), Refusal> {
    let pool = candidate.pool;
    if pool.replicas.is_some() {
        return Err(Refusal::silent(ReasonCode::PoolStatic, ""));
    }
    let labels = candidate.node.effective_labels();
    if candidate.instance_type.is_none() {
        let name = labels.get(label::INSTANCE_TYPE).map_or("", |name| name.as_str());
        let event = format!("Instance Type {name:?} not found");
        return Err(Refusal::with_event(ReasonCode::InstanceTypeUnknown, name, event));
    }
    for (key, code) in
        [(label::CAPACITY_TYPE, ReasonCode::CapacityTypeUnknown), (label::ZONE, ReasonCode::ZoneUnknown)]
    {
        if !labels.contains_key(key) {
            return Err(Refusal::with_event(code, "", format!("Node doesn't have required label {key:?}")));
        }
    }
    let Some(quiet) = pool.disruption.consolidate_after else {
        let event = format!("NodePool {:?} has consolidation disabled", pool.name);
        return Err(Refusal::with_event(ReasonCode::ConsolidationDisabled, "", event));
    };
    // Emptiness has had its turn with this node: what held it there holds here too.
    if candidate.is_empty() {
        return Err(Refusal::silent(
            ReasonCode::ConsolidateAfter,
            "the node is empty and waits for its turn",
        ));
    }
    if pool.disruption.policy == ConsolidationPolicy::WhenEmpty {
        let event = format!("NodePool {:?} has non-empty consolidation disabled", pool.name);
        return Err(Refusal::with_event(ReasonCode::OnlyWhenEmpty, "", event));
    }
    quiet_for(candidate.node, pool, quiet, snapshot).map_err(|reason| Refusal { reason, event: None })
}
