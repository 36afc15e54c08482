//! Pod disruption budgets that an eviction has to pass, as in the eviction API (`policy/v1`), and the rule that commands of
//! one plan do not count on the same disruption: a machine whose pods would wait for those of another one to be replaced
//! stays until then.

use std::collections::BTreeMap;

use karpenter_model::{Node, Plan, Pod, PodDisruptionBudget, PodPhase};

use super::commands::subject;
use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let mut to_drain: Vec<&Node> = world.snapshot.nodes.iter().map(AsRef::as_ref).collect();
    to_drain.retain(|node| node.is_leaving());
    for command in &plan.commands {
        let nodes: Vec<&Node> = command.nodes().filter_map(|id| world.machine(id)).collect();
        if command.repair.as_ref().is_some_and(|repair| repair.drain.is_some()) {
            // Its drain ends whether they leave or not.
            to_drain.extend(nodes);
            continue;
        }
        let mut taken: BTreeMap<(&str, &str), i32> = BTreeMap::new();
        for (budget, _) in to_drain.iter().flat_map(|node| guarded(world, node)) {
            *taken.entry((budget.namespace.as_str(), &budget.name)).or_default() += 1;
        }
        for (budget, pod) in nodes.iter().flat_map(|node| guarded(world, node)) {
            let taken = taken.get(&(budget.namespace.as_str(), budget.name.as_str())).copied().unwrap_or(0);
            // One that allows nothing at all is what blocks the removal itself.
            if budget.disruptions_allowed > 0 && taken >= budget.disruptions_allowed {
                let detail = format!("{} needs the eviction that other machines wait for", pod.key);
                findings.push(Finding::new(Rule::Removal, subject(command), detail));
            }
        }
        to_drain.extend(nodes);
    }
}

/// Pods of `node` whose eviction would use up a disruption, each with its budget.
fn guarded<'w>(
    world: &'w World<'_>,
    node: &'w Node,
) -> impl Iterator<Item = (&'w PodDisruptionBudget, &'w Pod)> {
    node.pods.iter().filter_map(|pod| match asked(world, pod)[..] {
        [budget] if uses_up(budget, pod) => Some((budget, pod.as_ref())),
        _ => None,
    })
}

/// The budgets that an eviction of `pod` asks: none for a pod that is not evicted, or has not begun to run.
pub(super) fn asked<'w>(world: &'w World<'_>, pod: &Pod) -> Vec<&'w PodDisruptionBudget> {
    if !pod.is_evictable(world.snapshot.now) || pod.phase == PodPhase::Pending {
        return Vec::new();
    }
    let budgets = world.snapshot.budgets.iter().map(AsRef::as_ref);
    budgets.filter(|budget| budget.covers(pod)).collect()
}

/// Returns whether an eviction of `pod` counts against `budget`: healthy pods do; others go without where the policy always
/// allows that, or where no fewer pods are healthy than have to be, and some have to be.
pub(super) fn uses_up(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let healthy = pod.ready == Some(true);
    let served = 0 < budget.desired_healthy && budget.desired_healthy <= budget.current_healthy;
    healthy || !(served || budget.always_allow_unhealthy)
}
