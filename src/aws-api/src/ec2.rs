//! Compute: what can be had, where it can stand, and the machines themselves.
//!
//! Method names are those of the EC2 API in snake case. Dry runs are methods of their own that return `Ok(())`
//! when EC2 answers `DryRunOperation`, so that "would have worked" is not an error callers have to remember.

mod catalogue;
mod fleet;
mod image;
mod instance;
mod launch_template;
mod network;
mod reservation;
mod run;

use std::fmt::Debug;

use async_trait::async_trait;

pub use catalogue::{
    Accelerator, Architecture, EbsOptimized, Gpu, InstanceStorage, InstanceTypeInfo, InstanceTypeQuery,
    NetworkCard, NeuronDevice, SpotPrice, SpotPriceQuery, TypeOffering, UsageClass,
};
pub use fleet::{
    CapacityKind, FleetConfig, FleetError, FleetInstances, FleetOverride, FleetRequest, FleetResult,
    OnDemandAllocation, SpotAllocation,
};
pub use image::{Image, ImageQuery, ImageState};
pub use instance::{
    HealthStatus, Instance, InstanceHealth, InstanceInterface, InstanceQuery, InstanceState, Lifecycle,
    ScheduledEvent, StateChange,
};
pub use launch_template::{
    BlockDevice, CapacityReservationPreference, CapacityReservationTarget, ConnectionTracking, EbsVolume,
    InterfaceKind, LaunchTemplate, LaunchTemplateData, LaunchTemplateQuery, LaunchTemplateSpec, MarketType,
    MetadataOptions, NetworkInterface, Placement, TagSpecification, TaggedKind, Tenancy,
};
pub use network::{AvailabilityZone, SecurityGroup, SecurityGroupQuery, Subnet, SubnetQuery, Vpc, VpcQuery};
pub use reservation::{
    CapacityReservation, CapacityReservationQuery, PlacementGroup, PlacementGroupQuery, PlacementStrategy,
};
pub use run::{RunInstancesRequest, RunInterface};

use crate::{Filter, Listing, Result, Secret, Tags, id};

/// The EC2 calls of this product. Every listing is complete or an error.
#[async_trait]
pub trait Ec2: Send + Sync + Debug {
    // Catalogue

    /// `DescribeInstanceTypes`. A type without the fields scheduling needs is in `skipped`.
    async fn describe_instance_types(&self, query: &InstanceTypeQuery) -> Result<Listing<InstanceTypeInfo>>;

    /// `DescribeInstanceTypes` as a dry run: proves that EC2 can be reached with these credentials.
    async fn dry_run_describe_instance_types(&self) -> Result<()>;

    /// `DescribeInstanceTypeOfferings` by availability zone.
    async fn describe_instance_type_offerings(&self, filters: &[Filter]) -> Result<Listing<TypeOffering>>;

    /// `DescribeSpotPriceHistory`. Records without time, zone or price are in `skipped`.
    async fn describe_spot_price_history(&self, query: &SpotPriceQuery) -> Result<Listing<SpotPrice>>;

    // Network

    /// `DescribeAvailabilityZones` of the region.
    async fn describe_availability_zones(&self) -> Result<Vec<AvailabilityZone>>;

    /// `DescribeVpcs`.
    async fn describe_vpcs(&self, query: &VpcQuery) -> Result<Vec<Vpc>>;

    /// `DescribeSubnets`. An unknown id is `InvalidSubnetID.NotFound`.
    async fn describe_subnets(&self, query: &SubnetQuery) -> Result<Vec<Subnet>>;

    /// `DescribeSecurityGroups`. An unknown id is `InvalidGroup.NotFound`.
    async fn describe_security_groups(&self, query: &SecurityGroupQuery) -> Result<Vec<SecurityGroup>>;

    // Images

    /// `DescribeImages`. An unknown id in `ids` is `InvalidAMIID.NotFound`; an `image-id` filter just finds less.
    async fn describe_images(&self, query: &ImageQuery) -> Result<Listing<Image>>;

    // Reservations and placement groups

    /// `DescribeCapacityReservations`.
    async fn describe_capacity_reservations(
        &self,
        query: &CapacityReservationQuery,
    ) -> Result<Vec<CapacityReservation>>;

    /// `DescribePlacementGroups`. An unknown name is an error, not an empty list.
    async fn describe_placement_groups(&self, query: &PlacementGroupQuery) -> Result<Vec<PlacementGroup>>;

    // Launch templates

    /// `CreateLaunchTemplate`. A taken name is [`crate::Kind::AlreadyExists`].
    async fn create_launch_template(&self, spec: &LaunchTemplateSpec) -> Result<LaunchTemplate>;

    /// `DescribeLaunchTemplates`. A name that does not exist is an error when asked for by name.
    async fn describe_launch_templates(&self, query: &LaunchTemplateQuery) -> Result<Vec<LaunchTemplate>>;

    /// `DeleteLaunchTemplate` by name.
    async fn delete_launch_template(&self, name: &str) -> Result<()>;

    // Launch

    /// `CreateFleet` of type `instant`. A fleet without instances is `Ok` with `errors`: look at both.
    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetResult>;

    /// `CreateFleet` as a dry run.
    async fn dry_run_create_fleet(&self, request: &FleetRequest) -> Result<()>;

    /// `RunInstances` as a dry run. The product never runs it for real.
    async fn dry_run_run_instances(&self, request: &RunInstancesRequest) -> Result<()>;

    // Instances

    /// `DescribeInstances`. With `ids`, an unknown one fails the whole call.
    async fn describe_instances(&self, query: &InstanceQuery) -> Result<Vec<Instance>>;

    /// `DescribeInstanceAttribute` for `userData`, decoded. Only test harnesses that play the kubelet call it.
    async fn describe_user_data(&self, instance: &id::InstanceId) -> Result<Option<Secret>>;

    /// `DescribeInstanceStatus`, including scheduled events.
    async fn describe_instance_status(&self, filters: &[Filter]) -> Result<Vec<InstanceHealth>>;

    /// `TerminateInstances`. One unknown id fails the whole call and terminates nothing.
    async fn terminate_instances(&self, ids: &[id::InstanceId]) -> Result<Vec<StateChange>>;

    /// `RebootInstances`. One unknown id fails the whole call; so does one that does not run.
    async fn reboot_instances(&self, ids: &[id::InstanceId]) -> Result<()>;

    // Tags

    /// `CreateTags` on any EC2 resources by id; existing keys are overwritten.
    async fn create_tags(&self, resources: &[String], tags: &Tags) -> Result<()>;

    /// `DeleteTags`: removes keys whatever their value; missing keys are fine.
    async fn delete_tags(&self, resources: &[String], keys: &[String]) -> Result<()>;
}
