//! How many machines of a pool may be disrupted at once (spec core-disruption 3.4).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karpenter_model::{
    Budget, Claim, ConditionType, DisruptionReason, Node, NodeId, Pool, PoolName, Snapshot,
};

use crate::disrupt::cron::Schedule;

/// A budget that cannot be evaluated; nothing may be disrupted then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid(pub(crate) String);

/// Why a machine may not be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exhausted {
    /// Its pool loses enough machines already.
    UsedUp(PoolName),
    /// A budget of its pool cannot be evaluated.
    Invalid(String),
}

/// The budget of one pool for one reason, as metrics show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetState {
    /// Machines that may be disrupted at once, before those that are; zero when a budget cannot be evaluated and
    /// [`BudgetState::NO_LIMIT`] when none applies.
    pub allowed: u32,
    /// Machines that are disrupted already: not ready, leaving, or in a command.
    pub consuming: u32,
}

impl BudgetState {
    /// What the reference shows for "no limit".
    pub const NO_LIMIT: u32 = i32::MAX.unsigned_abs();
}

/// What is left of each pool's budgets.
#[derive(Debug)]
pub(crate) struct Budgets<'a> {
    pools: BTreeMap<&'a PoolName, Counts>,
    allowed: BTreeMap<(&'a PoolName, DisruptionReason), Result<u32, Invalid>>,
}

/// Machines of a pool.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Those that count.
    total: u32,
    /// Those of them that are disrupted already.
    consuming: u32,
    /// Those this pass has taken.
    taken: u32,
}

impl<'a> Budgets<'a> {
    /// The budgets of all pools; machines in `taken` are being disrupted whatever they look like.
    pub(crate) fn new(snapshot: &'a Snapshot, taken: &BTreeSet<NodeId>) -> Self {
        let mut pools: BTreeMap<&PoolName, Counts> =
            snapshot.pools.iter().map(|pool| (&pool.name, Counts::default())).collect();
        for node in snapshot.nodes.iter().filter(|node| counts(node)) {
            let Some(counts) = node.pool().and_then(|pool| pools.get_mut(&pool)) else { continue };
            counts.total += 1;
            let consuming = !node.ready || node.is_leaving() || taken.contains(&node.id);
            counts.consuming += u32::from(consuming);
        }
        let mut all = BTreeMap::new();
        for pool in &snapshot.pools {
            let total = pools.get(&pool.name).map_or(0, |counts| counts.total);
            for reason in DisruptionReason::ALL {
                all.insert((&pool.name, reason), allowed(pool, reason, total, snapshot.now));
            }
        }
        Self { pools, allowed: all }
    }

    /// Takes one machine of `pool` out of its budget for `reason`, and of what the other reasons have left.
    pub(crate) fn take(&mut self, pool: &PoolName, reason: DisruptionReason) -> Result<(), Exhausted> {
        let used_up = || Exhausted::UsedUp(pool.clone());
        let Some(counts) = self.pools.get_mut(pool) else { return Err(used_up()) };
        match self.allowed.get(&(pool, reason)) {
            Some(Ok(allowed)) if *allowed > counts.consuming.saturating_add(counts.taken) => {
                counts.taken += 1;
                Ok(())
            }
            Some(Err(invalid)) => Err(Exhausted::Invalid(invalid.0.clone())),
            Some(Ok(_)) | None => Err(used_up()),
        }
    }

    /// What metrics show, as it was before anything was taken.
    pub(crate) fn states(&self) -> BTreeMap<(PoolName, DisruptionReason), BudgetState> {
        let state = |(key, allowed): (&(&PoolName, DisruptionReason), &Result<u32, Invalid>)| {
            let allowed = allowed.as_ref().map_or(0, |allowed| (*allowed).min(BudgetState::NO_LIMIT));
            let consuming = self.pools.get(key.0).map_or(0, |counts| counts.consuming);
            ((key.0.clone(), key.1), BudgetState { allowed, consuming })
        };
        self.allowed.iter().map(state).collect()
    }
}

/// Whether `node` counts for budgets at all: ours, initialized, and its instance not going down already.
fn counts(node: &Node) -> bool {
    let going = |claim: &Claim| claim.is_true(ConditionType::InstanceTerminating);
    node.initialized() && node.claim.as_deref().is_some_and(|claim| !going(claim))
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
