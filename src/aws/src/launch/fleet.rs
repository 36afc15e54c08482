//! The fleet request of a launch: which offerings, in what order of preference (spec aws-provider 5.7).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{
    CapacityKind, FleetConfig, FleetOverride, FleetRequest, OnDemandAllocation, SpotAllocation,
    TagSpecification, TaggedKind,
};
use karpenter_model::CapacityType;
use karpenter_model::resources;

use super::filter::Candidate;
use super::templates::Template;
use crate::launch::filter::reserved::{Reserved, ReservedKind};
use crate::network::subnets::ZonalSubnet;

/// A launch template with the types it is for.
#[derive(Clone, Debug)]
pub struct TemplatedGroup {
    pub template: Arc<Template>,
    /// Image of the template.
    pub image: String,
    /// Reservation the template names.
    pub reserved: Option<Reserved>,
    /// Types with their usable offerings.
    pub candidates: Vec<Candidate>,
}

/// Inputs of a request.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Templates with types.
    pub groups: &'a [TemplatedGroup],
    /// The subnet of each zone.
    pub subnets: &'a BTreeMap<String, ZonalSubnet>,
    /// Capacity type of the instance.
    pub capacity_type: CapacityType,
    /// Prices were overlaid by the user, so our ranking counts instead of EC2's.
    pub prioritized: bool,
    /// Tags of instance, volume and fleet.
    pub tags: Tags,
    /// Fleet context of the `NodeClass`.
    pub context: Option<String>,
    /// Idempotency token.
    pub token: Option<String>,
}

/// The request for one instance; `None` when no offering is left, for example because no subnet is in any zone.
pub fn request(inputs: Inputs<'_>) -> Option<FleetRequest> {
    let configs: Vec<FleetConfig> = inputs
        .groups
        .iter()
        .map(|group| FleetConfig {
            launch_template: group.template.name.clone(),
            overrides: overrides(group, inputs.subnets, inputs.capacity_type),
        })
        .filter(|config| !config.overrides.is_empty())
        .collect();
    if configs.is_empty() {
        return None;
    }
    let kinds = [TaggedKind::Instance, TaggedKind::Volume, TaggedKind::Fleet];
    Some(FleetRequest {
        client_token: inputs.token,
        capacity: capacity_kind(
            inputs.capacity_type,
            inputs.groups.iter().find_map(|group| group.reserved.as_ref()),
            inputs.prioritized,
        ),
        target: 1,
        configs,
        tags: kinds.into_iter().map(|kind| TagSpecification { kind, tags: inputs.tags.clone() }).collect(),
        context: inputs.context,
    })
}

/// All reservations of one launch are of one kind.
fn capacity_kind(
    capacity_type: CapacityType,
    reserved: Option<&Reserved>,
    prioritized: bool,
) -> CapacityKind {
    match reserved.map(|reserved| reserved.kind) {
        Some(ReservedKind::CapacityBlock) => return CapacityKind::CapacityBlock,
        Some(ReservedKind::Interruptible) => return CapacityKind::InterruptibleReservation,
        Some(ReservedKind::Default) | None => {}
    }
    match (capacity_type, prioritized) {
        (CapacityType::Spot, false) => CapacityKind::Spot(SpotAllocation::PriceCapacityOptimized),
        (CapacityType::Spot, true) => CapacityKind::Spot(SpotAllocation::CapacityOptimizedPrioritized),
        (CapacityType::OnDemand | CapacityType::Reserved, false) => {
            CapacityKind::OnDemand(OnDemandAllocation::LowestPrice)
        }
        (CapacityType::OnDemand | CapacityType::Reserved, true) => {
            CapacityKind::OnDemand(OnDemandAllocation::Prioritized)
        }
    }
}

/// One override per type and zone that has a subnet, in candidate order.
fn overrides(
    group: &TemplatedGroup,
    subnets: &BTreeMap<String, ZonalSubnet>,
    capacity_type: CapacityType,
) -> Vec<FleetOverride> {
    let mut seen = BTreeSet::new();
    let mut overrides = Vec::new();
    for candidate in &group.candidates {
        for offering in candidate.offerings.iter().filter(|one| one.capacity_type == capacity_type) {
            let Some(subnet) = subnets.get(offering.zone.as_str()) else { continue };
            // A placement group has an offering per partition; for EC2 they are one override.
            if !seen.insert((candidate.instance_type.name.clone(), offering.zone.clone())) {
                continue;
            }
            overrides.push(FleetOverride {
                instance_type: candidate.instance_type.name.as_str().into(),
                subnet: subnet.id.clone(),
                zone: Some(offering.zone.as_str().into()),
                image: Some(group.image.as_str().into()),
                // Always sent; EC2 reads it under the prioritized strategies only (spec aws-provider 5.7).
                priority_nanos: Some(offering.price.nanos()),
            });
        }
    }
    overrides
}

/// Addresses the launch may take in each zone: the pods of the smallest node it may become there.
pub(crate) fn addresses_per_zone(
    groups: &[TemplatedGroup],
    subnets: &BTreeMap<String, ZonalSubnet>,
    capacity_type: CapacityType,
) -> BTreeMap<String, u32> {
    let mut least: BTreeMap<String, u32> = BTreeMap::new();
    for candidate in groups.iter().flat_map(|group| &group.candidates) {
        let pods = candidate.instance_type.capacity.amount(resources::PODS).as_units_ceil();
        let pods = u32::try_from(pods).unwrap_or_default();
        for offering in candidate.offerings.iter().filter(|one| one.capacity_type == capacity_type) {
            if subnets.contains_key(offering.zone.as_str()) {
                let entry = least.entry(offering.zone.to_string()).or_insert(pods);
                *entry = pods.min(*entry);
            }
        }
    }
    least
}
