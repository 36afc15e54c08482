//! No pool loses more machines at once than its budgets allow (spec disruption 3.4).

use std::collections::BTreeSet;

use karpenter_model::{Budget, ConditionType, DisruptionReason, NodeId, Plan, PoolName};

use crate::cron;
use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    // Commands start in their order, and a machine that goes for one reason uses up what others have left.
    let mut gone: BTreeSet<&NodeId> = BTreeSet::new();
    for command in &plan.commands {
        let pools: BTreeSet<&PoolName> = command.candidates.iter().map(|candidate| &candidate.pool).collect();
        for name in pools {
            let Some(pool) = world.pool(name) else { continue };
            let own = command.candidates.iter().filter(|candidate| candidate.pool == *name).count();
            let (total, disrupted) = counts(world, name, &gone);
            let allowed = allowed(world, &pool.disruption.budgets, command.reason, total);
            if u32::try_from(own).unwrap_or(u32::MAX).saturating_add(disrupted) > allowed {
                let detail = format!(
                    "{own} are to go for being {}, {disrupted} are disrupted, {allowed} of {total} allowed",
                    command.reason
                );
                findings.push(Finding::new(Rule::Budget, name, detail));
            }
        }
        gone.extend(command.nodes());
    }
}

/// What `budgets` allow for `reason` now: nothing at all if one of them cannot be understood.
fn allowed(world: &World<'_>, budgets: &[Budget], reason: DisruptionReason, total: u32) -> u32 {
    let mut least = u32::MAX;
    for budget in budgets {
        let open = match &budget.window {
            None => Some(true),
            Some(window) => cron::is_open(&window.schedule, window.duration, world.snapshot.now.as_second()),
        };
        let (Some(nodes), Some(open)) = (budget.nodes.of(total), open) else { return 0 };
        if open && budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason)) {
            least = least.min(nodes);
        }
    }
    least
}

/// Machines of a pool that count, and those that are disrupted already or `gone` by then.
fn counts(world: &World<'_>, pool: &PoolName, gone: &BTreeSet<&NodeId>) -> (u32, u32) {
    let own = world.snapshot.nodes.iter().filter(|node| {
        let terminating =
            node.claim.as_ref().is_none_or(|claim| claim.is_true(ConditionType::InstanceTerminating));
        node.pool().as_ref() == Some(pool) && node.initialized() && !terminating
    });
    own.fold((0, 0), |(total, disrupted), node| {
        let is_disrupted = !node.ready || node.is_leaving() || gone.contains(&node.id);
        (total + 1, disrupted + u32::from(is_disrupted))
    })
}
