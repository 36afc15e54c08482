//! Which machines may be disrupted at all (spec core-disruption 3.2), in the order of the checks.

use karpenter_model::report::ReasonCode;
use karpenter_model::{ClaimName, Node, NodeName, Pool, Reason, RemovalTarget, Snapshot, label};

/// A machine that may be disrupted.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) node: &'a Node,
    pub(crate) pool: &'a Pool,
    claim: ClaimName,
    name: NodeName,
}

impl Candidate<'_> {
    /// Its names.
    pub(crate) fn target(&self) -> RemovalTarget {
        RemovalTarget { id: self.node.id.clone(), claim: self.claim.clone(), node: self.name.clone() }
    }
}

/// The candidate for `node`, or the first reason against it. `used` says that this pass has sent a pod there.
pub(crate) fn candidate<'a>(
    node: &'a Node,
    snapshot: &'a Snapshot,
    used: bool,
) -> Result<Candidate<'a>, Reason> {
    let refuse = |code| Err(Reason::bare(code));
    let Some(claim) = &node.claim else { return refuse(ReasonCode::Unmanaged) };
    let Some(name) = node.name.clone().filter(|_| node.initialized()) else {
        return refuse(ReasonCode::NotInitialized);
    };
    if node.is_leaving() || node.deletion.is_some() {
        return refuse(ReasonCode::Leaving);
    }
    if used || node.is_nominated(snapshot.now) {
        return refuse(ReasonCode::Nominated);
    }
    if node.effective_annotations().get(label::DO_NOT_DISRUPT).is_some_and(|value| value == "true") {
        return refuse(ReasonCode::NodeDoNotDisrupt);
    }
    let pool = node.pool();
    let Some(pool) = snapshot.pools.iter().find(|candidate| Some(&candidate.name) == pool.as_ref()) else {
        return refuse(ReasonCode::PoolMissing);
    };
    // Not an error of the machine: its pool's types are unknown, so nothing can be said about it.
    if snapshot.instance_types.get(&pool.name).is_none_or(|types| types.is_empty()) {
        return refuse(ReasonCode::NoInstanceTypes);
    }
    if let Some(pod) = node.pods.iter().find(|pod| !pod.is_disruptable(snapshot.now)) {
        return Err(Reason::new(ReasonCode::PodDoNotDisrupt, &pod.key));
    }
    if let Some(reason) = blocked_by_budget(node, snapshot) {
        return Err(reason);
    }
    Ok(Candidate { node, pool, claim: claim.name.clone(), name })
}

/// A pod of `node` the eviction API would refuse to evict now: more than one budget covers it, or the one
/// that does allows no disruption.
fn blocked_by_budget(node: &Node, snapshot: &Snapshot) -> Option<Reason> {
    let evictable = node.pods.iter().filter(|pod| pod.is_evictable(snapshot.now));
    for pod in evictable {
        let covering: Vec<_> = snapshot.budgets.iter().filter(|budget| budget.covers(pod)).collect();
        let unhealthy = pod.ready == Some(false);
        let blocked = match covering[..] {
            [] => false,
            [budget] => budget.disruptions_allowed <= 0 && !(budget.always_allow_unhealthy && unhealthy),
            _ => true,
        };
        if blocked {
            let names: Vec<&str> = covering.iter().map(|budget| budget.name.as_str()).collect();
            let detail = format!("{} protects {}", names.join(", "), pod.key);
            return Some(Reason::new(ReasonCode::PodDisruptionBudget, detail));
        }
    }
    None
}
