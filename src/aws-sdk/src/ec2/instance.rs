//! Instances and their tags over the SDK.

use aws_sdk_ec2::{Client, types};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::call::{Call, each_page};
use super::super::convert::{count, describe as name_query, instant, small, text};
use super::{
    filters_to_sdk, ids_to_sdk, page_size, tag_specifications_to_sdk, tags_from_sdk, tags_to_sdk,
    without_retries,
};
use karpenter_aws_api::ec2::{
    BlockDevice, CapacityReservationPreference, HealthStatus, Instance, InstanceHealth, InstanceInterface,
    InstanceQuery, InstanceState, InterfaceKind, Lifecycle, MetadataOptions, RunInstancesRequest,
    RunInterface, ScheduledEvent, StateChange, Tenancy,
};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Filter, Result, Secret, Tags};

pub(super) async fn describe(client: &Client, query: &InstanceQuery) -> Result<Vec<Instance>> {
    let call = Call::new("DescribeInstances", name_query(&query.ids, &query.filters));
    let request = client
        .describe_instances()
        .set_instance_ids(ids_to_sdk(&query.ids))
        .set_filters(filters_to_sdk(&query.filters))
        .set_max_results(page_size(&query.ids, 1000));
    let mut found = Vec::new();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for group in page.reservations.unwrap_or_default() {
            for item in group.instances.unwrap_or_default() {
                found.push(from_sdk(&call, item)?);
            }
        }
    });
    Ok(found)
}

pub(super) async fn user_data(client: &Client, instance: &InstanceId) -> Result<Option<Secret>> {
    let call = Call::new("DescribeInstanceAttribute", instance.as_str());
    let answer = client
        .describe_instance_attribute()
        .instance_id(instance.as_str())
        .attribute(types::InstanceAttributeName::UserData)
        .send()
        .await
        .map_err(|failure| call.failed(failure))?;
    let Some(encoded) = answer.user_data.and_then(|attribute| attribute.value) else {
        return Ok(None);
    };
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|failure| call.invalid(format!("`userData` is not base64: {failure}")))?;
    let text = String::from_utf8(bytes).map_err(|_| call.invalid("`userData` is not text"))?;
    Ok(Some(text).filter(|text| !text.is_empty()).map(Secret::new))
}

pub(super) async fn health(client: &Client, filters: &[Filter]) -> Result<Vec<InstanceHealth>> {
    let call = Call::new("DescribeInstanceStatus", name_query::<&str>(&[], filters));
    let request = client.describe_instance_status().max_results(1000).set_filters(filters_to_sdk(filters));
    let mut found = Vec::new();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for status in page.instance_statuses.unwrap_or_default() {
            found.push(InstanceHealth {
                id: call.field(status.instance_id, "instanceId")?.into(),
                zone: status.availability_zone.map(Into::into),
                instance: summary(status.instance_status),
                system: summary(status.system_status),
                events: status
                    .events
                    .unwrap_or_default()
                    .into_iter()
                    .map(|event| scheduled(&call, event))
                    .collect::<Result<_>>()?,
            });
        }
    });
    Ok(found)
}

pub(super) async fn terminate(client: &Client, ids: &[InstanceId]) -> Result<Vec<StateChange>> {
    let call = Call::new("TerminateInstances", name_query(ids, &[]));
    let answer = client
        .terminate_instances()
        .set_instance_ids(ids_to_sdk(ids))
        .send()
        .await
        .map_err(|failure| call.failed(failure))?;
    answer
        .terminating_instances
        .unwrap_or_default()
        .into_iter()
        .map(|change| {
            Ok(StateChange {
                id: call.field(change.instance_id, "instanceId")?.into(),
                previous: state(&call, change.previous_state, "previousState")?,
                current: state(&call, change.current_state, "currentState")?,
            })
        })
        .collect()
}

pub(super) async fn reboot(client: &Client, ids: &[InstanceId]) -> Result<()> {
    let call = Call::new("RebootInstances", name_query(ids, &[]));
    // The call has no token: the caller looks whether the machine has booted before it asks again.
    let request = client.reboot_instances().set_instance_ids(ids_to_sdk(ids));
    let answer = request.customize().config_override(without_retries()).send().await;
    answer.map(drop).map_err(|failure| call.failed(failure))
}

pub(super) async fn dry_run_run(client: &Client, request: &RunInstancesRequest) -> Result<()> {
    let subject = format!("{} on {} (dry run)", request.launch_template, request.instance_type);
    let template = types::LaunchTemplateSpecification::builder()
        .launch_template_name(&request.launch_template)
        .version("$Latest")
        .build();
    let interfaces = request.interfaces.iter().map(interface_to_sdk).collect::<Vec<_>>();
    let devices = request.block_devices.iter().map(device_to_sdk).collect::<Vec<_>>();
    let run = client
        .run_instances()
        .dry_run(true)
        .min_count(1)
        .max_count(1)
        .launch_template(template)
        .instance_type(types::InstanceType::from(request.instance_type.as_str()))
        .set_network_interfaces(Some(interfaces).filter(|interfaces| !interfaces.is_empty()))
        .set_metadata_options(request.metadata.as_ref().map(metadata_to_sdk))
        .set_block_device_mappings(Some(devices).filter(|devices| !devices.is_empty()))
        .set_instance_market_options(request.spot.then(spot_to_sdk))
        .set_tag_specifications(tag_specifications_to_sdk(&request.tags));
    let outcome = run.customize().config_override(without_retries()).send().await;
    Call::new("RunInstances", subject).dry_run(outcome)
}

pub(super) async fn create_tags(client: &Client, resources: &[String], tags: &Tags) -> Result<()> {
    let call = Call::new("CreateTags", name_query(resources, &[]));
    client
        .create_tags()
        .set_resources(Some(resources.to_vec()))
        .set_tags(Some(tags_to_sdk(tags)))
        .send()
        .await
        .map_err(|failure| call.failed(failure))?;
    Ok(())
}

pub(super) async fn delete_tags(client: &Client, resources: &[String], keys: &[String]) -> Result<()> {
    let call = Call::new("DeleteTags", name_query(resources, &[]));
    client
        .delete_tags()
        .set_resources(Some(resources.to_vec()))
        .set_tags(Some(keys.iter().map(|key| types::Tag::builder().key(key).build()).collect()))
        .send()
        .await
        .map_err(|failure| call.failed(failure))?;
    Ok(())
}

fn from_sdk(call: &Call, item: types::Instance) -> Result<Instance> {
    let placement = call.field(item.placement, "placement")?;
    Ok(Instance {
        id: call.field(item.instance_id, "instanceId")?.into(),
        instance_type: call.field(item.instance_type, "instanceType")?.as_str().into(),
        image: call.field(item.image_id, "imageId")?.into(),
        state: state(call, item.state, "instanceState")?,
        zone: call.field(placement.availability_zone, "placement.availabilityZone")?.into(),
        zone_id: placement.availability_zone_id.map(Into::into),
        tenancy: match placement.tenancy {
            Some(types::Tenancy::Dedicated) => Tenancy::Dedicated,
            Some(types::Tenancy::Host) => Tenancy::Host,
            _ => Tenancy::Default,
        },
        placement_group: text(placement.group_id.as_deref()).map(Into::into),
        partition: count(placement.partition_number).filter(|partition| *partition > 0),
        lifecycle: item.instance_lifecycle.map(|lifecycle| Lifecycle::from(lifecycle.as_str())),
        spot_request: item.spot_instance_request_id,
        reservation: item.capacity_reservation_id.map(Into::into),
        reservation_preference: item
            .capacity_reservation_specification
            .and_then(|specification| specification.capacity_reservation_preference)
            .and_then(|preference| preference_from_sdk(&preference)),
        launched_at: call.field(instant(item.launch_time.as_ref()), "launchTime")?,
        subnet: text(item.subnet_id.as_deref()).map(Into::into),
        vpc: text(item.vpc_id.as_deref()).map(Into::into),
        security_groups: groups(item.security_groups),
        interfaces: item.network_interfaces.unwrap_or_default().into_iter().map(interface).collect(),
        private_dns: text(item.private_dns_name.as_deref()),
        private_ip: text(item.private_ip_address.as_deref()),
        instance_profile: item.iam_instance_profile.and_then(|profile| profile.arn),
        tags: tags_from_sdk(item.tags),
    })
}

fn state(call: &Call, state: Option<types::InstanceState>, field: &str) -> Result<InstanceState> {
    let name = call.field(state.and_then(|state| state.name), field)?;
    InstanceState::parse(name.as_str())
        .ok_or_else(|| call.invalid(format!("instance state `{}` is unknown", name.as_str())))
}

fn preference_from_sdk(
    preference: &types::CapacityReservationPreference,
) -> Option<CapacityReservationPreference> {
    match preference {
        types::CapacityReservationPreference::Open => Some(CapacityReservationPreference::Open),
        types::CapacityReservationPreference::None => Some(CapacityReservationPreference::None),
        types::CapacityReservationPreference::CapacityReservationsOnly => {
            Some(CapacityReservationPreference::CapacityReservationsOnly)
        }
        _ => None,
    }
}

fn groups(groups: Option<Vec<types::GroupIdentifier>>) -> Vec<karpenter_aws_api::id::SecurityGroupId> {
    groups.unwrap_or_default().into_iter().filter_map(|group| group.group_id).map(Into::into).collect()
}

fn interface(interface: types::InstanceNetworkInterface) -> InstanceInterface {
    InstanceInterface {
        kind: match interface.interface_type.as_deref() {
            Some("interface") => Some(InterfaceKind::Interface),
            Some("efa") => Some(InterfaceKind::Efa),
            Some("efa-only") => Some(InterfaceKind::EfaOnly),
            _ => None,
        },
        subnet: text(interface.subnet_id.as_deref()).map(Into::into),
        security_groups: groups(interface.groups),
    }
}

fn summary(summary: Option<types::InstanceStatusSummary>) -> HealthStatus {
    let Some(summary) = summary else { return HealthStatus::default() };
    let details = summary.details.unwrap_or_default();
    let failed: Vec<_> =
        details.iter().filter(|detail| detail.status == Some(types::StatusType::Failed)).collect();
    HealthStatus {
        status: summary.status.map(|status| status.as_str().to_owned()).unwrap_or_default(),
        failed: !failed.is_empty(),
        impaired_since: failed.iter().filter_map(|detail| instant(detail.impaired_since.as_ref())).min(),
    }
}

fn scheduled(call: &Call, event: types::InstanceStatusEvent) -> Result<ScheduledEvent> {
    Ok(ScheduledEvent {
        code: call.field(event.code, "events.code")?.as_str().to_owned(),
        description: event.description.unwrap_or_default(),
        not_before: instant(event.not_before.as_ref()),
    })
}

fn spot_to_sdk() -> types::InstanceMarketOptionsRequest {
    types::InstanceMarketOptionsRequest::builder().market_type(types::MarketType::Spot).build()
}

fn metadata_to_sdk(options: &MetadataOptions) -> types::InstanceMetadataOptionsRequest {
    types::InstanceMetadataOptionsRequest::builder()
        .set_http_endpoint(options.http_endpoint.as_deref().map(Into::into))
        .set_http_protocol_ipv6(options.http_protocol_ipv6.as_deref().map(Into::into))
        .set_http_put_response_hop_limit(options.http_put_response_hop_limit.map(small))
        .set_http_tokens(options.http_tokens.as_deref().map(Into::into))
        .set_instance_metadata_tags(options.instance_metadata_tags.as_deref().map(Into::into))
        .build()
}

fn device_to_sdk(device: &BlockDevice) -> types::BlockDeviceMapping {
    let ebs = device.ebs.as_ref().map(|ebs| {
        types::EbsBlockDevice::builder()
            .set_delete_on_termination(ebs.delete_on_termination)
            .set_encrypted(ebs.encrypted)
            .set_kms_key_id(ebs.kms_key.clone())
            .set_iops(ebs.iops.map(small))
            .set_throughput(ebs.throughput.map(small))
            .set_volume_initialization_rate(ebs.initialization_rate.map(small))
            .set_snapshot_id(ebs.snapshot.clone())
            .set_volume_size(ebs.size_gib.map(small))
            .set_volume_type(ebs.volume_type.as_deref().map(types::VolumeType::from))
            .build()
    });
    types::BlockDeviceMapping::builder().set_device_name(device.device.clone()).set_ebs(ebs).build()
}

fn interface_to_sdk(run: &RunInterface) -> types::InstanceNetworkInterfaceSpecification {
    let interface = &run.interface;
    let groups = interface.security_groups.iter().map(|group| group.as_str().to_owned()).collect::<Vec<_>>();
    types::InstanceNetworkInterfaceSpecification::builder()
        .subnet_id(run.subnet.as_str())
        .set_network_card_index(interface.card.map(small))
        .device_index(small(interface.device))
        .set_interface_type(interface.kind.map(|kind| kind.as_str().to_owned()))
        .set_groups(Some(groups).filter(|groups| !groups.is_empty()))
        .set_associate_public_ip_address(interface.associate_public_ip)
        .set_ipv4_prefix_count(interface.ipv4_prefixes.map(small))
        .set_ipv6_prefix_count(interface.ipv6_prefixes.map(small))
        .set_ipv6_address_count(interface.ipv6_addresses.map(small))
        .set_primary_ipv6(interface.primary_ipv6)
        .build()
}
