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
            let own = command.candidates.iter().filter(|candidate| candidate.pool == *name);
            let own: BTreeSet<&NodeId> = own.map(|candidate| &candidate.target.id).collect();
            let counts = counts(world, name, &gone, &own);
            let allowed = allowed(world, &pool.disruption.budgets, command.reason, counts.total);
            // A machine that is not ready and has nothing to lose is disrupted whether it goes or not: it counts against
            // what goes by decision, and against nothing else.
            // Nor do machines that are not ready count against a repair; one that has not come up counts nowhere.
            let living = match command.reason {
                DisruptionReason::Empty => counts.own - counts.own_silent,
                DisruptionReason::Unhealthy => 0,
                DisruptionReason::Drifted | DisruptionReason::Underutilized => counts.own,
            };
            let exceeds = counts.own > 0 && counts.own + counts.going > allowed
                || living > 0 && living + counts.going + counts.silent > allowed;
            if exceeds {
                let detail = format!(
                    "{} are to go for being {}, {} are disrupted, {allowed} of {} allowed",
                    counts.own,
                    command.reason,
                    counts.going + counts.silent,
                    counts.total
                );
                findings.push(Finding::new(Rule::Budget, name, detail));
            }
        }
        gone.extend(command.nodes());
    }
}

/// Returns the number that `budgets` allow for `reason` now: zero if one of them cannot be understood.
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

/// Machines of a pool that count.
#[derive(Default)]
struct Counts {
    total: u32,
    /// Machines that are leaving, or gone by then.
    going: u32,
    /// Other machines that are not ready.
    silent: u32,
    /// Machines of the command.
    own: u32,
    /// Machines of the command that are not ready.
    own_silent: u32,
}

fn counts(world: &World<'_>, pool: &PoolName, gone: &BTreeSet<&NodeId>, own: &BTreeSet<&NodeId>) -> Counts {
    let mut counts = Counts::default();
    for node in &world.snapshot.nodes {
        let terminating =
            node.claim.as_ref().is_none_or(|claim| claim.is_true(ConditionType::InstanceTerminating));
        let rebooting = node.claim.as_ref().is_some_and(|claim| claim.is_true(ConditionType::Rebooting));
        if node.pool().as_ref() != Some(pool) || !(node.initialized() || rebooting) || terminating {
            continue;
        }
        let (going, is_own) =
            (rebooting || node.is_leaving() || gone.contains(&node.id), own.contains(&node.id));
        counts.total += 1;
        counts.going += u32::from(going);
        counts.silent += u32::from(!going && !node.ready);
        counts.own += u32::from(is_own);
        counts.own_silent += u32::from(is_own && !going && !node.ready);
    }
    counts
}
