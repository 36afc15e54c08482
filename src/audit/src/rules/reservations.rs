//! A claim that may become reserved capacity names the reservations it may use, and those are named at most as often as
//! they have instances (spec scheduling 17).

use std::collections::BTreeMap;

use karpenter_model::names::label;
use karpenter_model::{CapacityType, Claim, LabelValue, Launch, Plan, Requirement, ReservationId};

use crate::finding::{Finding, Rule, Subject};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let Some(key) = world.registry().reservation_id.as_ref() else { return };
    if !world.snapshot.settings.gates.reserved_capacity {
        return;
    }
    let mut promised: BTreeMap<LabelValue, u32> = BTreeMap::new();
    for launch in plan.launches.iter().filter(|launch| may_be_reserved(launch)) {
        let ids = launch.requirements.get(key.as_str()).and_then(Requirement::concrete);
        match ids.filter(|ids| !ids.is_empty()) {
            None => findings.extend(usable(world, launch).map(|id| {
                let detail = format!("may be launched into reservation `{id}`, which it does not name");
                Finding::new(Rule::Reservation, launch.bin, detail)
            })),
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

/// Returns whether the requirements of `launch` allow reserved capacity.
fn may_be_reserved(launch: &Launch) -> bool {
    launch.requirements.value_of(&label::CAPACITY_TYPE.into()).allows(CapacityType::Reserved.as_str())
}

/// A reservation one of the types of `launch` could be launched into now.
fn usable<'a>(world: &World<'a>, launch: &Launch) -> Option<&'a ReservationId> {
    world.types_of(launch).into_iter().find_map(|known| {
        let accepted = known.offerings.iter().filter(|offering| {
            let reserved = offering.is_launchable() && offering.capacity_type == CapacityType::Reserved;
            reserved && offering.is_compatible(&launch.requirements, world.registry())
        });
        accepted
            .filter_map(|offering| offering.reservation.as_ref())
            .map(|reservation| &reservation.id)
            .next()
    })
}

/// Instances of reservation `id` that are left, by the most cautious offering, once the claims that can become nothing else
/// are launched.
fn instances(world: &World<'_>, id: &LabelValue) -> u32 {
    let only = |claim: &Claim, key: &str, value: &str| {
        let values = claim.requirements.get(key).and_then(Requirement::concrete);
        values.is_some_and(|values| values.len() == 1 && values.contains(value))
    };
    let takes = |claim: &&Claim| {
        let key = world.registry().reservation_id.as_ref().map_or("", |key| key.as_str());
        only(claim, label::CAPACITY_TYPE, CapacityType::Reserved.as_str()) && only(claim, key, id.as_str())
    };
    let taken = world.snapshot.nodes.iter().filter_map(|node| node.unlaunched()).filter(takes).count();
    offered(world, id).saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX))
}

/// Instances of reservation `id` that the offerings have, by the most cautious one.
fn offered(world: &World<'_>, id: &LabelValue) -> u32 {
    let types = world.snapshot.instance_types.values().flat_map(|types| types.iter());
    let available =
        types.flat_map(|known| known.offerings.iter()).filter(|offering| offering.is_launchable());
    let counts = available.filter_map(|offering| offering.reservation.as_ref());
    counts.filter(|known| known.id.as_str() == id.as_str()).map(|known| known.count).min().unwrap_or(0)
}
