//! Where and how each type can be bought right now (spec aws-provider 3.9).
//!
//! Every combination of zone and capacity type is listed, also those that cannot be had: absence would read as
//! "no longer sold", unavailability just steers launches elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::ec2nodeclass::{CapacityReservation, ReservationState};
use karpenter_api::labels::{self, aws};
use karpenter_aws_client::ec2::InstanceTypeInfo;
use karpenter_aws_client::id::Zone as AwsZone;
use karpenter_cloud::OfferingKey;
use karpenter_model::{
    CapacityType, InstanceType, LabelKey, Offering, Price, Requirement, Requirements, Reservation, Resources,
    Zone,
};

use crate::class_view::ClassView;
use crate::instance_type::compatibility::mismatch;
use crate::instance_type::labels::capacity_types;
use crate::prices::Book;
use crate::unavailable::View;

/// What offerings are made from, the same for all types.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The `NodeClass`.
    pub view: &'a ClassView<'a>,
    /// Every zone of the region.
    pub region_zones: &'a BTreeSet<&'a AwsZone>,
    /// Prices.
    pub prices: &'a Book,
    /// Instances left in each reservation, by id; an unknown one has none.
    pub reserved: &'a BTreeMap<String, u32>,
}

/// Every offering of a type.
pub fn offerings(info: &InstanceTypeInfo, zones: &BTreeSet<AwsZone>, context: Context<'_>) -> Vec<Offering> {
    let compatible = mismatch(info, context.view).is_none();
    let mut offerings = Vec::new();
    let ways = capacity_types(info, context.view);
    for zone in context.region_zones {
        let sold = compatible && zones.contains(*zone);
        for way in &ways {
            let offering = match CapacityType::from_label(way) {
                Some(CapacityType::OnDemand) => {
                    let price = context.prices.on_demand(info.name.as_str());
                    base(zone, CapacityType::OnDemand, price, sold, context)
                }
                Some(CapacityType::Spot) => {
                    let price = context.prices.spot(info.name.as_str(), zone.as_str());
                    base(zone, CapacityType::Spot, price, sold, context)
                }
                Some(CapacityType::Reserved) | None => continue,
            };
            offerings.push(offering);
        }
    }
    for reservation in context.view.reservations(info.name.as_str()) {
        let sold = compatible && zones.contains::<str>(&reservation.availability_zone);
        offerings.push(reserved(info, reservation, sold, context));
    }
    offerings
}

fn base(
    zone: &AwsZone,
    capacity_type: CapacityType,
    price: Option<Price>,
    sold: bool,
    context: Context<'_>,
) -> Offering {
    let placed = context.view.zones.contains_key(zone.as_str());
    let mut requirements = common(zone.as_str(), capacity_type, context.view);
    for absent in aws::RESERVED_CAPACITY {
        requirements.add(Requirement::does_not_exist(absent.into()));
    }
    Offering {
        zone: zone.as_str().into(),
        capacity_type,
        requirements,
        price: price.unwrap_or(Price::ZERO),
        available: sold && placed && price.is_some(),
        reservation: None,
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    }
}

/// An offering out of a reservation: already paid for, so next to free, as long as instances are left.
fn reserved(
    info: &InstanceTypeInfo,
    reservation: &CapacityReservation,
    sold: bool,
    context: Context<'_>,
) -> Offering {
    let zone = reservation.availability_zone.as_str();
    let count = context.reserved.get(&reservation.id).copied().unwrap_or_default();
    let price = context.prices.on_demand(info.name.as_str()).unwrap_or(Price::ZERO);
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
        price: Price::from_nanos(price.nanos() / 10_000_000),
        available: sold && placed && count > 0 && reservation.state != ReservationState::Expiring,
        reservation: Some(Reservation { id: reservation.id.as_str().into(), count }),
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    }
}

fn common(zone: &str, capacity_type: CapacityType, view: &ClassView<'_>) -> Requirements {
    let zone_id = view.zones.get(zone).and_then(|place| place.zone_id.as_deref());
    [
        (labels::CAPACITY_TYPE, Some(capacity_type.as_str())),
        (labels::ZONE, Some(zone)),
        (aws::ZONE_ID, zone_id),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some(is(key, value?)))
    .collect()
}

fn is(key: &'static str, value: &str) -> Requirement {
    Requirement::one_of(LabelKey::from(key), [value.into()])
}

/// The type with everything that is out of capacity marked unavailable; the very same type when nothing is.
///
/// Reservations keep their own count and are not affected.
pub fn without(
    instance_type: &Arc<InstanceType>,
    view: &ClassView<'_>,
    unavailable: &View,
) -> Arc<InstanceType> {
    let out = |offering: &Offering| {
        if !offering.available || offering.capacity_type == CapacityType::Reserved {
            return false;
        }
        let key = OfferingKey {
            instance_type: instance_type.name.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
        };
        let place = view.zones.get(offering.zone.as_str());
        unavailable.excludes(&key, place.map_or(&[][..], |place| place.subnets.as_slice()))
    };
    if !instance_type.offerings.iter().any(out) {
        return Arc::clone(instance_type);
    }
    let mut copy = InstanceType::clone(instance_type);
    for offering in &mut copy.offerings {
        if out(offering) {
            offering.available = false;
        }
    }
    Arc::new(copy)
}
