//! Pods the planner does not place, whatever capacity there is (spec scheduling 11.4 and 22.1).

use karpenter_model::names::label;
use karpenter_model::report::ReasonCode;
use karpenter_model::requirement::syntax;
use karpenter_model::{
    Expression, NodeTerm, Operator, Pod, PodOutcome, PoolRefusal, Reason, Requirements, Snapshot,
};

use crate::volumes::Need;

/// Returns the outcome of `pod` if it is not to be placed. Pods that are not ours are ignored; pods we cannot
/// serve are unschedulable.
pub(crate) fn rejection(pod: &Pod, need: &Need, snapshot: &Snapshot) -> Option<PodOutcome> {
    let ignored = ignored(pod, need, snapshot);
    if !ignored.is_empty() {
        return Some(PodOutcome::Ignored(ignored));
    }
    let refused = unserved(pod, need, snapshot);
    let refusal = |reason| PoolRefusal { pool: None, reason };
    (!refused.is_empty()).then(|| PodOutcome::Unschedulable(refused.into_iter().map(refusal).collect()))
}

/// The outcome of a pod that no pool can serve, for `reason`.
pub(crate) fn refused(reason: Reason) -> PodOutcome {
    PodOutcome::Unschedulable(vec![PoolRefusal { pool: None, reason }])
}

/// All reasons to leave the pod alone.
fn ignored(pod: &Pod, need: &Need, snapshot: &Snapshot) -> Vec<Reason> {
    let registry = &snapshot.registry;
    let mut reasons = Vec::new();
    if opts_out(pod, snapshot) {
        reasons.push(Reason::bare(ReasonCode::OptedOut));
    }
    let selected = pod.node_selector.iter().map(|(key, value)| Expression {
        key: key.clone(),
        operator: Operator::In,
        values: vec![value.clone()],
        min_values: None,
    });
    let required = pod.required_terms.iter().flat_map(|term| term.expressions.iter().cloned());
    // Nodes that are there have host names, and a new one is none of them: pods may keep to some, or off them.
    for expression in selected.chain(required).filter(|expression| expression.key != label::HOSTNAME) {
        if let Err(error) = syntax::check(registry, &expression) {
            reasons.push(Reason::new(ReasonCode::InvalidRequirement, error));
        }
    }
    if pod.required_terms.iter().any(|term| !term.fields.is_empty()) {
        reasons.push(Reason::bare(ReasonCode::MatchFields));
    }
    // Read as no restriction, such a term would launch a machine that the scheduler does not use.
    if pod.required_terms.iter().any(NodeTerm::is_empty) {
        reasons.push(Reason::new(
            ReasonCode::InvalidRequirement,
            "a node selector term without expressions matches no node",
        ));
    }
    reasons.extend(need.problems.iter().map(|problem| Reason::new(ReasonCode::InvalidVolume, problem)));
    reasons
}

/// Returns whether the pod's own requirements exclude every pool.
fn opts_out(pod: &Pod, snapshot: &Snapshot) -> bool {
    let mut requirements = Requirements::from_labels(&snapshot.registry, &pod.node_selector);
    // Only the first term counts for the requirements of a pod (spec scheduling 8.3).
    if let Some(term) = pod.required_terms.first() {
        requirements.add_all(&Requirements::from_expressions(&snapshot.registry, &term.expressions));
    }
    requirements.get(label::NODE_POOL).is_some_and(|pool| pool.operator() == Operator::DoesNotExist)
}

/// Returns a reason for each feature that the planner does not serve: those are named rather than broken.
fn unserved(pod: &Pod, need: &Need, snapshot: &Snapshot) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if pod.has_resource_claims && snapshot.settings.ignore_dra_requests {
        reasons.push(Reason::bare(ReasonCode::ResourceClaims));
    }
    reasons.extend(need.taken.iter().map(|taken| Reason::new(ReasonCode::InvalidVolume, taken)));
    reasons
}
