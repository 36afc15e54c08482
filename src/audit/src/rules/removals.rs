//! Only machines that may go are removed (spec core-disruption 3.2 and 3.6).

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_model::{ConditionType, Node, Plan, RemovalTarget, label};

use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let used: BTreeSet<_> =
        plan.nominations.iter().filter_map(|n| world.node(&n.target)).map(|node| &node.id).collect();
    let mut removed = BTreeSet::new();
    for gone in plan.commands.iter().flat_map(|command| &command.candidates) {
        let target = &gone.target;
        let mut find = |detail: &str| findings.push(Finding::new(Rule::Removal, &target.id, detail));
        if !removed.insert(&target.id) {
            find("is removed twice");
        }
        if used.contains(&target.id) {
            find("is removed although the plan sends a pod there");
        }
        match world.snapshot.nodes.iter().find(|node| node.id == target.id) {
            None => find("does not exist"),
            Some(node) => objections(world, node, target).into_iter().for_each(&mut find),
        }
    }
}

/// Everything that speaks against removing `node` for being empty.
fn objections(world: &World<'_>, node: &Node, target: &RemovalTarget) -> Vec<&'static str> {
    let now = world.snapshot.now;
    let pool = node.pool().and_then(|pool| world.pool(&pool));
    let claim = node.claim.as_deref();
    let names = claim.map(|claim| &claim.name) == Some(&target.claim)
        && node.name.as_ref() == Some(&target.node);
    let annotated =
        node.effective_annotations().get(label::DO_NOT_DISRUPT).is_some_and(|value| value == "true");
    let covered = |pod: &karpenter_model::Pod| {
        let mut budgets = world.snapshot.budgets.iter().filter(|budget| budget.covers(pod));
        let refuses = |budget: &karpenter_model::PodDisruptionBudget| {
            budget.disruptions_allowed <= 0 && !(budget.always_allow_unhealthy && pod.ready == Some(false))
        };
        let first = budgets.next();
        pod.is_evictable(now) && (first.is_some_and(|budget| refuses(budget)) || budgets.next().is_some())
    };
    let moving = |pod: &karpenter_model::Pod| pod.is_reschedulable() && pod.eviction_cost() > 0;
    let table = [
        ("is not managed, or its names are wrong", !names),
        ("is not initialized", !node.initialized()),
        ("is on its way out already", node.is_leaving()),
        ("is nominated for a pod", node.is_nominated(now)),
        ("says not to disrupt it", annotated),
        ("has a pod that says not to disrupt it", node.pods.iter().any(|pod| !pod.is_disruptable(now))),
        ("has a pod that must not be evicted now", node.pods.iter().any(|pod| covered(pod))),
        ("has pods that would have to move", node.pods.iter().any(|pod| moving(pod))),
        ("belongs to no pool, or to a static one", pool.is_none_or(|pool| pool.replicas.is_some())),
        ("has not been quiet long enough", !quiet(world, node)),
    ];
    table.into_iter().filter_map(|(objection, holds)| holds.then_some(objection)).collect()
}

/// Whether nothing happened on `node` for as long as its pool wants.
fn quiet(world: &World<'_>, node: &Node) -> bool {
    let wanted = node.pool().and_then(|pool| world.pool(&pool)?.disruption.consolidate_after);
    let since = node
        .claim
        .as_deref()
        .and_then(|claim| claim.last_pod_event.or_else(|| claim.true_since(ConditionType::Initialized)));
    let (Some(wanted), Some(since)) = (wanted, since) else { return false };
    let elapsed = world.snapshot.now.duration_since(since);
    Duration::try_from(elapsed).unwrap_or(Duration::ZERO) >= wanted
}
