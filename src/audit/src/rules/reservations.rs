//! Reservations are promised at most as often as they have instances (spec core-scheduling 17).

use std::collections::BTreeMap;

use karpenter_model::{CapacityType, LabelValue, Launch, Plan, label};

use crate::finding::{Finding, Rule, Subject};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let Some(key) = world.registry().reservation_id.as_ref() else { return };
    if !world.snapshot.settings.gates.reserved_capacity {
        return;
    }
    let mut promised: BTreeMap<LabelValue, u32> = BTreeMap::new();
    for launch in plan.launches.iter().filter(|launch| is_reserved(launch)) {
        let ids = launch.requirements.value_of(key);
        match ids.concrete().filter(|ids| !ids.is_empty()) {
            None => {
                let detail = "is reserved capacity without a reservation";
                findings.push(Finding::new(Rule::Reservation, launch.bin, detail));
            }
            Some(ids) => ids.iter().for_each(|id| *promised.entry(id.clone()).or_default() += 1),
        }
    }
    for (id, promised) in promised {
        let count = instances(world, &id);
        if promised > count {
            let detail = format!("is promised to {promised} claims, {count} instances are left");
            findings.push(Finding::new(Rule::Reservation, Subject::Reservation(id.name()), detail));
        }
    }
}

/// Whether `launch` can only become reserved capacity.
fn is_reserved(launch: &Launch) -> bool {
    let capacity_type = launch.requirements.value_of(&label::CAPACITY_TYPE.into());
    let reserved = CapacityType::Reserved.as_str();
    capacity_type.concrete().is_some_and(|values| values.len() == 1 && values.contains(reserved))
}

/// Instances of reservation `id` that are left, by the most cautious offering.
fn instances(world: &World<'_>, id: &LabelValue) -> u32 {
    let types = world.snapshot.instance_types.values().flat_map(|types| types.iter());
    let available = types.flat_map(|known| known.offerings.iter()).filter(|offering| offering.available);
    let counts = available.filter_map(|offering| offering.reservation.as_ref());
    counts.filter(|known| known.id.as_str() == id.as_str()).map(|known| known.count).min().unwrap_or(0)
}
