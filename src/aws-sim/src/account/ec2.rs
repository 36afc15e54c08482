//! Compute: the tables of EC2 and the trait over them. One file per behaviour.

mod allocation;
mod capacity;
mod describe;
mod dry_run;
mod filters;
mod fleet;
mod health;
mod network;
mod tags;
mod templates;
mod vm;
mod vms;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_aws_api::id::{ImageId, InstanceId, PlacementGroupId, ReservationId, Zone};
use karpenter_aws_api::{Error, Filter, Listing, Result, Secret, Tags};

use self::capacity::Capacity;
pub use self::capacity::OfferingSelector;
use self::fleet::Launch;
use self::network::Network;
pub(super) use self::templates::Template;
pub(super) use self::vm::Vm;
use self::vms::Vms;
use super::Account;
use crate::options::Options;
use karpenter_aws_api::ec2::{
    AvailabilityZone, CapacityKind, CapacityReservation, CapacityReservationQuery, Ec2, FleetRequest,
    FleetResult, Image, ImageQuery, Instance, InstanceHealth, InstanceQuery, InstanceState, InstanceTypeInfo,
    InstanceTypeQuery, LaunchTemplate, LaunchTemplateQuery, LaunchTemplateSpec, PlacementGroup,
    PlacementGroupQuery, RunInstancesRequest, SecurityGroup, SecurityGroupQuery, SpotPrice, SpotPriceQuery,
    StateChange, Subnet, SubnetQuery, TagSpecification, TypeOffering, Vpc, VpcQuery,
};

/// A state an instance reached, and when.
pub(super) type Transition = (InstanceId, InstanceState, Timestamp);

/// The tables of EC2.
#[derive(Debug)]
pub(super) struct Compute {
    pub(super) network: Network,
    pub(super) images: BTreeMap<ImageId, Image>,
    pub(super) reservations: BTreeMap<ReservationId, CapacityReservation>,
    pub(super) placement_groups: BTreeMap<PlacementGroupId, PlacementGroup>,
    pub(super) templates: BTreeMap<String, Template>,
    template_tokens: BTreeMap<String, (LaunchTemplateSpec, LaunchTemplate)>,
    fleet_tokens: BTreeMap<String, (FleetRequest, FleetResult)>,
    pub(super) vms: Vms,
    /// Instances that still have a change ahead of them.
    moving: BTreeSet<InstanceId>,
    pub(super) capacity: Capacity,
    /// Number of the next instances that end instead of reaching `running`.
    pub(super) doomed_boots: u32,
    /// Tags in the latest dry run of each operation.
    pub(super) dry_run_tags: BTreeMap<&'static str, Vec<TagSpecification>>,
    pub(super) dry_runs: Vec<RunInstancesRequest>,
    transitions: Vec<Transition>,
}

impl Compute {
    pub(super) fn new(options: &Options, zones: &[Zone], images: BTreeMap<ImageId, Image>) -> Self {
        Self {
            network: Network::new(options, zones),
            images,
            reservations: BTreeMap::new(),
            placement_groups: BTreeMap::new(),
            templates: BTreeMap::new(),
            template_tokens: BTreeMap::new(),
            fleet_tokens: BTreeMap::new(),
            vms: Vms::default(),
            moving: BTreeSet::new(),
            capacity: Capacity::new(options.quotas),
            doomed_boots: 0,
            dry_run_tags: BTreeMap::new(),
            dry_runs: Vec::new(),
            transitions: Vec::new(),
        }
    }

    /// Carries out every change that is due, and returns all changes since the last time, oldest first.
    pub(super) fn settle(&mut self, options: &Options, now: Timestamp) -> Vec<Transition> {
        let due = |id: &&InstanceId| {
            let next = self.vms.get(id).map(|vm| vm.next_change(options));
            // Instances without a next change move no more.
            next.is_some_and(|next| next.is_none_or(|(_, at)| at <= now))
        };
        let due: Vec<InstanceId> = self.moving.iter().filter(due).cloned().collect();
        for id in due {
            let Some(vm) = self.vms.get_mut(id.as_str()) else { continue };
            let mut ended = None;
            while let Some((state, at)) = vm.next_change(options) {
                if at > now {
                    break;
                }
                vm.enter(state, at);
                self.transitions.push((id.clone(), state, at));
                if state == InstanceState::Terminated {
                    ended = Some(vm.clone());
                }
            }
            if vm.next_change(options).is_none() {
                self.moving.remove(&id);
            }
            if let Some(vm) = ended {
                self.release(&vm);
            }
        }
        self.transitions.sort_by_key(|(_, _, at)| *at);
        std::mem::take(&mut self.transitions)
    }

    /// An instance ended: its addresses, capacity and reservation can be used again.
    fn release(&mut self, vm: &Vm) {
        self.network.give_back(&vm.subnet, vm.addresses);
        self.capacity.release(vm);
        if let Some(reservation) = vm.reservation.as_ref().and_then(|id| self.reservations.get_mut(id)) {
            reservation.available = (reservation.available + 1).min(reservation.total);
        }
    }

    pub(super) fn find(&mut self, operation: &'static str, id: &InstanceId) -> Result<&mut Vm> {
        self.vms.get_mut(id.as_str()).ok_or_else(|| no_instance(operation, id))
    }

    /// Notes that time has something to do for this instance.
    pub(super) fn touch(&mut self, id: &InstanceId) {
        self.moving.insert(id.clone());
    }

    fn terminate(&mut self, ids: &[InstanceId], now: Timestamp) -> Result<Vec<StateChange>> {
        // All or nothing: one unknown id, and EC2 terminates none.
        for id in ids {
            if self.vms.get(id).is_none_or(|vm| vm.is_forgotten(now)) {
                return Err(no_instance("TerminateInstances", id));
            }
        }
        let mut changes = Vec::new();
        for id in ids {
            let vm = self.find("TerminateInstances", id)?;
            let previous = vm.state;
            vm.end_at(now);
            let current = match previous {
                InstanceState::Terminated => InstanceState::Terminated,
                _ => InstanceState::ShuttingDown,
            };
            changes.push(StateChange { id: id.clone(), previous, current });
            self.touch(id);
        }
        Ok(changes)
    }

    /// Restarts machines that run. EC2 shows nothing of it: state, launch time and addresses stay.
    fn reboot(&mut self, ids: &[InstanceId]) -> Result<()> {
        const OPERATION: &str = "RebootInstances";
        for id in ids {
            let state = self.find(OPERATION, id)?.state;
            if state != InstanceState::Running {
                let text = format!("The instance '{id}' is not in a state from which it can be rebooted");
                return Err(Error::answered(OPERATION, id.as_str(), "IncorrectState", text));
            }
        }
        for id in ids {
            self.find(OPERATION, id)?.reboots += 1;
        }
        Ok(())
    }
}

fn no_instance(operation: &'static str, id: &InstanceId) -> Error {
    let text = format!("The instance ID '{id}' does not exist");
    Error::answered(operation, id.as_str(), "InvalidInstanceID.NotFound", text)
}

#[async_trait]
impl Ec2 for Account {
    async fn describe_instance_types(&self, query: &InstanceTypeQuery) -> Result<Listing<InstanceTypeInfo>> {
        self.call("DescribeInstanceTypes", "types", |state, _| {
            describe::instance_types(&state.catalogue, query)
        })
        .await
    }

    async fn dry_run_describe_instance_types(&self) -> Result<()> {
        self.call("DescribeInstanceTypes", "dry run", |_, _| Ok(())).await
    }

    async fn describe_instance_type_offerings(&self, filters: &[Filter]) -> Result<Listing<TypeOffering>> {
        self.call("DescribeInstanceTypeOfferings", "offerings", |state, _| {
            describe::offerings(&state.catalogue, filters)
        })
        .await
    }

    async fn describe_spot_price_history(&self, query: &SpotPriceQuery) -> Result<Listing<SpotPrice>> {
        self.call("DescribeSpotPriceHistory", "prices", |state, now| {
            Ok(describe::spot_prices(&state.catalogue, query, now))
        })
        .await
    }

    async fn describe_availability_zones(&self) -> Result<Vec<AvailabilityZone>> {
        self.call("DescribeAvailabilityZones", "zones", |state, _| Ok(state.compute.network.zones.clone()))
            .await
    }

    async fn describe_vpcs(&self, query: &VpcQuery) -> Result<Vec<Vpc>> {
        self.call("DescribeVpcs", "vpcs", |state, _| state.compute.network.vpcs(query)).await
    }

    async fn describe_subnets(&self, query: &SubnetQuery) -> Result<Vec<Subnet>> {
        self.call("DescribeSubnets", "subnets", |state, _| state.compute.network.subnets(query)).await
    }

    async fn describe_security_groups(&self, query: &SecurityGroupQuery) -> Result<Vec<SecurityGroup>> {
        self.call("DescribeSecurityGroups", "groups", |state, _| state.compute.network.groups(query)).await
    }

    async fn describe_images(&self, query: &ImageQuery) -> Result<Listing<Image>> {
        let account = &self.options().account;
        self.call("DescribeImages", "images", |state, now| state.compute.images(query, account, now)).await
    }

    async fn describe_capacity_reservations(
        &self,
        query: &CapacityReservationQuery,
    ) -> Result<Vec<CapacityReservation>> {
        self.call("DescribeCapacityReservations", "reservations", |state, _| {
            state.compute.reservations(query)
        })
        .await
    }

    async fn describe_placement_groups(&self, query: &PlacementGroupQuery) -> Result<Vec<PlacementGroup>> {
        self.call("DescribePlacementGroups", "groups", |state, _| state.compute.placement_groups(query)).await
    }

    async fn create_launch_template(&self, spec: &LaunchTemplateSpec) -> Result<LaunchTemplate> {
        self.call("CreateLaunchTemplate", &spec.name, |state, now| {
            state.compute.create_template(spec, &mut state.ids, now)
        })
        .await
    }

    async fn describe_launch_templates(&self, query: &LaunchTemplateQuery) -> Result<Vec<LaunchTemplate>> {
        self.call("DescribeLaunchTemplates", query.names.join(", "), |state, _| {
            state.compute.describe_templates(query)
        })
        .await
    }

    async fn delete_launch_template(&self, name: &str) -> Result<()> {
        self.call("DeleteLaunchTemplate", name, |state, _| state.compute.delete_template(name)).await
    }

    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetResult> {
        let options = self.options();
        self.call("CreateFleet", describe::fleet_subject(request), |state, now| {
            Launch { state, options, now }.create_fleet(request)
        })
        .await
    }

    async fn dry_run_create_fleet(&self, request: &FleetRequest) -> Result<()> {
        let way = if matches!(request.capacity, CapacityKind::Spot(_)) { "spot" } else { "on-demand" };
        let first = request.configs.iter().flat_map(|config| &config.overrides).next();
        let named = first.map_or("", |one| one.instance_type.as_str());
        self.call("CreateFleet", &format!("dry run of {named} as {way}"), |state, _| {
            state.compute.dry_run_tags.insert("CreateFleet", request.tags.clone());
            dry_run::create_fleet(&state.compute, request)
        })
        .await
    }

    async fn dry_run_run_instances(&self, request: &RunInstancesRequest) -> Result<()> {
        let options = self.options();
        let way = if request.spot { "spot" } else { "on-demand" };
        let subject = format!("dry run of {} as {way}", request.instance_type);
        self.call("RunInstances", &subject, |state, now| {
            state.compute.dry_runs.push(request.clone());
            state.compute.dry_run_tags.insert("RunInstances", request.tags.clone());
            dry_run::run_instances(state, options, now, request)
        })
        .await
    }

    async fn describe_instances(&self, query: &InstanceQuery) -> Result<Vec<Instance>> {
        let delay = self.options().invisible_for;
        self.call("DescribeInstances", describe::instance_subject(query), |state, now| {
            state.compute.describe_instances(query, delay, now)
        })
        .await
    }

    async fn describe_user_data(&self, instance: &InstanceId) -> Result<Option<Secret>> {
        self.call("DescribeInstanceAttribute", instance.as_str(), |state, _| {
            let found = state.compute.vms.get(instance);
            let found = found.ok_or_else(|| no_instance("DescribeInstanceAttribute", instance))?;
            Ok(found.user_data.clone())
        })
        .await
    }

    async fn describe_instance_status(&self, filters: &[Filter]) -> Result<Vec<InstanceHealth>> {
        self.call("DescribeInstanceStatus", "instances", |state, _| state.compute.health(filters)).await
    }

    async fn terminate_instances(&self, ids: &[InstanceId]) -> Result<Vec<StateChange>> {
        let subject = ids.iter().map(InstanceId::as_str).collect::<Vec<_>>().join(", ");
        self.call("TerminateInstances", subject, |state, now| state.compute.terminate(ids, now)).await
    }

    async fn reboot_instances(&self, ids: &[InstanceId]) -> Result<()> {
        let subject = ids.iter().map(InstanceId::as_str).collect::<Vec<_>>().join(", ");
        self.call("RebootInstances", subject, |state, _| state.compute.reboot(ids)).await
    }

    async fn create_tags(&self, resources: &[String], tags: &Tags) -> Result<()> {
        self.call("CreateTags", resources.join(", "), |state, _| state.compute.tag(resources, tags)).await
    }

    async fn delete_tags(&self, resources: &[String], keys: &[String]) -> Result<()> {
        self.call("DeleteTags", resources.join(", "), |state, _| state.compute.untag(resources, keys)).await
    }
}
