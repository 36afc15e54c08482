//! Commands in `Balanced` pools save at least half the share of the pool's cost that they disturb of its pods
//! (spec disruption 3.13). Written as one product against another: no fraction is ever computed.

use std::collections::BTreeSet;

use karpenter_model::plan::command::Candidate;
use karpenter_model::{
    Command, ConsolidationPolicy, DisruptionReason, Node, Plan, Pod, PoolName, Price, Snapshot,
};

use crate::finding::{Finding, Rule};
use crate::rules::commands::subject;
use crate::world::World;

/// The cost of moving one ordinary pod.
const POD: i128 = 1 << 27;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let consolidations = plan.commands.iter().filter(|one| one.reason == DisruptionReason::Underutilized);
    for command in consolidations {
        let pools: BTreeSet<&PoolName> = command.candidates.iter().map(|candidate| &candidate.pool).collect();
        for name in pools {
            let balanced =
                world.pool(name).is_some_and(|pool| pool.disruption.policy == ConsolidationPolicy::Balanced);
            if balanced && !is_worth_it(world.snapshot, command, name) {
                findings.push(Finding::new(
                    Rule::Score,
                    subject(command),
                    format!("not worth it for {name}"),
                ));
            }
        }
    }
}

fn is_worth_it(snapshot: &Snapshot, command: &Command, pool: &PoolName) -> bool {
    let paid = |candidates: &mut dyn Iterator<Item = &Candidate>| -> i128 {
        candidates.map(|candidate| i128::from(candidate.price.nanos())).sum()
    };
    let all = paid(&mut command.candidates.iter());
    let own = paid(&mut command.candidates.iter().filter(|candidate| candidate.pool == *pool));
    let bought: Price = command
        .replacements
        .iter()
        .filter_map(|launch| launch.cheapest.as_ref())
        .map(|offering| offering.price)
        .sum();
    let saved = all - i128::from(bought.nanos());
    if saved <= 0 || all == 0 {
        return false;
    }
    let share = saved * own / all;
    let nodes = || snapshot.nodes.iter().filter(|node| node.pool().as_ref() == Some(pool));
    let gone: BTreeSet<_> = command.nodes().collect();
    let total: i128 = nodes().map(|node| disturbance(node)).sum();
    let disturbed: i128 = nodes().filter(|node| gone.contains(&node.id)).map(|node| disturbance(node)).sum();
    let cost: i128 =
        nodes().filter_map(|node| cost(snapshot, node, pool)).map(|price| i128::from(price.nanos())).sum();
    // (share / cost) / (disturbed / total) >= 1 / 2
    cost > 0 && total > 0 && 2 * share * total >= cost * disturbed
}

/// Returns the cost of disturbing `node`: one, and the cost of its pods that would have to move.
fn disturbance(node: &Node) -> i128 {
    let eviction = |pod: &Pod| {
        let own = pod.disruption_cost.unwrap_or(pod.deletion_cost);
        let cost = POD + i128::from(own) + 4 * i128::from(pod.priority.unwrap_or(0));
        cost.clamp(0, 10 * POD)
    };
    let moving = node.pods.iter().filter(|pod| pod.is_reschedulable());
    POD + moving.map(|pod| eviction(pod)).sum::<i128>()
}

/// Returns the price of `node`, if that is known.
fn cost(snapshot: &Snapshot, node: &Node, pool: &PoolName) -> Option<Price> {
    node.claim.as_ref()?;
    let types = snapshot.instance_types.get(pool)?;
    let known = types.iter().find(|known| Some(&known.name) == node.instance_type().as_ref())?;
    let mut sold = known.offerings.iter().filter(|offering| {
        Some(&offering.zone) == node.zone().as_ref() && Some(offering.capacity_type) == node.capacity_type()
    });
    let id = snapshot.registry.reservation_id.as_ref().and_then(|key| node.effective_labels().get(key));
    let first = sold.clone().next();
    let reserved = sold.find(|offering| {
        offering.reservation.as_ref().is_some_and(|own| id.is_some_and(|id| *id == own.id.as_str()))
    });
    reserved.or(first).map(|offering| offering.price)
}
