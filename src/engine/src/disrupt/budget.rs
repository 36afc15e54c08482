//! Budgets: the number of nodes of a pool that may be disrupted at once (spec disruption 3.4).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karpenter_model::pool::BudgetWindow;
use karpenter_model::{
    Budget, Claim, ConditionType, DisruptionReason, Node, NodeId, Pool, PoolName, Snapshot,
};

use crate::disrupt::budget::cron::Schedule;
use crate::disrupt::candidate::Candidate;

/// A budget that cannot be evaluated; nothing may be disrupted then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid(pub(crate) String);

/// Reason why a node may not be taken out of the budget of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exhausted {
    /// The pool loses enough nodes already.
    UsedUp {
        pool: PoolName,
        allowed: u32,
        total: u32,
        disrupted: u32,
        /// End of a window that limits it, if that can be determined.
        until: Option<Timestamp>,
    },
    /// A budget of the pool cannot be evaluated.
    Invalid(String),
}

/// The budget of one pool for one reason, as metrics show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetState {
    /// Nodes that may be disrupted at once, before those that are; zero when a budget cannot be evaluated and
    /// [`BudgetState::NO_LIMIT`] when none applies.
    pub allowed: u32,
    /// Nodes that are disrupted already: leaving, rebooting, in a command or, but for repair, not ready.
    pub consuming: u32,
    /// Nodes that count.
    pub total: u32,
}

impl BudgetState {
    /// Number that the reference shows for "no limit".
    pub const NO_LIMIT: u32 = i32::MAX.unsigned_abs();
}

/// State of a budget's window, for callers that judge pools before they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// The schedule cannot be evaluated; nothing may be disrupted then.
    Invalid(String),
    /// At all times: windows follow each other without a gap, or none ever begins, which counts as open.
    Always,
    /// At some times.
    Sometimes,
}

/// Returns the state of `window` at `now`.
pub fn opening(window: &BudgetWindow, now: Timestamp) -> Opening {
    match Schedule::parse(&window.schedule) {
        Err(error) => Opening::Invalid(error.to_string()),
        Ok(schedule) if schedule.changes(window.duration, now).is_none() => Opening::Always,
        Ok(_) => Opening::Sometimes,
    }
}

/// Rest of each pool's budgets.
#[derive(Debug, Clone)]
pub(crate) struct Budgets<'a> {
    pools: BTreeMap<&'a PoolName, Counts>,
    allowed: BTreeMap<(&'a PoolName, DisruptionReason), Result<Allowed, Invalid>>,
}

/// Number of nodes that the budgets of a pool allow for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Allowed {
    nodes: u32,
    /// End of the window of the strictest budget, if it has one.
    until: Option<Timestamp>,
}

/// Nodes of a pool.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Nodes that count.
    total: u32,
    /// Counted nodes that are disrupted already.
    consuming: u32,
    /// Nodes that are disrupted only because they are not ready.
    silent: u32,
    /// Nodes this pass has taken.
    taken: u32,
    /// Nodes this pass has taken that were not ready, and so disrupted before.
    taken_silent: u32,
}

impl Counts {
    /// Nodes that are disrupted when one more is to go. A node that is not ready is so whether it goes or not, so only
    /// those that go by decision count against one.
    fn disrupted(&self, silent: bool) -> u32 {
        if silent {
            (self.consuming - self.silent).saturating_add(self.taken)
        } else {
            // Those taken that were not ready are among the consuming ones already.
            self.consuming.saturating_add(self.taken - self.taken_silent)
        }
    }
}

impl<'a> Budgets<'a> {
    /// The budgets of all pools; nodes in `taken` are being disrupted whatever they look like.
    pub(crate) fn new(snapshot: &'a Snapshot, taken: &BTreeSet<NodeId>) -> Self {
        let mut pools: BTreeMap<&PoolName, Counts> =
            snapshot.pools.iter().map(|pool| (&pool.name, Counts::default())).collect();
        for node in snapshot.nodes.iter().filter(|node| counts(node)) {
            let Some(counts) = node.pool().and_then(|pool| pools.get_mut(&pool)) else { continue };
            counts.total += 1;
            let leaving = node.is_leaving() || node.is_rebooting() || taken.contains(&node.id);
            // A node that is not ready counts as disrupted, whatever the cause (spec disruption 3.4).
            counts.consuming += u32::from(leaving || !node.ready);
            counts.silent += u32::from(!leaving && !node.ready);
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

    /// Checks whether the candidate may go for `reason` now.
    pub(crate) fn check(&self, candidate: &Candidate<'_>, reason: DisruptionReason) -> Result<(), Exhausted> {
        if is_exempt(candidate, reason) {
            return Ok(());
        }
        let pool = &candidate.pool.name;
        let counts = self.pools.get(pool).copied().unwrap_or_default();
        let disrupted = counts.disrupted(passes_over_silent(candidate, reason));
        match self.allowed.get(&(pool, reason)) {
            Some(Ok(allowed)) if allowed.nodes > disrupted => Ok(()),
            Some(Err(invalid)) => Err(Exhausted::Invalid(invalid.0.clone())),
            // A pool without an entry is not known and allows nothing.
            allowed => {
                let allowed = allowed.and_then(|allowed| allowed.as_ref().ok());
                Err(Exhausted::UsedUp {
                    pool: pool.clone(),
                    allowed: allowed.map_or(0, |allowed| allowed.nodes),
                    total: counts.total,
                    disrupted,
                    until: allowed.and_then(|allowed| allowed.until),
                })
            }
        }
    }

    /// Returns how many nodes of `pool` may be disrupted at once for `reason`.
    pub(crate) fn allowed(&self, pool: &PoolName, reason: DisruptionReason) -> u32 {
        match self.allowed.get(&(pool, reason)) {
            Some(Ok(allowed)) => allowed.nodes,
            Some(Err(_)) | None => 0,
        }
    }

    /// Takes the candidate out of the budget of its pool for `reason`, and out of what the other reasons have left.
    pub(crate) fn take(
        &mut self,
        candidate: &Candidate<'_>,
        reason: DisruptionReason,
    ) -> Result<(), Exhausted> {
        self.check(candidate, reason)?;
        let exempt = is_exempt(candidate, reason);
        if let Some(counts) = self.pools.get_mut(&candidate.pool.name).filter(|_| !exempt) {
            counts.taken += 1;
            counts.taken_silent += u32::from(!candidate.node.ready && passes_over_silent(candidate, reason));
        }
        Ok(())
    }

    /// Returns whether nodes that are not ready use up all that `pool` allows for `reason`.
    pub(crate) fn used_up_by_silent(&self, pool: &PoolName, reason: DisruptionReason) -> bool {
        // Repair passes over nodes that are not ready, so they use up nothing for it.
        if reason == DisruptionReason::Unhealthy {
            return false;
        }
        let counts = self.pools.get(pool).copied().unwrap_or_default();
        let allowed = self.allowed.get(&(pool, reason)).and_then(|allowed| allowed.as_ref().ok());
        allowed.is_some_and(|allowed| {
            counts.consuming >= allowed.nodes && counts.consuming - counts.silent < allowed.nodes
        })
    }

    /// Pools with nodes none of which may go for `reason`, whatever is disrupted already.
    pub(crate) fn closed(&self, reason: DisruptionReason) -> impl Iterator<Item = &'a PoolName> {
        let shut = move |pool: &PoolName| match self.allowed.get(&(pool, reason)) {
            Some(Ok(allowed)) => allowed.nodes == 0,
            Some(Err(_)) => true,
            None => false,
        };
        let with_machines = self.pools.iter().filter(|(_, counts)| counts.total > 0);
        with_machines.map(|(pool, _)| *pool).filter(move |pool| shut(pool))
    }

    /// Returns the values for metrics, as they were before anything was taken.
    pub(crate) fn states(&self) -> BTreeMap<(PoolName, DisruptionReason), BudgetState> {
        let state = |(key, allowed): (&(&PoolName, DisruptionReason), &Result<Allowed, Invalid>)| {
            let allowed = allowed.as_ref().map_or(0, |allowed| allowed.nodes.min(BudgetState::NO_LIMIT));
            let Counts { total, consuming, silent, .. } = self.pools.get(key.0).copied().unwrap_or_default();
            // Repair passes over nodes that are not ready, so the metric leaves them out as well.
            let consuming = if key.1 == DisruptionReason::Unhealthy { consuming - silent } else { consuming };
            ((key.0.clone(), key.1), BudgetState { allowed, consuming, total })
        };
        self.allowed.iter().map(state).collect()
    }
}

/// Returns whether `node` counts for budgets at all: ours, initialized or about to be again after a reboot, and its instance not
/// being removed already.
fn counts(node: &Node) -> bool {
    let going = |claim: &Claim| claim.is_true(ConditionType::InstanceTerminating);
    (node.initialized() || node.is_rebooting()) && node.claim.as_deref().is_some_and(|claim| !going(claim))
}

/// Returns whether the nodes of the pool that are not ready leave its budget to the candidate: a broken pool is to be repaired,
/// and one that is gone in all but name may go: nothing runs on it and its kubelet is silent. It may go although it
/// uses up the budget itself, so that it does not keep itself and all others for ever
/// (<https://github.com/kubernetes-sigs/karpenter/issues/2967>).
fn passes_over_silent(candidate: &Candidate<'_>, reason: DisruptionReason) -> bool {
    match reason {
        DisruptionReason::Unhealthy => true,
        DisruptionReason::Empty => !candidate.node.ready,
        DisruptionReason::Drifted | DisruptionReason::Underutilized => false,
    }
}

/// Returns whether the candidate neither needs the budget of its pool nor uses it: a node that broke before it came up never
/// counted.
fn is_exempt(candidate: &Candidate<'_>, reason: DisruptionReason) -> bool {
    reason == DisruptionReason::Unhealthy && !candidate.node.initialized()
}

/// The strictest active budget of `pool` for `reason`; no budget is no limit. One budget that cannot be
/// evaluated blocks the pool, even when it is about another reason.
fn allowed(pool: &Pool, reason: DisruptionReason, total: u32, now: Timestamp) -> Result<Allowed, Invalid> {
    let mut strictest = Allowed { nodes: u32::MAX, until: None };
    for budget in &pool.disruption.budgets {
        // Before the reason is looked at: an invalid budget blocks the pool for every reason (spec disruption
        // 3.4).
        let limit = limit(budget, total, now)?;
        if budget.is_for(reason) && limit.nodes < strictest.nodes {
            strictest = limit;
        }
    }
    Ok(strictest)
}

/// Nodes `budget` allows out of `total`; no limit outside its window.
fn limit(budget: &Budget, total: u32, now: Timestamp) -> Result<Allowed, Invalid> {
    let nodes = budget
        .nodes
        .of(total)
        .ok_or_else(|| Invalid(format!("nodes {:?} is not understood", budget.nodes)))?;
    let Some(window) = &budget.window else { return Ok(Allowed { nodes, until: None }) };
    let schedule = Schedule::parse(&window.schedule).map_err(|error| Invalid(error.to_string()))?;
    Ok(if schedule.is_open(window.duration, now) {
        Allowed { nodes, until: schedule.closes(window.duration, now) }
    } else {
        Allowed { nodes: u32::MAX, until: None }
    })
}

pub(super) mod cron;
#[cfg(test)]
mod tests;
