//! An EC2 instance in the words of the provider port: labels, capacity, state (spec aws-provider 5.10).

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::HASH_VERSION;
use karpenter_aws_api::ec2::{
    CapacityReservationPreference, Instance, InstanceState, InterfaceKind, Lifecycle, Tenancy,
};
use karpenter_aws_api::id::{PlacementGroupId, ReservationId};
use karpenter_cloud::Instance as CloudInstance;
use karpenter_cloud::InstanceState as CloudState;
use karpenter_model::label::Labels;
use karpenter_model::names::{
    annotation,
    label::{self, aws},
};
use karpenter_model::{CapacityType, InstanceType, LabelKey, Operator, Resources};

use crate::catalogue::instance_type::capacity::EFA;
use crate::instances::provider_id::provider_id;
use crate::launch::Launched;
use crate::launch::filter::reserved::ReservedKind;
use crate::launch::placed::Placed;
use crate::tags;

/// Labels, annotations and capacity for the claim of this instance, from its description by EC2.
///
/// `annotations` are those of its class: the same for all its instances, and they cost a hash. Without its type (deleted
/// `NodeClass`, retired type) the instance has neither type labels nor capacity.
pub(crate) fn of_described(
    instance: &Instance,
    instance_type: Option<&InstanceType>,
    class: Option<&EC2NodeClass>,
    annotations: BTreeMap<String, String>,
    reserved_capacity: bool,
) -> CloudInstance {
    let capacity_type = capacity_type_of(instance, reserved_capacity);
    let zone_id = instance
        .zone_id
        .as_ref()
        .map(ToString::to_string)
        .or_else(|| zone_id_of(class, instance.zone.as_str()));
    let place = Place {
        zone: instance.zone.as_str(),
        zone_id: zone_id.as_deref(),
        capacity_type,
        dedicated: instance.tenancy == Tenancy::Dedicated,
    };
    let efa = instance
        .interfaces
        .iter()
        .any(|nic| matches!(nic.kind, Some(InterfaceKind::Efa | InterfaceKind::EfaOnly)));
    let mut labels = labels_of(instance_type, &place, instance.tags.get(label::NODE_POOL));
    if capacity_type == CapacityType::Reserved {
        let id = instance.reservation.as_ref().map(ReservationId::as_str);
        reservation_labels(&mut labels, id, reserved_kind(instance));
    }
    let partition = instance.partition.map(|partition| partition.to_string());
    placement_labels(&mut labels, instance.placement_group.as_ref().map(PlacementGroupId::as_str), partition);
    CloudInstance {
        provider_id: provider_id(instance.zone.as_str(), instance.id.as_str()),
        instance_id: instance.id.as_str().into(),
        image_id: Some(instance.image.as_str().into()),
        instance_type: instance.instance_type.as_str().into(),
        zone: instance.zone.as_str().into(),
        capacity_type,
        state: state_of(instance.state),
        labels,
        annotations,
        capacity: resources(instance_type.map(|one| one.capacity.clone()), efa),
        allocatable: resources(instance_type.map(InstanceType::allocatable), efa),
        launched_at: instance.launched_at,
        tags: instance.tags.clone(),
        claim: instance.tags.get(tags::NODE_CLAIM).map(|name| name.as_str().into()),
        pool: instance
            .tags
            .get(label::NODE_POOL)
            .filter(|name| !name.is_empty())
            .map(|name| name.as_str().into()),
    }
}

/// Labels, annotations and capacity for the claim of this instance, from the answer to its launch: EC2 may not describe it
/// yet.
pub(crate) fn of_launched(
    launched: &Launched,
    claim: &str,
    class: &EC2NodeClass,
    ca_bundle: &str,
    now: Timestamp,
) -> CloudInstance {
    let place = Place {
        zone: &launched.zone,
        zone_id: launched.zone_id.as_deref(),
        capacity_type: launched.capacity_type,
        dedicated: launched.dedicated,
    };
    let mut labels = labels_of(Some(&launched.instance_type), &place, launched.tags.get(label::NODE_POOL));
    if let Some(reserved) = &launched.reserved {
        reservation_labels(&mut labels, Some(reserved.id.as_str()), reserved.kind);
    }
    let placed = launched.placed.as_ref();
    let partition = placed.and_then(Placed::partition_label);
    placement_labels(&mut labels, placed.map(|placed| placed.group.id.as_str()), partition);
    let mut tags = launched.tags.clone();
    tags.insert(tags::NODE_CLAIM.to_owned(), claim.to_owned());
    let pool = tags.get(label::NODE_POOL).cloned();
    CloudInstance {
        provider_id: provider_id(&launched.zone, &launched.instance),
        instance_id: launched.instance.as_str().into(),
        image_id: Some(launched.image.as_str().into()),
        instance_type: launched.instance_type.name.clone(),
        zone: launched.zone.as_str().into(),
        capacity_type: launched.capacity_type,
        state: CloudState::Pending,
        labels,
        annotations: annotations_of(class, ca_bundle),
        capacity: resources(Some(launched.instance_type.capacity.clone()), launched.efa),
        allocatable: resources(Some(launched.instance_type.allocatable()), launched.efa),
        launched_at: now,
        claim: Some(claim.into()),
        pool: pool.filter(|name| !name.is_empty()).map(|name| name.as_str().into()),
        tags,
    }
}

struct Place<'a> {
    zone: &'a str,
    zone_id: Option<&'a str>,
    capacity_type: CapacityType,
    dedicated: bool,
}

/// Labels with exactly one possible value on the type, then those the launch has decided.
fn labels_of(instance_type: Option<&InstanceType>, place: &Place<'_>, pool: Option<&String>) -> Labels {
    let mut labels = Labels::new();
    for requirement in instance_type.iter().flat_map(|one| one.requirements.iter()) {
        // A type with one reservation has single values about it, whichever way this instance was bought.
        let single = requirement.operator() == Operator::In && requirement.values().len() == 1;
        if single && !aws::RESERVED_CAPACITY.contains(&requirement.key().as_str()) {
            labels.extend(requirement.any().map(|value| (requirement.key().clone(), value)));
        }
    }
    let tenancy = if place.dedicated { "dedicated" } else { "default" };
    let decided = [
        (label::ZONE, Some(place.zone)),
        (aws::ZONE_ID, place.zone_id),
        (label::CAPACITY_TYPE, Some(place.capacity_type.as_str())),
        (aws::INSTANCE_TENANCY, Some(tenancy)),
        (label::NODE_POOL, pool.map(String::as_str).filter(|pool| !pool.is_empty())),
    ];
    for (key, value) in decided {
        labels.extend(value.map(|value| (LabelKey::from(key), value.into())));
    }
    labels
}

fn reservation_labels(labels: &mut Labels, id: Option<&str>, kind: ReservedKind) {
    labels.extend(id.map(|id| (aws::CAPACITY_RESERVATION_ID.into(), id.into())));
    labels.insert(aws::CAPACITY_RESERVATION_TYPE.into(), kind.type_label().into());
    let interruptible = kind == ReservedKind::Interruptible;
    labels.insert(aws::CAPACITY_RESERVATION_INTERRUPTIBLE.into(), interruptible.to_string().into());
}

fn reserved_kind(instance: &Instance) -> ReservedKind {
    match &instance.lifecycle {
        Some(Lifecycle::CapacityBlock) => ReservedKind::CapacityBlock,
        Some(Lifecycle::InterruptibleCapacityReservation) => ReservedKind::Interruptible,
        Some(Lifecycle::Spot | Lifecycle::Other(_)) | None => ReservedKind::Default,
    }
}

/// The instance's own group, whatever the `NodeClass` selects by now.
fn placement_labels(labels: &mut Labels, group: Option<&str>, partition: Option<String>) {
    for (key, value) in
        [(aws::PLACEMENT_GROUP_ID, group.map(str::to_owned)), (aws::PLACEMENT_GROUP_PARTITION, partition)]
    {
        labels.remove(key);
        labels.extend(value.map(|value| (LabelKey::from(key), value.into())));
    }
}

/// The reservation an instance was launched into and still is in.
pub(crate) fn reservation_of(instance: &Instance, reserved_capacity: bool) -> Option<&ReservationId> {
    let reserved = capacity_type_of(instance, reserved_capacity) == CapacityType::Reserved;
    instance.reservation.as_ref().filter(|_| reserved)
}

/// Capacity type an instance is paid as. Instances that merely fell into an open reservation are on-demand: their launch did
/// not ask for it.
pub fn capacity_type_of(instance: &Instance, reserved_capacity: bool) -> CapacityType {
    if instance.spot_request.is_some() || instance.lifecycle == Some(Lifecycle::Spot) {
        CapacityType::Spot
    } else if reserved_capacity && asked_for_reservation(instance) && instance.reservation.is_some() {
        CapacityType::Reserved
    } else {
        CapacityType::OnDemand
    }
}

/// An instance that is still being launched, and was asked for in a reservation that EC2 does not show yet.
pub(crate) fn awaits_reservation(instance: &Instance, reserved_capacity: bool) -> bool {
    reserved_capacity
        && asked_for_reservation(instance)
        && instance.reservation.is_none()
        && instance.state == InstanceState::Pending
}

fn asked_for_reservation(instance: &Instance) -> bool {
    instance.reservation_preference == Some(CapacityReservationPreference::CapacityReservationsOnly)
}

fn zone_id_of(class: Option<&EC2NodeClass>, zone: &str) -> Option<String> {
    let subnets = class?.status.as_ref()?.subnets.iter();
    subnets.filter(|subnet| subnet.zone == zone).find_map(|subnet| subnet.zone_id.clone())
}

/// The three annotations a launch writes to its claim (spec aws-provider 5.1).
pub(crate) fn annotations_of(class: &EC2NodeClass, ca_bundle: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([
        (annotation::aws::EC2_NODE_CLASS_HASH.to_owned(), class.hash(ca_bundle)),
        (annotation::aws::EC2_NODE_CLASS_HASH_VERSION.to_owned(), HASH_VERSION.to_owned()),
    ]);
    let profile = class.status.as_ref().and_then(|status| status.instance_profile.clone());
    all.extend(profile.map(|name| (annotation::aws::INSTANCE_PROFILE_NAME.to_owned(), name)));
    all
}

/// Non-zero resources; EFA only where an adapter is attached.
fn resources(all: Option<Resources>, efa: bool) -> Resources {
    all.unwrap_or_default()
        .iter()
        // A type lists all adapters it can have; an instance has them only if its launch attached them.
        .filter(|(name, quantity)| !quantity.is_zero() && (efa || name.as_str() != EFA))
        .map(|(name, quantity)| (name.clone(), *quantity))
        .collect()
}

fn state_of(state: InstanceState) -> CloudState {
    match state {
        InstanceState::Pending => CloudState::Pending,
        InstanceState::Running => CloudState::Running,
        InstanceState::Stopping | InstanceState::Stopped => CloudState::Stopped,
        InstanceState::ShuttingDown => CloudState::ShuttingDown,
        InstanceState::Terminated => CloudState::Terminated,
    }
}
