//! Offerings of each type right now: zones, capacity types and prices (spec aws-provider 3.9).
//!
//! Every combination of zone and capacity type is listed, also those that cannot be had: absence would read as
//! "no longer sold", unavailability just steers launches elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::ec2nodeclass::{CapacityReservation, ReservationState};
use karpenter_aws_api::ec2::InstanceTypeInfo;
use karpenter_aws_api::id::{Zone as AwsZone, ZoneId};
use karpenter_cloud::OfferingKey;
use karpenter_model::names::label::{self, aws};
use karpenter_model::{
    CapacityType, InstanceType, InstanceTypeName, LabelKey, Offering, Price, Requirement, Requirements,
    Reservation, Resources, Zone,
};

use crate::catalogue::instance_type::compatibility::mismatch;
use crate::catalogue::instance_type::labels::capacity_types;
use crate::class::view::ClassView;
use crate::market::prices::{Book, Known, Source};
use crate::market::reservations::availability::Left;
use crate::market::unavailable::{Place, View};
use crate::network::placement_groups::Group;

/// Divisor of the on-demand price for a reservation, which is paid for anyway.
const NEXT_TO_FREE: i64 = 10_000_000;

/// Inputs of offerings, the same for all types.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub view: &'a ClassView<'a>,
    /// Every zone of the region.
    pub region_zones: &'a BTreeSet<&'a AwsZone>,
    pub prices: &'a Book,
    /// Prices that users have given for types without one.
    pub previews: &'a BTreeMap<InstanceTypeName, Price>,
}

/// Every offering of a type.
pub fn offerings(info: &InstanceTypeInfo, zones: &BTreeSet<AwsZone>, context: Context<'_>) -> Vec<Offering> {
    let compatible = mismatch(info, context.view).is_none();
    let mut offerings = Vec::new();
    let preview = context.previews.get(info.name.as_str());
    let preview = preview.map(|price| Known { price: *price, source: Source::File });
    let ways = capacity_types(info, context.view);
    for zone in context.region_zones {
        let sold = compatible && zones.contains(*zone);
        for way in &ways {
            let offering = match CapacityType::from_label(way) {
                Some(CapacityType::OnDemand) => {
                    let known = context.prices.on_demand(info.name.as_str());
                    base(zone, CapacityType::OnDemand, known.or(preview), sold, context)
                }
                Some(CapacityType::Spot) => {
                    let known = context.prices.spot(info.name.as_str(), zone.as_str());
                    base(zone, CapacityType::Spot, known.or(preview), sold, context)
                }
                // Each reservation is an offering of its own, see below.
                Some(CapacityType::Reserved) | None => continue,
            };
            offerings.push(offering);
        }
    }
    for reservation in context.view.reservations(info.name.as_str()) {
        let sold = compatible && zones.contains::<str>(&reservation.availability_zone);
        offerings.push(reserved(info, reservation, sold, context));
    }
    match &context.view.placement {
        Some(group) if group.partitions > 0 => per_partition(&offerings, group),
        Some(_) | None => offerings,
    }
}

/// Each offering once per partition of the placement group, so that pods can be spread over partitions.
fn per_partition(offerings: &[Offering], group: &Group) -> Vec<Offering> {
    let of_partition = |partition: u32| {
        offerings.iter().cloned().map(move |mut offering| {
            offering.requirements.add(is(aws::PLACEMENT_GROUP_PARTITION, &partition.to_string()));
            offering
        })
    };
    group.all_partitions().flat_map(of_partition).collect()
}

/// The partition an offering is in, when it is in one.
pub(crate) fn partition_of(offering: &Offering) -> Option<u32> {
    offering.requirements.get(aws::PLACEMENT_GROUP_PARTITION)?.any()?.as_str().parse().ok()
}

fn base(
    zone: &AwsZone,
    capacity_type: CapacityType,
    known: Option<Known>,
    sold: bool,
    context: Context<'_>,
) -> Offering {
    let placed = context.view.zones.contains_key(zone.as_str());
    let mut requirements = common(zone.as_str(), capacity_type, context.view);
    // A pod that asks for a reservation must not match capacity that is in none.
    for absent in aws::RESERVED_CAPACITY {
        requirements.add(Requirement::does_not_exist(absent.into()));
    }
    Offering {
        zone: zone.as_str().into(),
        capacity_type,
        requirements,
        price: known.map_or(Price::ZERO, |known| known.price),
        estimated: known.is_some_and(|known| known.source == Source::Estimate),
        // An unknown price is not zero: without one the offering is listed, and cannot be bought.
        available: sold && placed && known.is_some(),
        reservation: None,
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    }
}

/// An offering out of a reservation: already paid for, so next to free. How many instances are left changes with
/// every launch and is filled in by [`as_of_now`].
fn reserved(
    info: &InstanceTypeInfo,
    reservation: &CapacityReservation,
    sold: bool,
    context: Context<'_>,
) -> Offering {
    let zone = reservation.availability_zone.as_str();
    let known = context.prices.on_demand(info.name.as_str());
    // A known price never rounds to zero, which would mean that it is unknown.
    let price = known.map_or(0, |known| (known.price.nanos() / NEXT_TO_FREE).max(1));
    let mut requirements = common(zone, CapacityType::Reserved, context.view);
    for (key, value) in [
        (aws::CAPACITY_RESERVATION_ID, reservation.id.clone()),
        (aws::CAPACITY_RESERVATION_TYPE, reservation.reservation_type.as_str().to_owned()),
        (aws::CAPACITY_RESERVATION_INTERRUPTIBLE, reservation.interruptible.to_string()),
    ] {
        requirements.add(is(key, &value));
    }
    let placed = context.view.zones.contains_key(zone);
    Offering {
        zone: Zone::from(zone),
        capacity_type: CapacityType::Reserved,
        requirements,
        price: Price::from_nanos(price),
        // It is paid for, whatever its type costs.
        estimated: false,
        available: sold && placed && reservation.state != ReservationState::Expiring,
        reservation: Some(Reservation { id: reservation.id.as_str().into(), count: 0 }),
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    }
}

fn common(zone: &str, capacity_type: CapacityType, view: &ClassView<'_>) -> Requirements {
    let zone_id = view.zones.get(zone).and_then(|place| place.zone_id.as_deref());
    [(label::CAPACITY_TYPE, Some(capacity_type.as_str())), (label::ZONE, Some(zone)), (aws::ZONE_ID, zone_id)]
        .into_iter()
        .filter_map(|(key, value)| Some(is(key, value?)))
        .collect()
}

fn is(key: &'static str, value: &str) -> Requirement {
    Requirement::one_of(LabelKey::from(key), [value.into()])
}

/// Availability, which changes by the minute; everything else about an offering changes by the hour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now<'a> {
    /// Offerings that had no capacity lately.
    pub unavailable: &'a View,
    /// Free capacity in reservations.
    pub left: &'a Left,
    /// Zones the cluster is shifted away from.
    pub away: &'a BTreeSet<ZoneId>,
}

/// The type with its offerings as they are now; the very same type when that changes nothing.
///
/// A reservation has its own count, so another launch's lack of capacity does not affect it. Full subnets do. One that
/// is full stays available: nothing is wrong with it, and an instance that ends makes room.
pub(crate) fn as_of_now(
    instance_type: &Arc<InstanceType>,
    view: &ClassView<'_>,
    now: Now<'_>,
) -> Arc<InstanceType> {
    let changed = |offering: &Offering| present(instance_type, offering, view, now);
    // Most types are as listed; they are shared instead of copied for each class.
    if instance_type.offerings.iter().all(|offering| changed(offering).is_none()) {
        return Arc::clone(instance_type);
    }
    let mut copy = InstanceType::clone(instance_type);
    for offering in &mut copy.offerings {
        if let Some(Present { available, left }) = changed(offering) {
            offering.available = available;
            if let Some(reservation) = &mut offering.reservation {
                reservation.count = left;
            }
        }
    }
    Arc::new(copy)
}

/// Present state of an offering, where it differs from the listed one.
struct Present {
    available: bool,
    left: u32,
}

fn present(
    instance_type: &InstanceType,
    offering: &Offering,
    view: &ClassView<'_>,
    now: Now<'_>,
) -> Option<Present> {
    let left = offering.reservation.as_ref().map_or(0, |reservation| now.left.of(reservation.id.as_str()));
    let out = offering.available
        && (is_away(offering, view, now.away) || is_out(instance_type, offering, view, now.unavailable));
    // The listed offering has a count of zero, so only a count above it is a change.
    (out || left > 0).then_some(Present { available: offering.available && !out, left })
}

fn is_away(offering: &Offering, view: &ClassView<'_>, away: &BTreeSet<ZoneId>) -> bool {
    let id = || view.zones.get(offering.zone.as_str())?.zone_id.as_deref();
    !away.is_empty() && id().is_some_and(|id| away.contains(id))
}

fn is_out(
    instance_type: &InstanceType,
    offering: &Offering,
    view: &ClassView<'_>,
    unavailable: &View,
) -> bool {
    if unavailable.is_empty() {
        return false;
    }
    let key = OfferingKey {
        instance_type: instance_type.name.clone(),
        zone: offering.zone.clone(),
        capacity_type: offering.capacity_type,
    };
    let place = view
        .placement
        .as_ref()
        .map(|group| Place { group: group.id.clone(), partition: partition_of(offering) });
    let zone = view.zones.get(offering.zone.as_str());
    unavailable.excludes(&key, place.as_ref(), zone.map_or(&[][..], |zone| zone.subnets.as_slice()))
}

#[cfg(test)]
mod tests;
