//! Compute over the SDK: the trait, delegating to one file per kind of thing.

mod catalogue;
mod fleet;
mod image;
mod instance;
mod launch_template;
mod network;
mod reservation;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_ec2::config::retry::RetryPartition;
use aws_sdk_ec2::types;

use super::meter::{Meter, measured};
use karpenter_aws_api::ec2::{
    AvailabilityZone, CapacityReservation, CapacityReservationQuery, Ec2, FleetRequest, FleetResult, Image,
    ImageQuery, Instance, InstanceHealth, InstanceQuery, InstanceTypeInfo, InstanceTypeQuery, LaunchTemplate,
    LaunchTemplateQuery, LaunchTemplateSpec, PlacementGroup, PlacementGroupQuery, RunInstancesRequest,
    SecurityGroup, SecurityGroupQuery, SpotPrice, SpotPriceQuery, StateChange, Subnet, SubnetQuery,
    TagSpecification, TypeOffering, Vpc, VpcQuery,
};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Filter, Listing, Result, Secret, Tags};

#[derive(Clone, Debug)]
pub(super) struct Client {
    ec2: aws_sdk_ec2::Client,
    /// Launches may repeat their requests out of a quota of their own: reads that are throttled do not use it up.
    launches: aws_sdk_ec2::Client,
}

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        let ec2 = measured!(aws_sdk_ec2, config, meter);
        let quota = RetryPartition::new("ec2-launches");
        let launches =
            aws_sdk_ec2::Client::from_conf(ec2.config().to_builder().retry_partition(quota).build());
        Self { ec2, launches }
    }
}

#[async_trait]
impl Ec2 for Client {
    async fn describe_instance_types(&self, query: &InstanceTypeQuery) -> Result<Listing<InstanceTypeInfo>> {
        catalogue::instance_types(&self.ec2, query).await
    }

    async fn dry_run_describe_instance_types(&self) -> Result<()> {
        catalogue::dry_run(&self.ec2).await
    }

    async fn describe_instance_type_offerings(&self, filters: &[Filter]) -> Result<Listing<TypeOffering>> {
        catalogue::offerings(&self.ec2, filters).await
    }

    async fn describe_spot_price_history(&self, query: &SpotPriceQuery) -> Result<Listing<SpotPrice>> {
        catalogue::spot_prices(&self.ec2, query).await
    }

    async fn describe_availability_zones(&self) -> Result<Vec<AvailabilityZone>> {
        network::zones(&self.ec2).await
    }

    async fn describe_vpcs(&self, query: &VpcQuery) -> Result<Vec<Vpc>> {
        network::vpcs(&self.ec2, query).await
    }

    async fn describe_subnets(&self, query: &SubnetQuery) -> Result<Vec<Subnet>> {
        network::subnets(&self.ec2, query).await
    }

    async fn describe_security_groups(&self, query: &SecurityGroupQuery) -> Result<Vec<SecurityGroup>> {
        network::security_groups(&self.ec2, query).await
    }

    async fn describe_images(&self, query: &ImageQuery) -> Result<Listing<Image>> {
        image::images(&self.ec2, query).await
    }

    async fn describe_capacity_reservations(
        &self,
        query: &CapacityReservationQuery,
    ) -> Result<Vec<CapacityReservation>> {
        reservation::reservations(&self.ec2, query).await
    }

    async fn describe_placement_groups(&self, query: &PlacementGroupQuery) -> Result<Vec<PlacementGroup>> {
        reservation::placement_groups(&self.ec2, query).await
    }

    async fn create_launch_template(&self, spec: &LaunchTemplateSpec) -> Result<LaunchTemplate> {
        launch_template::create(&self.ec2, spec).await
    }

    async fn describe_launch_templates(&self, query: &LaunchTemplateQuery) -> Result<Vec<LaunchTemplate>> {
        launch_template::describe(&self.ec2, query).await
    }

    async fn delete_launch_template(&self, name: &str) -> Result<()> {
        launch_template::delete(&self.ec2, name).await
    }

    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetResult> {
        fleet::create(&self.launches, request).await
    }

    async fn dry_run_create_fleet(&self, request: &FleetRequest) -> Result<()> {
        fleet::dry_run(&self.ec2, request).await
    }

    async fn dry_run_run_instances(&self, request: &RunInstancesRequest) -> Result<()> {
        instance::dry_run_run(&self.ec2, request).await
    }

    async fn describe_instances(&self, query: &InstanceQuery) -> Result<Vec<Instance>> {
        instance::describe(&self.ec2, query).await
    }

    async fn describe_user_data(&self, instance: &InstanceId) -> Result<Option<Secret>> {
        instance::user_data(&self.ec2, instance).await
    }

    async fn describe_instance_status(&self, filters: &[Filter]) -> Result<Vec<InstanceHealth>> {
        instance::health(&self.ec2, filters).await
    }

    async fn terminate_instances(&self, ids: &[InstanceId]) -> Result<Vec<StateChange>> {
        instance::terminate(&self.ec2, ids).await
    }

    async fn reboot_instances(&self, ids: &[InstanceId]) -> Result<()> {
        instance::reboot(&self.ec2, ids).await
    }

    async fn create_tags(&self, resources: &[String], tags: &Tags) -> Result<()> {
        instance::create_tags(&self.ec2, resources, tags).await
    }

    async fn delete_tags(&self, resources: &[String], keys: &[String]) -> Result<()> {
        instance::delete_tags(&self.ec2, resources, keys).await
    }
}

/// `None` for no filter at all, which EC2 takes as "everything".
fn filters_to_sdk(filters: &[Filter]) -> Option<Vec<types::Filter>> {
    (!filters.is_empty()).then(|| {
        filters
            .iter()
            .map(|filter| {
                types::Filter::builder().name(&filter.name).set_values(Some(filter.values.clone())).build()
            })
            .collect()
    })
}

/// `None` for no id at all: an empty list would be a malformed request.
fn ids_to_sdk<T: AsRef<str>>(ids: &[T]) -> Option<Vec<String>> {
    (!ids.is_empty()).then(|| ids.iter().map(|id| id.as_ref().to_owned()).collect())
}

/// EC2 refuses a page size together with ids.
fn page_size<T>(ids: &[T], size: i32) -> Option<i32> {
    ids.is_empty().then_some(size)
}

fn tags_to_sdk(tags: &Tags) -> Vec<types::Tag> {
    tags.iter().map(|(key, value)| types::Tag::builder().key(key).value(value).build()).collect()
}

fn tags_from_sdk(tags: Option<Vec<types::Tag>>) -> Tags {
    tags.unwrap_or_default()
        .into_iter()
        .filter_map(|tag| Some((tag.key?, tag.value.unwrap_or_default())))
        .collect()
}

fn tag_specifications_to_sdk(specifications: &[TagSpecification]) -> Option<Vec<types::TagSpecification>> {
    let specifications: Vec<_> = specifications
        .iter()
        .filter(|specification| !specification.tags.is_empty())
        .map(|specification| {
            types::TagSpecification::builder()
                .resource_type(types::ResourceType::from(specification.kind.as_str()))
                .set_tags(Some(tags_to_sdk(&specification.tags)))
                .build()
        })
        .collect();
    (!specifications.is_empty()).then_some(specifications)
}

/// Overrides for one call that must not be repeated by the SDK: dry runs (spec aws-provider 12.2).
fn without_retries() -> aws_sdk_ec2::config::Builder {
    aws_sdk_ec2::config::Builder::new().retry_config(aws_config::retry::RetryConfig::disabled())
}
