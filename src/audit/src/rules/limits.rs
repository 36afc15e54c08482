//! Pools stay within their limits however large their claims turn out (spec scheduling 15).

use std::collections::BTreeMap;

use karpenter_model::resources;
use karpenter_model::{Node, Plan, PoolName, Quantity, Resources};

use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let mut added: BTreeMap<&PoolName, Resources> = BTreeMap::new();
    for launch in &plan.launches {
        let types = world.types_of(launch);
        let largest = Resources::max(types.iter().map(|candidate| &candidate.capacity));
        added.entry(&launch.pool).or_default().add(&largest.with(resources::NODES, Quantity::ONE));
    }
    for (pool, added) in added {
        let Some(limits) = world.pool(pool).and_then(|pool| pool.limits.as_ref()) else { continue };
        let staying = world.snapshot.nodes.iter().filter(|node| !node.is_leaving());
        let own = staying.filter(|node| node.pool().as_ref() == Some(pool));
        let total = own.fold(added, |sum, node| sum.merge(&largest(world, node, pool)));
        for (name, limit) in limits.iter() {
            if total.amount(name.as_str()) > *limit {
                let detail = format!("{name} would be {} of {limit}", total.amount(name.as_str()));
                findings.push(Finding::new(Rule::Limits, pool, detail));
            }
        }
    }
}

/// Returns the capacity of a machine, or the most it may become while it is not launched.
fn largest(world: &World<'_>, node: &Node, pool: &PoolName) -> Resources {
    let known = node.effective_capacity();
    let (Some(claim), Some(types)) = (node.unlaunched(), world.snapshot.instance_types.get(pool)) else {
        return known;
    };
    let possible = types.iter().filter(|one| claim.requirements.intersects(&one.requirements).is_ok());
    possible.fold(known, |most, one| Resources::max([&most, &one.capacity]))
}
