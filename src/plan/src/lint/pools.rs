//! Pools beside each other: weights without effect, pools that want the same pods, spot without a way out.

use std::time::Duration;

use karpenter_model::names::label;
use karpenter_model::settings::FeatureGates;
use karpenter_model::{CapacityType, Pool, Undefined, resources};

use super::{LintFinding, Linted, PoolRead};

pub(super) fn check(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    let dynamic: Vec<&PoolRead> = linted.pools.iter().filter(|read| read.pool.replicas.is_none()).collect();
    for (index, read) in dynamic.iter().enumerate() {
        let others =
            || dynamic.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| *other);
        weight(read, others().count(), found);
        for other in dynamic.iter().skip(index + 1) {
            overlap(linted, read, other, found);
        }
        spot(linted, read, others(), found);
    }
    // A static pool launches for no pod, but what it launches has a class and an end as well.
    for read in linted.pools {
        class(linted, read, found);
        expiry(read, found);
        fixed_number(read, linted.gates, found);
    }
}

/// About the longest that a machine takes until it is ready for pods, most of which take one minute.
const BOOT: Duration = Duration::from_mins(5);

/// Nodes that expire while they come.
fn expiry(read: &PoolRead, found: &mut Vec<LintFinding>) {
    if let Some(life) = read.pool.template.expire_after.filter(|life| *life < BOOT) {
        let problem = format!("a node may live {}s, which is not more than it takes to boot", life.as_secs());
        let remedy = "give nodes at least some hours, or write Never";
        found.push(read.error("expires-while-booting", "spec.template.spec.expireAfter", problem, remedy));
    }
}

/// A fixed number of nodes that the limit cuts off, or that leaves no room for a replacement
/// (<https://github.com/aws/karpenter-provider-aws/issues/8873>).
fn fixed_number(read: &PoolRead, gates: FeatureGates, found: &mut Vec<LintFinding>) {
    let limit = read.pool.limits.as_ref().and_then(|limits| limits.get(resources::NODES));
    let (Some(wanted), Some(limit)) = (read.pool.replicas, limit) else { return };
    let limit = limit.as_units_ceil();
    let first = gates.terminate_first_drift;
    let problem = if limit < wanted {
        let drift = if first { "" } else { ", and none that drifts is replaced" };
        format!("no more than {limit} of {wanted} nodes are ever launched{drift}")
    } else if limit == wanted && wanted > 0 && !first {
        "a replacement comes before a node goes, and there is no room for it: nodes that drift stay for ever"
            .to_owned()
    } else {
        return;
    };
    let remedy =
        "raise the limit above spec.replicas, or open the gate TerminateFirstDrift to let nodes go first";
    let remedy = if first { "raise the limit to spec.replicas at least" } else { remedy };
    found.push(read.warning("static-limit", "spec.limits.nodes", problem, remedy));
}

/// A weight that decides between no two pools. It does as soon as there is another: a pod that selects no node and tolerates
/// what taints them may go to either, whatever their capacity types, architectures and labels are.
fn weight(read: &PoolRead, others: usize, found: &mut Vec<LintFinding>) {
    if read.pool.weight > 0 && others == 0 {
        let problem = "no other pool launches for pods, so its weight changes nothing".to_owned();
        found.push(read.warning("weight-unused", "spec.weight", problem, "remove it"));
    }
}

fn overlap(linted: &Linted<'_>, one: &PoolRead, other: &PoolRead, found: &mut Vec<LintFinding>) {
    if one.pool.weight == other.pool.weight && meets(linted, &one.pool, &other.pool) {
        let problem = format!(
            "pool `{}` has the same weight and takes the same pods, so which of them launches is not for you to say",
            other.pool.name
        );
        found.push(one.warning(
            "overlap",
            "spec.weight",
            problem,
            "give one of them more weight, or keep pods apart by taints or labels",
        ));
    }
}

/// Returns whether some node could be of either pool, and some pod go to either.
fn meets(linted: &Linted<'_>, one: &Pool, other: &Pool) -> bool {
    let (mine, theirs) = (one.requirements(linted.registry), other.requirements(linted.registry));
    same_taints(one, other) && mine.intersects(&theirs).is_ok()
}

fn same_taints(one: &Pool, other: &Pool) -> bool {
    let has = |pool: &Pool, taint| {
        pool.template.taints.iter().any(|own: &karpenter_model::Taint| own.matches(taint))
    };
    one.template.taints.iter().all(|taint| has(other, taint))
        && other.template.taints.iter().all(|taint| has(one, taint))
}

/// A pool of spot capacity only, whose pods wait when there is none.
fn spot<'a>(
    linted: &Linted<'_>,
    read: &PoolRead,
    mut others: impl Iterator<Item = &'a PoolRead>,
    found: &mut Vec<LintFinding>,
) {
    let kinds = read.pool.requirements(linted.registry).value_of(&label::CAPACITY_TYPE.into());
    let allows = |kind: CapacityType| kinds.allows(kind.as_str());
    if !allows(CapacityType::Spot) || allows(CapacityType::OnDemand) || allows(CapacityType::Reserved) {
        return;
    }
    let way_out = others.any(|other| {
        let mut without = read.pool.requirements(linted.registry);
        without.remove(label::CAPACITY_TYPE);
        let theirs = other.pool.requirements(linted.registry);
        let on_demand = theirs.value_of(&label::CAPACITY_TYPE.into()).allows(CapacityType::OnDemand.as_str());
        // Keys that only one of them names do not keep pods out that ask for neither.
        on_demand
            && same_taints(&read.pool, &other.pool)
            && theirs.compatible(&without, Undefined::WellKnown(linted.registry)).is_ok()
    });
    if !way_out {
        let index = read.pool_requirement(label::CAPACITY_TYPE);
        let field = index.map_or_else(
            || "spec.template.metadata.labels".to_owned(),
            |index| format!("spec.template.spec.requirements[{index}].values"),
        );
        let problem =
            "only spot capacity is allowed, and no other pool takes the pods when there is none".to_owned();
        found.push(read.warning(
            "no-spot-fallback",
            &field,
            problem,
            "add on-demand to the values, or a lighter pool with on-demand",
        ));
    }
}

/// A node class that is not there; with no node class at all they are simply in other files.
fn class(linted: &Linted<'_>, read: &PoolRead, found: &mut Vec<LintFinding>) {
    let reference = &read.pool.template.node_class;
    let mut classes = linted.objects.of_kind(&reference.kind).peekable();
    if classes.peek().is_some() && classes.all(|(key, _)| key.name != reference.name) {
        let problem =
            format!("there is no {} `{}`, so the pool takes no part", reference.kind, reference.name);
        found.push(read.error(
            "no-node-class",
            "spec.template.spec.nodeClassRef.name",
            problem,
            "correct the name, or add the class",
        ));
    }
}

impl PoolRead {
    /// The place of the requirement with this key.
    fn pool_requirement(&self, key: &str) -> Option<usize> {
        self.written.spec.template.spec.requirements.iter().position(|one| one.key == key)
    }
}
