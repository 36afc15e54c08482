//! `CreateFleet` of type `instant`: tries offerings in order until the target is met, and reports each refusal and each
//! offering that was not tried.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_aws_api::id::{FleetId, ImageId, InstanceId, SecurityGroupId};
use karpenter_aws_api::{Error, Result, Tags};

use super::super::State;
use super::allocation::{Candidate, ranked};
use super::capacity::Refusal;
use super::templates::Template;
use super::vm::Vm;
use super::volumes;
use crate::options::Options;
use karpenter_aws_api::ec2::{
    Architecture, CapacityKind, FleetError, FleetInstances, FleetRequest, FleetResult, HealthStatus,
    InstanceInterface, InstanceState, InstanceTypeInfo, InterfaceKind, LaunchTemplateData, Lifecycle, Subnet,
    TaggedKind,
};

/// One launch under way.
pub(super) struct Launch<'a> {
    pub(super) state: &'a mut State,
    pub(super) options: &'a Options,
    pub(super) now: Timestamp,
}

/// Parts of an instance, once every check has passed.
struct Blueprint {
    data: LaunchTemplateData,
    template: (String, u64),
    info: InstanceTypeInfo,
    subnet: Subnet,
    image: ImageId,
    groups: Vec<SecurityGroupId>,
    addresses: u32,
    profile: Option<String>,
}

impl Launch<'_> {
    pub(super) fn create_fleet(&mut self, request: &FleetRequest) -> Result<FleetResult> {
        check(request)?;
        if let Some(token) = &request.client_token
            && let Some((earlier, result)) = self.state.compute.fleet_tokens.get(token)
        {
            if earlier == request {
                return Ok(result.clone());
            }
            let text = "Idempotency token already used with different parameters.";
            return Err(Error::answered("CreateFleet", token, "IdempotentParameterMismatch", text));
        }
        for config in &request.configs {
            self.state.compute.template("CreateFleet", &config.launch_template)?;
        }
        let id = FleetId::from(self.state.ids.next("fleet"));
        let result = self.fill(request, id);
        if let Some(token) = &request.client_token {
            let record = (request.clone(), result.clone());
            self.state.compute.fleet_tokens.insert(token.clone(), record);
        }
        Ok(result)
    }

    fn fill(&mut self, request: &FleetRequest, id: FleetId) -> FleetResult {
        let mut result = FleetResult { id, instances: Vec::new(), errors: Vec::new() };
        let state = &*self.state;
        let candidates = ranked(request, &state.catalogue, &state.compute.capacity, |offering| {
            let subnet = state.compute.network.subnets.get(&offering.subnet);
            subnet
                .map(|subnet| subnet.zone.clone())
                .or_else(|| offering.zone.clone())
                .unwrap_or_else(|| "".into())
        });
        if let Err(refusal) = self.state.compute.capacity.admits_fleet() {
            result.errors.extend(candidates.first().map(|candidate| refused(request, candidate, refusal)));
            return result;
        }
        let mut missing = request.target;
        let tried = self.options.offerings_tried.unwrap_or(usize::MAX);
        for (position, candidate) in candidates.into_iter().enumerate() {
            let mut ids = Vec::new();
            if position >= tried {
                let text = "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again.";
                result.errors.push(refused(request, &candidate, ("UnfulfillableCapacity", text.to_owned())));
                continue;
            }
            while missing > 0 {
                match self.launch(request, &candidate, &result.id) {
                    Ok(instance) => {
                        ids.push(instance);
                        missing -= 1;
                    }
                    Err(refusal) => {
                        result.errors.push(refused(request, &candidate, refusal));
                        break;
                    }
                }
            }
            if !ids.is_empty() {
                result.instances.push(FleetInstances {
                    ids,
                    instance_type: candidate.offering.instance_type.clone(),
                    spot: is_spot(request),
                    offering: Some(candidate.offering),
                });
            }
            if missing == 0 {
                break;
            }
        }
        result
    }

    fn launch(
        &mut self,
        request: &FleetRequest,
        candidate: &Candidate,
        fleet: &FleetId,
    ) -> Result<InstanceId, Refusal> {
        let blueprint = self.blueprint(request, candidate)?;
        let spot = is_spot(request);
        let compute = &mut self.state.compute;
        let address = compute.network.reserve(&blueprint.subnet.id, blueprint.addresses)?;
        let (kind, vcpus) = (&candidate.offering.instance_type, blueprint.info.vcpus);
        let reserved = blueprint.data.capacity_reservation.as_ref().and_then(|target| target.id.clone());
        let taken = if let Some(id) = &reserved {
            compute.take_reservation(id, kind, &candidate.zone).map(|()| (Vec::new(), 0))
        } else {
            let limits = compute.capacity.take(kind, &candidate.zone, spot, vcpus);
            limits.map(|limits| (limits, vcpus))
        };
        let (limits, quota_vcpus) = match taken {
            Ok(taken) => taken,
            Err(refusal) => {
                compute.network.give_back(&blueprint.subnet.id, blueprint.addresses);
                return Err(refusal);
            }
        };
        compute.capacity.join_fleet(fleet);
        let doomed = compute.doomed_boots > 0;
        compute.doomed_boots = compute.doomed_boots.saturating_sub(1);
        let id = InstanceId::from(self.state.ids.next("i"));
        let mut vm = assemble(&id, blueprint, candidate, request, self.now);
        vm.fleet = fleet.clone();
        vm.limits = limits;
        vm.quota_vcpus = quota_vcpus;
        vm.doomed = doomed;
        vm.private_dns = private_dns(&self.options.region, &address);
        vm.private_ip = address;
        vm.spot_request = spot.then(|| self.state.ids.next("sir"));
        vm.tags.insert("aws:ec2:fleet-id".to_owned(), fleet.to_string());
        let compute = &mut self.state.compute;
        vm.partition = vm.partition.or_else(|| compute.emptiest_partition(vm.placement_group.as_ref()?));
        compute.transitions.push((id.clone(), InstanceState::Pending, self.now));
        compute.vms.insert(vm);
        compute.touch(&id);
        Ok(id)
    }

    /// Everything EC2 checks before it looks for capacity.
    fn blueprint(&self, request: &FleetRequest, candidate: &Candidate) -> Result<Blueprint, Refusal> {
        let (state, offering) = (&*self.state, &candidate.offering);
        let compute = &state.compute;
        let Template { summary, data } = compute
            .template("CreateFleet", &candidate.template)
            .map_err(|error| ("InvalidLaunchTemplateName.NotFoundException", error.message))?;
        let kind = &offering.instance_type;
        let info = state.catalogue.types.get(kind).ok_or_else(|| {
            ("InvalidInstanceType", format!("The following supplied instance types do not exist: [{kind}]"))
        })?;
        let subnet = compute.network.subnets.get(&offering.subnet).ok_or_else(|| {
            ("InvalidSubnetID.NotFound", format!("The subnet ID '{}' does not exist", offering.subnet))
        })?;
        if !state.catalogue.offerings.contains(&(kind.clone(), subnet.zone.clone())) {
            let zone = &subnet.zone;
            let text = format!(
                "Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone})."
            );
            return Err(("InvalidFleetConfiguration", text));
        }
        let image = offering.image.clone().or_else(|| data.image.clone()).unwrap_or_else(|| "".into());
        check_image(compute.images.get(&image).map(|image| &image.architecture), &image, info)?;
        if is_spot(request) && !state.directory.may_launch_spot() {
            let text = "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.";
            return Err(("AuthFailure.ServiceLinkedRoleCreationNotPermitted", text.to_owned()));
        }
        let profile = match &data.instance_profile {
            None => None,
            Some(name) => state.profile_for_launch(self.options, name, self.now)?,
        };
        volumes::check(data)?;
        let groups = compute.network.groups_for(data, subnet)?;
        Ok(Blueprint {
            template: (summary.id.to_string(), summary.latest_version),
            data: data.clone(),
            info: info.clone(),
            subnet: subnet.clone(),
            image,
            groups,
            addresses: addresses(data),
            profile,
        })
    }
}

impl State {
    /// ARN of an instance profile that EC2 already knows.
    pub(super) fn profile_for_launch(
        &self,
        options: &Options,
        name: &str,
        now: Timestamp,
    ) -> Result<Option<String>, Refusal> {
        let profile = self.directory.profiles.get(name);
        let known = profile.is_some_and(|profile| {
            let from = profile.created_at.saturating_add(options.profile_propagation);
            profile.role.is_some() && from.unwrap_or(Timestamp::MAX) <= now
        });
        if options.check_instance_profiles && !known {
            let text = format!(
                "Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            );
            return Err(("InvalidParameterValue", text));
        }
        Ok(profile.map(|profile| profile.arn.to_string()))
    }
}

fn is_spot(request: &FleetRequest) -> bool {
    matches!(request.capacity, CapacityKind::Spot(_))
}

fn check(request: &FleetRequest) -> Result<()> {
    let refuse = |text: &str| Err(Error::answered("CreateFleet", "request", "InvalidParameterValue", text));
    if request.target == 0 {
        return refuse("TotalTargetCapacity must be at least 1");
    }
    if request.configs.is_empty() || request.configs.iter().any(|config| config.overrides.is_empty()) {
        return refuse("LaunchTemplateConfigs and their Overrides must not be empty");
    }
    Ok(())
}

fn check_image(
    architecture: Option<&Architecture>,
    image: &ImageId,
    info: &InstanceTypeInfo,
) -> Result<(), Refusal> {
    match architecture {
        None => Err(("InvalidAMIID.NotFound", format!("The image id '[{image}]' does not exist"))),
        Some(architecture) if info.architectures.contains(architecture) => Ok(()),
        Some(architecture) => {
            let text = format!(
                "The architecture '{}' of the specified instance type does not match the architecture '{}' of \
                 the specified AMI.",
                info.architectures.first().map_or("", Architecture::as_str),
                architecture.as_str()
            );
            Err(("InvalidParameterValue", text))
        }
    }
}

/// IPv4 addresses an instance takes from its subnet.
fn addresses(data: &LaunchTemplateData) -> u32 {
    let needed: u32 = data
        .network_interfaces
        .iter()
        .filter(|interface| interface.kind != Some(InterfaceKind::EfaOnly))
        .map(|interface| 1 + 16 * interface.ipv4_prefixes.unwrap_or(0))
        .sum();
    needed.max(1)
}

fn private_dns(region: &str, address: &str) -> String {
    let host = address.replace('.', "-");
    if region == "us-east-1" {
        format!("ip-{host}.ec2.internal")
    } else {
        format!("ip-{host}.{region}.compute.internal")
    }
}

fn assemble(
    id: &InstanceId,
    blueprint: Blueprint,
    candidate: &Candidate,
    request: &FleetRequest,
    now: Timestamp,
) -> Vm {
    let Blueprint { data, template, info: _, subnet, image, groups, addresses, profile } = blueprint;
    let lifecycle = match request.capacity {
        CapacityKind::Spot(_) => Some(Lifecycle::Spot),
        CapacityKind::OnDemand(_) => None,
        CapacityKind::InterruptibleReservation => Some(Lifecycle::InterruptibleCapacityReservation),
        CapacityKind::CapacityBlock => Some(Lifecycle::CapacityBlock),
    };
    let placement = data.placement.clone().unwrap_or_default();
    let healthy = HealthStatus { status: "ok".to_owned(), failed: false, impaired_since: None };
    Vm {
        id: id.clone(),
        instance_type: candidate.offering.instance_type.clone(),
        image,
        zone: subnet.zone.clone(),
        zone_id: subnet.zone_id.clone(),
        vpc: subnet.vpc.clone(),
        interfaces: interfaces(&data, &subnet, &groups),
        subnet: subnet.id,
        groups,
        addresses,
        private_ip: String::new(),
        private_dns: String::new(),
        profile,
        tenancy: placement.tenancy.unwrap_or_default(),
        placement_group: placement.group,
        partition: placement.partition,
        lifecycle,
        spot_request: None,
        reservation: data.capacity_reservation.as_ref().and_then(|target| target.id.clone()),
        preference: data.capacity_reservation.as_ref().map(|target| target.preference),
        fleet: "".into(),
        quota_vcpus: 0,
        limits: Vec::new(),
        tags: tags(&data, &template, request),
        user_data: data.user_data,
        volumes: data.block_devices,
        launched_at: now,
        reboots: 0,
        state: InstanceState::Pending,
        doomed: false,
        stop_at: None,
        shutdown_at: None,
        ended_at: None,
        instance_health: healthy.clone(),
        system_health: healthy,
        events: Vec::new(),
    }
}

fn interfaces(
    data: &LaunchTemplateData,
    subnet: &Subnet,
    groups: &[SecurityGroupId],
) -> Vec<InstanceInterface> {
    let interface = |kind| InstanceInterface {
        kind: Some(kind),
        subnet: Some(subnet.id.clone()),
        security_groups: groups.to_vec(),
    };
    if data.network_interfaces.is_empty() {
        return vec![interface(InterfaceKind::Interface)];
    }
    let kinds = data.network_interfaces.iter().map(|found| found.kind.unwrap_or(InterfaceKind::Interface));
    kinds.map(interface).collect()
}

/// Tags of the template, overlaid by those of the request, plus the ones AWS adds itself.
fn tags(data: &LaunchTemplateData, template: &(String, u64), request: &FleetRequest) -> Tags {
    let mut tags: Tags = data
        .tags
        .iter()
        .filter(|specification| specification.kind == TaggedKind::Instance)
        .flat_map(|specification| specification.tags.clone())
        .collect();
    tags.extend(request.tags_of(TaggedKind::Instance));
    tags.extend(BTreeMap::from([
        ("aws:ec2launchtemplate:id".to_owned(), template.0.clone()),
        ("aws:ec2launchtemplate:version".to_owned(), template.1.to_string()),
    ]));
    tags
}

fn refused(request: &FleetRequest, candidate: &Candidate, (code, message): Refusal) -> FleetError {
    FleetError {
        code: code.to_owned(),
        message,
        launch_template: Some(candidate.template.clone()),
        instance_type: Some(candidate.offering.instance_type.clone()),
        zone: Some(candidate.zone.clone()),
        subnet: Some(candidate.offering.subnet.clone()),
        spot: is_spot(request),
    }
}
