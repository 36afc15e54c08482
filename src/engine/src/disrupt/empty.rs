//! Removal of machines nothing would have to leave (spec core-disruption 3.6).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use karpenter_model::report::ReasonCode;
use karpenter_model::{
    ConditionType, DisruptionReason, Node, NodeId, NodeOutcome, Pool, Reason, Removal, RemovalReason,
    Snapshot,
};

use crate::disrupt::budget::Budgets;
use crate::disrupt::candidate::{Candidate, candidate};
use crate::disrupt::price::price;

/// Empty machines to remove, dearest first as far as budgets allow, and what became of every machine.
pub(crate) fn removals(
    snapshot: &Snapshot,
    used: &BTreeSet<NodeId>,
) -> (Vec<Removal>, BTreeMap<NodeId, NodeOutcome>) {
    let mut outcomes = BTreeMap::new();
    let mut candidates = Vec::new();
    for node in &snapshot.nodes {
        let verdict = candidate(node, snapshot, used.contains(&node.id));
        match verdict.and_then(|candidate| empty(candidate, snapshot)) {
            Ok(candidate) => candidates.push(candidate),
            Err(reason) => {
                outcomes.insert(node.id.clone(), NodeOutcome::Kept(reason));
            }
        }
    }
    candidates.sort_by_cached_key(|candidate| {
        (Reverse(price(candidate.node, candidate.pool, snapshot)), candidate.node.id.clone())
    });
    let mut budgets = Budgets::new(snapshot, DisruptionReason::Empty);
    let mut removals = Vec::new();
    for candidate in candidates {
        let outcome = match within_budget(&candidate, &mut budgets) {
            Ok(()) => {
                removals.push(Removal { target: candidate.target(), reason: RemovalReason::Empty });
                NodeOutcome::Removed(RemovalReason::Empty)
            }
            Err(reason) => NodeOutcome::Kept(reason),
        };
        outcomes.insert(candidate.node.id.clone(), outcome);
    }
    (removals, outcomes)
}

/// Whether the candidate has been empty for long enough.
fn empty<'a>(candidate: Candidate<'a>, snapshot: &Snapshot) -> Result<Candidate<'a>, Reason> {
    if candidate.pool.replicas.is_some() {
        return Err(Reason::bare(ReasonCode::PoolStatic));
    }
    let Some(quiet) = candidate.pool.disruption.consolidate_after else {
        return Err(Reason::bare(ReasonCode::ConsolidationDisabled));
    };
    let pods = candidate.node.pods.iter().filter(|pod| pod.is_reschedulable());
    // Pods that cost nothing to move do not hold a machine.
    let costly = pods.filter(|pod| pod.eviction_cost() > 0).count();
    if costly > 0 {
        return Err(Reason::new(ReasonCode::NotEmpty, format_args!("{costly} pods")));
    }
    quiet_for(candidate.node, candidate.pool, quiet, snapshot)?;
    Ok(candidate)
}

/// Whether no pod came or went for `quiet`, counted from the last pod event or from initialization
/// (spec core-disruption 1.12).
fn quiet_for(node: &Node, pool: &Pool, quiet: Duration, snapshot: &Snapshot) -> Result<(), Reason> {
    let claim = node.claim.as_deref();
    let since =
        claim.and_then(|claim| claim.last_pod_event.or_else(|| claim.true_since(ConditionType::Initialized)));
    let Some(since) = since else { return Err(Reason::bare(ReasonCode::NotInitialized)) };
    let elapsed = Duration::try_from(snapshot.now.duration_since(since)).unwrap_or(Duration::ZERO);
    if elapsed < quiet {
        let detail = format!("{}s of {}s of pool {}", elapsed.as_secs(), quiet.as_secs(), pool.name);
        return Err(Reason::new(ReasonCode::ConsolidateAfter, detail));
    }
    Ok(())
}

fn within_budget(candidate: &Candidate<'_>, budgets: &mut Budgets) -> Result<(), Reason> {
    match budgets.take(&candidate.pool.name) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Reason::new(ReasonCode::Budget, &candidate.pool.name)),
        Err(invalid) => Err(Reason::new(ReasonCode::BudgetInvalid, invalid.0)),
    }
}
