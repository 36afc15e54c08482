//! No pool loses more machines at once than its budgets allow (spec core-disruption 3.4).
//!
//! Budgets with a schedule are left to the planner: whether their window is open is not re-derived here.

use std::collections::BTreeMap;

use karpenter_model::{ConditionType, DisruptionReason, Plan, Pool, PoolName};

use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let mut removed: BTreeMap<PoolName, u32> = BTreeMap::new();
    for id in plan.commands.iter().flat_map(karpenter_model::Command::nodes) {
        let node = world.snapshot.nodes.iter().find(|node| node.id == *id);
        if let Some(pool) = node.and_then(|node| node.pool()) {
            *removed.entry(pool).or_default() += 1;
        }
    }
    for (name, removed) in removed {
        let Some(pool) = world.pool(&name) else { continue };
        let (total, disrupted) = counts(world, &name);
        let allowed = allowed(pool, total);
        if removed + disrupted > allowed {
            let detail =
                format!("{removed} removals and {disrupted} disrupted, {allowed} of {total} allowed");
            findings.push(Finding::new(Rule::Budget, name, detail));
        }
    }
}

fn allowed(pool: &Pool, total: u32) -> u32 {
    let budgets = pool.disruption.budgets.iter().filter(|budget| {
        let about_empty =
            budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&DisruptionReason::Empty));
        about_empty && budget.window.is_none()
    });
    budgets.map(|budget| budget.nodes.of(total).unwrap_or(0)).min().unwrap_or(u32::MAX)
}

/// Machines of a pool that count, and those that are disrupted already.
fn counts(world: &World<'_>, pool: &PoolName) -> (u32, u32) {
    let own = world.snapshot.nodes.iter().filter(|node| {
        let terminating =
            node.claim.as_ref().is_none_or(|claim| claim.is_true(ConditionType::InstanceTerminating));
        node.pool().as_ref() == Some(pool) && node.initialized() && !terminating
    });
    own.fold((0, 0), |(total, disrupted), node| {
        (total + 1, disrupted + u32::from(!node.ready || node.is_leaving()))
    })
}
