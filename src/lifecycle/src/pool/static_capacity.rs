//! Pools with a fixed number of nodes: how many are missing, and which go when there are too many
//! (spec disruption 4.3).
//!
//! A machine counts in one of three ways: it stays, it is to be replaced by a disruption command (which brings its own
//! replacement), or it is being deleted. Nothing is remembered between two looks.

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{Claim, ClaimName, ConditionType, Node, Pool, PoolName};

/// Period between looks at a pool without an event.
pub const PERIOD: std::time::Duration = std::time::Duration::from_mins(1);
/// Delay of the next look at a pool whose node limit is reached.
pub const LIMITED_PERIOD: std::time::Duration = std::time::Duration::from_secs(30);

/// The machines of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members<'a> {
    /// Machines that stay.
    pub active: Vec<&'a Node>,
    /// Number of machines about to be replaced.
    pub pending: usize,
    /// Number of machines being deleted.
    pub deleting: usize,
}

impl<'a> Members<'a> {
    /// The machines of `pool` among all machines.
    pub fn of(pool: &PoolName, nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut members = Self { active: Vec::new(), pending: 0, deleting: 0 };
        for node in nodes {
            let Some(claim) = node.claim.as_ref().filter(|claim| claim.pool.as_ref() == Some(pool)) else {
                continue;
            };
            if claim.deletion.is_some() || claim.is_true(ConditionType::InstanceTerminating) {
                members.deleting += 1;
            } else if node.marked_for_deletion || claim.is_true(ConditionType::DisruptionReason) {
                members.pending += 1;
            } else {
                members.active.push(node);
            }
        }
        members
    }
}

/// Number of claims to create; zero for pools that are not ready, being deleted or without a fixed number.
pub fn missing(pool: &Pool, members: &Members<'_>) -> usize {
    let Some(wanted) = replicas(pool).filter(|_| pool.ready && !pool.deleting) else { return 0 };
    wanted.saturating_sub(members.active.len() + members.pending)
}

/// The claims to delete, in the order in which they are missed least: those without a machine, empty nodes, then by
/// what their pods cost, nodes with protected pods last. Budgets and protections do not count, the drain keeps them.
pub fn surplus(pool: &Pool, members: &Members<'_>, now: Timestamp) -> Vec<ClaimName> {
    // Claims of a pool that is being deleted go with the pool.
    let Some(wanted) = replicas(pool).filter(|_| !pool.deleting) else { return Vec::new() };
    let count = members.active.len().saturating_sub(wanted);
    let mut ranked: Vec<(Rank, &ClaimName)> = members
        .active
        .iter()
        .filter_map(|node| Some((rank(node, node.claim.as_deref()?, now), &node.claim.as_deref()?.name)))
        .collect();
    ranked.sort();
    ranked.into_iter().take(count).map(|(_, name)| name.clone()).collect()
}

fn replicas(pool: &Pool) -> Option<usize> {
    pool.replicas.map(|replicas| usize::try_from(replicas).unwrap_or_default())
}

/// Rank of a machine by the loss its removal would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Unlaunched,
    Empty,
    Busy { protected: bool, cost: i128 },
}

fn rank(node: &Node, claim: &Claim, now: Timestamp) -> Rank {
    if claim.provider_id.is_none() {
        return Rank::Unlaunched;
    }
    if node.pods.iter().all(|pod| pod.is_daemon() && !pod.blocks_disruption(now)) {
        return Rank::Empty;
    }
    let protected = node.pods.iter().any(|pod| pod.blocks_disruption(now));
    let pods: i128 = node.pods.iter().map(|pod| i128::from(pod.eviction_cost())).sum();
    Rank::Busy { protected, cost: pods * left_per_mille(claim, now) }
}

/// The share of a claim's life that is left, in thousandths: a node that expires soon anyway is missed less.
fn left_per_mille(claim: &Claim, now: Timestamp) -> i128 {
    let Some(life) = claim.expire_after.filter(|life| !life.is_zero()) else { return 1000 };
    let left = life.saturating_sub(since(claim.created_at, now));
    i128::try_from(left.as_millis() * 1000 / life.as_millis().max(1)).unwrap_or(1000)
}

#[cfg(test)]
mod tests;
