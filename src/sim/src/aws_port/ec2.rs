//! EC2 behind the port.

use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws_api::ec2::{
    AvailabilityZone, CapacityReservation, CapacityReservationQuery, Ec2, FleetRequest, FleetResult, Image,
    ImageQuery, Instance, InstanceHealth, InstanceQuery, InstanceTypeInfo, InstanceTypeQuery, LaunchTemplate,
    LaunchTemplateQuery, LaunchTemplateSpec, PlacementGroup, PlacementGroupQuery, RunInstancesRequest,
    SecurityGroup, SecurityGroupQuery, SpotPrice, SpotPriceQuery, StateChange, Subnet, SubnetQuery,
    TypeOffering, Vpc, VpcQuery,
};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Filter, Listing, Result, Secret, Tags};

use super::AwsPort;
use crate::defect::Defect;
use crate::fault_injector::Hidden;

#[derive(Debug)]
pub(super) struct Port {
    pub(super) port: AwsPort,
    pub(super) inner: Arc<dyn Ec2>,
}

impl Port {
    async fn forward<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        operation: &'static str,
        act: impl FnOnce(Arc<dyn Ec2>) -> F,
    ) -> Result<T> {
        self.port.call(operation, act(Arc::clone(&self.inner))).await
    }
}

#[async_trait]
impl Ec2 for Port {
    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetResult> {
        let request = match self.port.defect {
            Some(defect) => defect.fleet(request.clone()),
            None => request.clone(),
        };
        self.forward("CreateFleet", move |ec2| async move { ec2.create_fleet(&request).await }).await
    }

    async fn terminate_instances(&self, ids: &[InstanceId]) -> Result<Vec<StateChange>> {
        let (ids, port) = (ids.to_owned(), self.port.clone());
        self.forward("TerminateInstances", move |ec2| async move {
            if port.defect.is_some_and(Defect::swallows_termination) {
                return Ok(Vec::new());
            }
            port.truth.terminating(&ids);
            ec2.terminate_instances(&ids).await
        })
        .await
    }

    async fn reboot_instances(&self, ids: &[InstanceId]) -> Result<()> {
        let ids = ids.to_owned();
        self.forward("RebootInstances", move |ec2| async move { ec2.reboot_instances(&ids).await }).await
    }

    async fn describe_instances(&self, query: &InstanceQuery) -> Result<Vec<Instance>> {
        let (query, port) = (query.to_owned(), self.port.clone());
        self.forward("DescribeInstances", move |ec2| async move {
            let mut instances = ec2.describe_instances(&query).await.map(|found| port.described(found))?;
            if let Some(defect) = port.defect {
                defect.described(&query, &mut instances);
            }
            Ok(instances)
        })
        .await
    }

    async fn describe_instance_types(&self, query: &InstanceTypeQuery) -> Result<Listing<InstanceTypeInfo>> {
        let query = query.to_owned();
        self.forward(
            "DescribeInstanceTypes",
            move |ec2| async move { ec2.describe_instance_types(&query).await },
        )
        .await
    }

    async fn dry_run_describe_instance_types(&self) -> Result<()> {
        self.forward("DescribeInstanceTypes", move |ec2| async move {
            ec2.dry_run_describe_instance_types().await
        })
        .await
    }

    async fn describe_instance_type_offerings(&self, filters: &[Filter]) -> Result<Listing<TypeOffering>> {
        let filters = filters.to_owned();
        self.forward("DescribeInstanceTypeOfferings", move |ec2| async move {
            ec2.describe_instance_type_offerings(&filters).await
        })
        .await
    }

    async fn describe_spot_price_history(&self, query: &SpotPriceQuery) -> Result<Listing<SpotPrice>> {
        let query = query.to_owned();
        self.forward("DescribeSpotPriceHistory", move |ec2| async move {
            ec2.describe_spot_price_history(&query).await
        })
        .await
    }

    async fn describe_availability_zones(&self) -> Result<Vec<AvailabilityZone>> {
        self.forward("DescribeAvailabilityZones", move |ec2| async move {
            ec2.describe_availability_zones().await
        })
        .await
    }

    async fn describe_vpcs(&self, query: &VpcQuery) -> Result<Vec<Vpc>> {
        let query = query.to_owned();
        self.forward("DescribeVpcs", move |ec2| async move { ec2.describe_vpcs(&query).await }).await
    }

    async fn describe_subnets(&self, query: &SubnetQuery) -> Result<Vec<Subnet>> {
        let query = query.to_owned();
        let chances = self.port.chances.clone();
        self.forward("DescribeSubnets", move |ec2| async move {
            let mut found = ec2.describe_subnets(&query).await?;
            // As with reservations, those asked for by their ids are found.
            if query.ids.is_empty() && query.filters.iter().all(|filter| filter.name != "subnet-id") {
                found.retain(|one| !chances.hides(&Hidden::Subnets(one.zone.clone())));
            }
            Ok(found)
        })
        .await
    }

    async fn describe_security_groups(&self, query: &SecurityGroupQuery) -> Result<Vec<SecurityGroup>> {
        let query = query.to_owned();
        self.forward("DescribeSecurityGroups", move |ec2| async move {
            ec2.describe_security_groups(&query).await
        })
        .await
    }

    async fn describe_images(&self, query: &ImageQuery) -> Result<Listing<Image>> {
        let query = query.to_owned();
        let chances = self.port.chances.clone();
        self.forward("DescribeImages", move |ec2| async move {
            let mut images = ec2.describe_images(&query).await?;
            if chances.hides(&Hidden::Images) {
                images.items.clear();
            }
            Ok(images)
        })
        .await
    }

    async fn describe_capacity_reservations(
        &self,
        query: &CapacityReservationQuery,
    ) -> Result<Vec<CapacityReservation>> {
        let query = query.to_owned();
        let (chances, defect) = (self.port.chances.clone(), self.port.defect);
        self.forward("DescribeCapacityReservations", move |ec2| async move {
            let mut found = ec2.describe_capacity_reservations(&query).await?;
            // Lookups by id do not use the tags, which is what EC2 is late with.
            if query.ids.is_empty() && chances.hides(&Hidden::Reservations) {
                found.clear();
            }
            for one in &mut found {
                one.available = chances.miscounted(one.total).unwrap_or(one.available);
            }
            if let Some(defect) = defect {
                defect.reservations(&query, &mut found);
            }
            Ok(found)
        })
        .await
    }

    async fn describe_placement_groups(&self, query: &PlacementGroupQuery) -> Result<Vec<PlacementGroup>> {
        let query = query.to_owned();
        self.forward("DescribePlacementGroups", move |ec2| async move {
            ec2.describe_placement_groups(&query).await
        })
        .await
    }

    async fn create_launch_template(&self, spec: &LaunchTemplateSpec) -> Result<LaunchTemplate> {
        let spec = spec.to_owned();
        self.forward(
            "CreateLaunchTemplate",
            move |ec2| async move { ec2.create_launch_template(&spec).await },
        )
        .await
    }

    async fn describe_launch_templates(&self, query: &LaunchTemplateQuery) -> Result<Vec<LaunchTemplate>> {
        let query = query.to_owned();
        self.forward("DescribeLaunchTemplates", move |ec2| async move {
            ec2.describe_launch_templates(&query).await
        })
        .await
    }

    async fn delete_launch_template(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.forward(
            "DeleteLaunchTemplate",
            move |ec2| async move { ec2.delete_launch_template(&name).await },
        )
        .await
    }

    async fn dry_run_create_fleet(&self, request: &FleetRequest) -> Result<()> {
        let request = request.to_owned();
        self.forward("CreateFleet", move |ec2| async move { ec2.dry_run_create_fleet(&request).await }).await
    }

    async fn dry_run_run_instances(&self, request: &RunInstancesRequest) -> Result<()> {
        let request = request.to_owned();
        self.forward("RunInstances", move |ec2| async move { ec2.dry_run_run_instances(&request).await })
            .await
    }

    async fn describe_user_data(&self, instance: &InstanceId) -> Result<Option<Secret>> {
        let instance = instance.to_owned();
        self.forward("DescribeInstanceAttribute", move |ec2| async move {
            ec2.describe_user_data(&instance).await
        })
        .await
    }

    async fn describe_instance_status(&self, filters: &[Filter]) -> Result<Vec<InstanceHealth>> {
        let filters = filters.to_owned();
        self.forward("DescribeInstanceStatus", move |ec2| async move {
            ec2.describe_instance_status(&filters).await
        })
        .await
    }

    async fn create_tags(&self, resources: &[String], tags: &Tags) -> Result<()> {
        let resources = resources.to_owned();
        let tags = self.port.defect.map_or_else(|| tags.to_owned(), |defect| defect.tags(tags.to_owned()));
        self.forward("CreateTags", move |ec2| async move { ec2.create_tags(&resources, &tags).await }).await
    }

    async fn delete_tags(&self, resources: &[String], keys: &[String]) -> Result<()> {
        let resources = resources.to_owned();
        let keys = keys.to_owned();
        self.forward("DeleteTags", move |ec2| async move { ec2.delete_tags(&resources, &keys).await }).await
    }
}
