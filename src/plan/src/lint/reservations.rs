//! Capacity reservations that a node class selects and no pool launches into, and pools of reserved capacity alone whose class
//! selects none (<https://github.com/aws/karpenter-provider-aws/issues/8255>).

use karpenter_model::CapacityType;
use karpenter_model::names::label;

use super::{LintFinding, LintSeverity, Linted, PoolRead};

pub(super) fn check(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    for (key, class) in linted.objects.of_kind("EC2NodeClass") {
        let terms = class["spec"]["capacityReservationSelectorTerms"].as_array();
        let selects = terms.is_some_and(|terms| !terms.is_empty());
        let pools = linted.pools.iter().filter(|read| read.pool.template.node_class.name == key.name);
        let allowed: Vec<(&PoolRead, [bool; 3])> = pools.map(|read| (read, allowed(linted, read))).collect();
        if selects && !allowed.is_empty() && allowed.iter().all(|(_, [reserved, ..])| !reserved) {
            found.push(unused(&key.name));
        }
        let waiting = allowed.into_iter().filter(|(_, allowed)| !selects && *allowed == [true, false, false]);
        found.extend(waiting.map(|(read, _)| {
            read.error(
                "reservations-missing",
                "spec.template.spec.nodeClassRef.name",
                format!(
                    "only reserved capacity is allowed, and node class `{}` selects no reservations",
                    key.name
                ),
                "add capacityReservationSelectorTerms to the node class, or allow another capacity type",
            )
        }));
    }
}

/// Returns whether the pool allows reserved, spot and on-demand capacity.
fn allowed(linted: &Linted<'_>, read: &PoolRead) -> [bool; 3] {
    let kinds = read.pool.requirements(linted.registry).value_of(&label::CAPACITY_TYPE.into());
    [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand]
        .map(|kind| kinds.allows(kind.as_str()))
}

fn unused(class: &str) -> LintFinding {
    let problem = "no pool of the class allows the capacity type `reserved`, so nothing is launched into the reservations";
    LintFinding {
        object: format!("EC2NodeClass/{class}"),
        field: "spec.capacityReservationSelectorTerms".to_owned(),
        rule: "reservations-unused",
        severity: LintSeverity::Warning,
        problem: problem.to_owned(),
        remedy: "add `reserved` to the values of karpenter.sh/capacity-type of a pool, or remove the terms"
            .to_owned(),
        origin: None,
    }
}
