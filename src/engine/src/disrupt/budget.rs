//! How many machines of a pool may be disrupted at once (spec core-disruption 3.4).

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_model::{Budget, ConditionType, DisruptionReason, Node, Pool, PoolName, Snapshot};

use crate::disrupt::cron::Schedule;

/// A budget that cannot be evaluated; nothing may be disrupted then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid(pub(crate) String);

/// What is left of each pool's budget for one reason.
#[derive(Debug)]
pub(crate) struct Budgets {
    left: BTreeMap<PoolName, Result<u32, Invalid>>,
}

impl Budgets {
    /// The budgets of all pools for `reason`.
    pub(crate) fn new(snapshot: &Snapshot, reason: DisruptionReason) -> Self {
        let left = snapshot.pools.iter().map(|pool| {
            let (total, consuming) = counts(pool, snapshot.nodes.iter().map(AsRef::as_ref));
            let allowed = allowed(pool, reason, total, snapshot.now);
            (pool.name.clone(), allowed.map(|allowed| allowed.saturating_sub(consuming)))
        });
        Self { left: left.collect() }
    }

    /// Takes one machine of `pool` out of its budget: whether there was one left.
    pub(crate) fn take(&mut self, pool: &PoolName) -> Result<bool, Invalid> {
        match self.left.get_mut(pool) {
            Some(Ok(left)) => {
                let took = *left > 0;
                *left = left.saturating_sub(1);
                Ok(took)
            }
            Some(Err(invalid)) => Err(invalid.clone()),
            None => Ok(false),
        }
    }
}

/// Machines of `pool` that count, and those of them that are disrupted already: not ready or leaving.
fn counts<'a>(pool: &Pool, nodes: impl Iterator<Item = &'a Node>) -> (u32, u32) {
    let (mut total, mut consuming) = (0, 0);
    for node in nodes {
        let Some(claim) = &node.claim else { continue };
        let counts = node.initialized() && !claim.is_true(ConditionType::InstanceTerminating);
        if counts && node.pool().as_ref() == Some(&pool.name) {
            total += 1;
            consuming += u32::from(!node.ready || node.is_leaving());
        }
    }
    (total, consuming)
}

/// The strictest active budget of `pool` for `reason`; no budget is no limit. One budget that cannot be
/// evaluated blocks the pool, even when it is about another reason.
fn allowed(pool: &Pool, reason: DisruptionReason, total: u32, now: Timestamp) -> Result<u32, Invalid> {
    let mut strictest = u32::MAX;
    for budget in &pool.disruption.budgets {
        let nodes = nodes(budget, total, now)?;
        if budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason)) {
            strictest = strictest.min(nodes);
        }
    }
    Ok(strictest)
}

/// Machines `budget` allows out of `total`; no limit outside its window.
fn nodes(budget: &Budget, total: u32, now: Timestamp) -> Result<u32, Invalid> {
    let nodes = budget
        .nodes
        .of(total)
        .ok_or_else(|| Invalid(format!("nodes {:?} is not understood", budget.nodes)))?;
    let Some(window) = &budget.window else { return Ok(nodes) };
    let schedule = Schedule::parse(&window.schedule).map_err(|error| Invalid(error.to_string()))?;
    Ok(if schedule.is_open(window.duration, now) { nodes } else { u32::MAX })
}

#[cfg(test)]
mod tests;
