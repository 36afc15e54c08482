//! Machines are removed only if they may go, each once and by its right names (spec disruption 3.2, 3.6 to 3.9).

pub(crate) mod repair;

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_model::names::{annotation, label};
use karpenter_model::plan::command::Candidate;
use karpenter_model::{ConditionType, ConsolidationPolicy, DisruptionReason, Method, Node, Plan, Pod, Pool};

use super::evictions;
use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let promised = plan.commands.iter().flat_map(|command| &command.nominations).chain(&plan.nominations);
    let used: BTreeSet<_> =
        promised.filter_map(|promise| world.node(&promise.target)).map(|node| &node.id).collect();
    let mut removed = BTreeSet::new();
    for command in &plan.commands {
        for candidate in &command.candidates {
            let id = &candidate.target.id;
            let mut find = |detail: &str| findings.push(Finding::new(Rule::Removal, id, detail));
            if !removed.insert(id) {
                find("is removed twice");
            }
            if used.contains(id) {
                find("is removed although the plan sends a pod there");
            }
            match world.machine(id) {
                None => find("does not exist"),
                Some(node) => {
                    let Some(pool) = node.pool().and_then(|pool| world.pool(&pool)) else {
                        find("belongs to no pool");
                        continue;
                    };
                    let general = objections(world, node, candidate, command.method);
                    let own = by_method(world, node, pool, command.method);
                    general.into_iter().chain(own).for_each(&mut find);
                }
            }
        }
    }
}

/// Returns all that blocks the removal of `node`, whatever the reason for it.
fn objections(world: &World<'_>, node: &Node, stated: &Candidate, method: Method) -> Vec<&'static str> {
    let now = world.snapshot.now;
    let claim = node.claim.as_deref();
    let names = claim.map(|claim| &claim.name) == Some(&stated.target.claim)
        && node.name.as_ref() == Some(&stated.target.node);
    let facts = node.pool().as_ref() == Some(&stated.pool)
        && node.instance_type() == stated.instance_type
        && node.zone() == stated.zone
        && node.capacity_type() == stated.capacity_type;
    let moving = node.pods.iter().filter(|pod| pod.is_reschedulable()).map(|pod| &pod.key);
    let annotated =
        node.effective_annotations().get(annotation::DO_NOT_DISRUPT).is_some_and(|value| value == "true");
    // A drain that has a deadline may run into pods that object.
    let deadline = claim.is_some_and(|claim| claim.termination_grace_period.is_some());
    // A broken node may go whether it has come up or not; the rules about repairs check whether its drain ends.
    let repaired = method == Method::Repair;
    let pods_have_a_say = !(repaired || method.reason() == DisruptionReason::Drifted && deadline);
    let zone_away = node.zone().is_some_and(|zone| world.snapshot.zones_away.contains(&zone));
    let types = world.snapshot.instance_types.get(&stated.pool);
    let stays = node.pods.iter().any(|pod| keeps_pod(world, pod));
    let table = [
        ("is not managed, or its names are wrong", !names),
        ("is not what the command says it is", !facts || !moving.eq(stated.pods.iter())),
        ("is not initialized", !repaired && !node.initialized()),
        ("is being rebooted already", claim.is_some_and(|claim| claim.is_true(ConditionType::Rebooting))),
        ("is already terminating", node.is_leaving() || node.deletion.is_some()),
        (
            "is nominated for a pod",
            (node.ready || !repaired) && node.nominated_until.is_some_and(|until| now < until),
        ),
        ("says not to disrupt it", !repaired && annotated),
        ("is in a zone the cluster is shifted away from", zone_away),
        ("has a pod that says not to disrupt it", pods_have_a_say && stays),
        (
            "has a pod that must not be evicted now",
            pods_have_a_say && node.pods.iter().any(|pod| refused(world, pod)),
        ),
        ("is of a pool whose instance types are not known", types.is_none_or(|types| types.is_empty())),
    ];
    table.into_iter().filter_map(|(objection, holds)| holds.then_some(objection)).collect()
}

/// Returns whether `pod` demands to stay.
fn keeps_pod(world: &World<'_>, pod: &Pod) -> bool {
    pod.is_active() && pod.blocks_disruption(world.snapshot.now)
}

/// Returns whether the eviction API would refuse to evict `pod` now.
fn refused(world: &World<'_>, pod: &Pod) -> bool {
    match evictions::asked(world, pod)[..] {
        [] => false,
        [budget] => budget.disruptions_allowed <= 0 && evictions::uses_up(budget, pod),
        [_, _, ..] => true,
    }
}

/// Returns the objections to the removal of `node` by `method`.
fn by_method(world: &World<'_>, node: &Node, pool: &Pool, method: Method) -> Vec<&'static str> {
    let drifted = node.claim.as_deref().is_some_and(|claim| claim.is_true(ConditionType::Drifted));
    let fixed = pool.replicas.is_some();
    let costly = node.pods.iter().any(|pod| pod.is_reschedulable() && pod.eviction_cost() > 0);
    let busy = ("has not been quiet long enough", !quiet(world, node, pool));
    let labels = node.effective_labels();
    let unlabelled = [label::INSTANCE_TYPE, label::ZONE, label::CAPACITY_TYPE];
    let table = match method {
        Method::Repair => Vec::new(),
        Method::Emptiness => vec![
            ("is of a pool with a fixed number of nodes", fixed),
            ("has pods that would have to move", costly),
            ("holds the room of a capacity buffer", node.buffer_pods > 0),
            busy,
        ],
        Method::StaticDrift => vec![("is not of a static pool", !fixed), ("has not drifted", !drifted)],
        Method::Drift => {
            vec![("is of a pool with a fixed number of nodes", fixed), ("has not drifted", !drifted)]
        }
        Method::MultiNode | Method::SingleNode | Method::ManyToMany => vec![
            ("is of a pool with a fixed number of nodes", fixed),
            (
                "is of a pool that removes empty nodes only",
                pool.disruption.policy == ConsolidationPolicy::WhenEmpty,
            ),
            ("does not say what it is", unlabelled.into_iter().any(|key| !labels.contains_key(key))),
            busy,
        ],
    };
    table.into_iter().filter_map(|(objection, holds)| holds.then_some(objection)).collect()
}

/// Returns whether nothing happened on `node` for as long as its pool demands.
fn quiet(world: &World<'_>, node: &Node, pool: &Pool) -> bool {
    let since = node
        .claim
        .as_deref()
        .and_then(|claim| claim.last_pod_event.or_else(|| claim.true_since(ConditionType::Initialized)));
    let (Some(wanted), Some(since)) = (pool.disruption.consolidate_after, since) else { return false };
    let elapsed = world.snapshot.now.duration_since(since);
    Duration::try_from(elapsed).unwrap_or(Duration::ZERO) >= wanted
}
