//! `CreateFleet` of type `instant`: the one way this product launches (spec aws-provider 5.7, 5.9).

use crate::Tags;
use crate::ec2::TagSpecification;
use crate::id::{FleetId, ImageId, InstanceId, InstanceType, SubnetId, Zone};

/// Launch of a number of instances, from the cheapest offerings that have capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetRequest {
    /// Token: the same one with the same content returns the fleet already created instead of launching again.
    pub client_token: Option<String>,
    /// Way in which the capacity is bought and chosen.
    pub capacity: CapacityKind,
    /// Instances to launch, at least 1.
    pub target: u32,
    /// Templates with their offerings. Empty overrides are refused.
    pub configs: Vec<FleetConfig>,
    /// Tags for `instance`, `volume` and `fleet`.
    pub tags: Vec<TagSpecification>,
    /// Reserved by EC2; passed through from the node class.
    pub context: Option<String>,
}

/// Way in which capacity is bought, and strategy by which offerings are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityKind {
    /// Spot capacity.
    Spot(SpotAllocation),
    /// On-demand capacity, which includes plain capacity reservations named by the template.
    OnDemand(OnDemandAllocation),
    /// Interruptible capacity reservations named by the template.
    InterruptibleReservation,
    /// Capacity blocks named by the template.
    CapacityBlock,
}

impl CapacityKind {
    /// EC2's spelling of the default target capacity type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spot(_) => "spot",
            Self::OnDemand(_) => "on-demand",
            Self::InterruptibleReservation => "reserved-capacity",
            Self::CapacityBlock => "capacity-block",
        }
    }
}

/// Strategy of EC2 among spot offerings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpotAllocation {
    /// Deep pools first, then price.
    PriceCapacityOptimized,
    /// Deep pools first, our priorities as best effort.
    CapacityOptimizedPrioritized,
    /// Price only.
    LowestPrice,
}

impl SpotAllocation {
    /// EC2's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PriceCapacityOptimized => "price-capacity-optimized",
            Self::CapacityOptimizedPrioritized => "capacity-optimized-prioritized",
            Self::LowestPrice => "lowest-price",
        }
    }
}

/// Strategy of EC2 among on-demand offerings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnDemandAllocation {
    LowestPrice,
    /// Our priorities.
    Prioritized,
}

impl OnDemandAllocation {
    /// EC2's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LowestPrice => "lowest-price",
            Self::Prioritized => "prioritized",
        }
    }
}

/// One template and the offerings it may be launched on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetConfig {
    /// Template name; the version is always the latest.
    pub launch_template: String,
    /// Offerings.
    pub overrides: Vec<FleetOverride>,
}

/// One offering: a type in a subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetOverride {
    pub instance_type: InstanceType,
    pub subnet: SubnetId,
    /// Zone of the subnet.
    pub zone: Option<Zone>,
    /// Image, when it differs from the template's.
    pub image: Option<ImageId>,
    /// Rank for the prioritized strategies, lower first: the offering's price in billionths of a dollar per
    /// hour. Sent to EC2 as decimal dollars.
    pub priority_nanos: Option<i64>,
}

/// The result of a fleet request. Both lists may be filled, and both may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetResult {
    pub id: FleetId,
    /// Launched instances.
    pub instances: Vec<FleetInstances>,
    /// Offerings that launched nothing, one entry each: tried in vain, or not tried.
    pub errors: Vec<FleetError>,
}

impl FleetResult {
    /// Ids of all launched instances, in EC2's order.
    pub fn instance_ids(&self) -> impl Iterator<Item = &InstanceId> {
        self.instances.iter().flat_map(|group| &group.ids)
    }
}

/// Instances launched on one offering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetInstances {
    /// Their ids.
    pub ids: Vec<InstanceId>,
    /// Their type.
    pub instance_type: InstanceType,
    /// Bought as spot.
    pub spot: bool,
    /// The offering as requested, when EC2 echoes it.
    pub offering: Option<FleetOverride>,
}

/// Reason why one offering yielded nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetError {
    /// EC2 error code, see [`crate::error::is_unfulfillable`].
    pub code: String,
    /// EC2's text.
    pub message: String,
    /// Template it was tried with.
    pub launch_template: Option<String>,
    /// The offering, when the error is about one.
    pub instance_type: Option<InstanceType>,
    /// The offering's zone.
    pub zone: Option<Zone>,
    /// The offering's subnet.
    pub subnet: Option<SubnetId>,
    /// Tried as spot.
    pub spot: bool,
}

impl FleetError {
    /// `code: message`, the form launch failures are classified and reported in.
    pub fn code_and_message(&self) -> String {
        format!("{}: {}", self.code, self.message)
    }
}

impl FleetRequest {
    /// Tags the request puts on one kind of resource.
    pub fn tags_of(&self, kind: super::TaggedKind) -> Tags {
        self.tags.iter().filter(|spec| spec.kind == kind).flat_map(|spec| spec.tags.clone()).collect()
    }
}
