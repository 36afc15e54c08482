//! Requirements no offering meets, values no instance type has, limits no node fits into or that never count.
//!
//! Pools for which not every type is known are left alone if they name a value none of the known types has.

use karpenter_model::names::label;
use karpenter_model::resources::NODES;
use karpenter_model::{InstanceType, Operator, Quantity, Requirements, Resources, resources};

use super::{LintFinding, Linted, PoolRead};

/// Keys with the same values in every list of types: they follow from the node class, or there are only two.
const OF_EVERY_LIST: [&str; 3] = [label::OS, label::WINDOWS_BUILD, label::ARCH];

pub(super) fn check(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    let Some(offerings) = linted.offerings else { return };
    for read in linted.pools {
        let Some(types) = offerings.types.get(&read.pool.name).filter(|types| !types.is_empty()) else {
            continue;
        };
        let all: Vec<&InstanceType> = types.iter().map(|one| &**one).collect();
        let requirements = read.pool.requirements(linted.registry);
        let offered = |one: &&InstanceType| {
            requirements.intersects(&one.requirements).is_ok()
                && one.offerings.iter().any(|offering| offering.is_compatible(&requirements, linted.registry))
        };
        let fitting: Vec<&InstanceType> = all.iter().copied().filter(offered).collect();
        // Values may be of types that are not known here, and then so is what follows from them.
        let is_open = |key: &str| offerings.partial && !OF_EVERY_LIST.contains(&key);
        if dead_values(read, &all, is_open, found) {
            continue;
        }
        if fitting.is_empty() {
            let problem =
                "no instance type is offered that meets all requirements, so the pool launches nothing";
            found.push(read.error(
                "no-offering",
                "spec.template.spec.requirements",
                problem.to_owned(),
                "remove or widen requirements until some type meets all of them",
            ));
            continue;
        }
        room(read, &fitting, found);
        limits(read, &fitting, found);
    }
}

/// Finds listed values that no type has, as a zone or a family that does not exist. Labels of users are theirs to invent.
/// Returns whether there are such values of keys that are open: types that are not known may have them.
fn dead_values(
    read: &PoolRead,
    types: &[&InstanceType],
    is_open: impl Fn(&str) -> bool,
    found: &mut Vec<LintFinding>,
) -> bool {
    let mut left_open = false;
    for (index, written) in read.written.spec.template.spec.requirements.iter().enumerate() {
        let Some(requirement) = read.pool.template.requirements.get(&written.key) else { continue };
        if written.operator != Operator::In
            || !types.iter().any(|one| one.requirements.contains(&written.key))
        {
            continue;
        }
        let has = |value: &str, of: &Requirements| of.get(&written.key).is_some_and(|one| one.allows(value));
        let somewhere = |value: &str| {
            types.iter().any(|one| {
                has(value, &one.requirements)
                    || one.offerings.iter().any(|offering| has(value, &offering.requirements))
            })
        };
        let dead: Vec<&str> = written
            .values()
            .iter()
            .map(String::as_str)
            .filter(|value| requirement.allows(value) && !somewhere(value))
            .collect();
        if dead.is_empty() {
            continue;
        }
        if is_open(&written.key) {
            left_open = true;
        } else {
            let problem = format!("no instance type has `{}` as `{}`", dead.join("`, `"), written.key);
            let field = format!("spec.template.spec.requirements[{index}].values");
            found.push(read.warning("no-such-value", &field, problem, "remove the value or correct it"));
        }
    }
    left_open
}

/// Finds a resource that every pod needs and no node of the pool has left for pods.
fn room(read: &PoolRead, fitting: &[&InstanceType], found: &mut Vec<LintFinding>) {
    let rooms: Vec<Resources> = fitting.iter().map(|one| one.allocatable()).collect();
    for name in [resources::CPU, resources::MEMORY, resources::PODS] {
        if rooms.iter().all(|room| room.amount(name) <= Quantity::ZERO) {
            let problem = format!("nodes of every instance type of the pool have no `{name}` left for pods");
            found.push(read.error(
                "no-room",
                "spec.template.spec.nodeClassRef.name",
                problem,
                "let the kubelet of the node class reserve less and take more pods, or allow larger types",
            ));
        }
    }
}

fn limits(read: &PoolRead, fitting: &[&InstanceType], found: &mut Vec<LintFinding>) {
    let Some(limits) = &read.pool.limits else { return };
    for (name, limit) in limits.iter() {
        let field = format!("spec.limits.{name}");
        if name.as_str() == NODES {
            if limit.is_zero() {
                found.push(read.warning(
                    "limit-zero",
                    &field,
                    "no node is ever launched".to_owned(),
                    "raise it, or delete the pool",
                ));
            }
            continue;
        }
        let amounts = fitting.iter().map(|one| amount(one, name.as_str()));
        let having: Vec<_> = amounts.filter(|amount| !amount.is_zero()).collect();
        match having.iter().min() {
            None => {
                let problem = format!("no instance type of the pool has `{name}`, so the limit never counts");
                found.push(read.warning(
                    "limit-unused",
                    &field,
                    problem,
                    "correct the name of the resource, or remove the limit",
                ));
            }
            Some(least) if least > limit && having.len() == fitting.len() => {
                let problem = format!(
                    "the smallest instance type has {least} and the limit is {limit}, so no node fits"
                );
                found.push(read.error(
                    "limit-too-small",
                    &field,
                    problem,
                    "raise the limit, or allow smaller types",
                ));
            }
            Some(_) => {}
        }
    }
}

fn amount(one: &InstanceType, name: &str) -> Quantity {
    let capacity: &Resources = &one.capacity;
    capacity.amount(name)
}
