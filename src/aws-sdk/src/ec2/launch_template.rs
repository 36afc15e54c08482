//! Launch templates over the SDK.

use aws_sdk_ec2::{Client, types};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::call::{Call, each_page};
use super::super::convert::{describe as name_query, instant, small};
use super::{filters_to_sdk, ids_to_sdk, page_size, tags_from_sdk, tags_to_sdk};
use karpenter_aws_api::Result;
use karpenter_aws_api::ec2::{
    BlockDevice, LaunchTemplate, LaunchTemplateData, LaunchTemplateQuery, LaunchTemplateSpec,
    MetadataOptions, NetworkInterface, Placement,
};

pub(super) async fn create(client: &Client, spec: &LaunchTemplateSpec) -> Result<LaunchTemplate> {
    let call = Call::new("CreateLaunchTemplate", &spec.name);
    let tags = types::TagSpecification::builder()
        .resource_type(types::ResourceType::LaunchTemplate)
        .set_tags(Some(tags_to_sdk(&spec.tags)))
        .build();
    let answer = client
        .create_launch_template()
        .launch_template_name(&spec.name)
        .set_client_token(spec.client_token.clone())
        .launch_template_data(data(&spec.data))
        .set_tag_specifications((!spec.tags.is_empty()).then(|| vec![tags]))
        .send()
        .await
        .map_err(|failure| call.failed(failure))?;
    from_sdk(&call, call.field(answer.launch_template, "launchTemplate")?)
}

pub(super) async fn describe(client: &Client, query: &LaunchTemplateQuery) -> Result<Vec<LaunchTemplate>> {
    let call = Call::new("DescribeLaunchTemplates", name_query(&query.names, &query.filters));
    let request = client
        .describe_launch_templates()
        .set_launch_template_names(ids_to_sdk(&query.names))
        .set_filters(filters_to_sdk(&query.filters))
        .set_max_results(page_size(&query.names, 200));
    let mut found = Vec::new();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for template in page.launch_templates.unwrap_or_default() {
            found.push(from_sdk(&call, template)?);
        }
    });
    Ok(found)
}

pub(super) async fn delete(client: &Client, name: &str) -> Result<()> {
    let call = Call::new("DeleteLaunchTemplate", name);
    client
        .delete_launch_template()
        .launch_template_name(name)
        .send()
        .await
        .map_err(|failure| call.failed(failure))?;
    Ok(())
}

fn from_sdk(call: &Call, template: types::LaunchTemplate) -> Result<LaunchTemplate> {
    Ok(LaunchTemplate {
        id: call.field(template.launch_template_id, "launchTemplateId")?.into(),
        name: call.field(template.launch_template_name, "launchTemplateName")?,
        latest_version: call.field(
            template.latest_version_number.and_then(|version| u64::try_from(version).ok()),
            "latestVersionNumber",
        )?,
        created_at: call.field(instant(template.create_time.as_ref()), "createTime")?,
        tags: tags_from_sdk(template.tags),
    })
}

fn data(data: &LaunchTemplateData) -> types::RequestLaunchTemplateData {
    types::RequestLaunchTemplateData::builder()
        .set_image_id(data.image.as_ref().map(|image| image.as_str().to_owned()))
        .set_user_data(data.user_data.as_ref().map(|text| STANDARD.encode(text.expose())))
        .set_iam_instance_profile(data.instance_profile.as_ref().map(|name| {
            types::LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(name).build()
        }))
        .set_monitoring(
            data.detailed_monitoring
                .map(|on| types::LaunchTemplatesMonitoringRequest::builder().enabled(on).build()),
        )
        .set_ebs_optimized(data.ebs_optimized)
        .set_block_device_mappings(list(&data.block_devices, block_device))
        .set_metadata_options(data.metadata.as_ref().map(metadata))
        .set_network_interfaces(list(&data.network_interfaces, network_interface))
        .set_tag_specifications(list(&data.tags, |specification| {
            types::LaunchTemplateTagSpecificationRequest::builder()
                .resource_type(types::ResourceType::from(specification.kind.as_str()))
                .set_tags(Some(tags_to_sdk(&specification.tags)))
                .build()
        }))
        .set_placement(data.placement.as_ref().map(placement))
        .set_enclave_options(
            data.enclave.map(|on| types::LaunchTemplateEnclaveOptionsRequest::builder().enabled(on).build()),
        )
        .set_cpu_options(data.nested_virtualization.as_deref().map(|setting| {
            types::LaunchTemplateCpuOptionsRequest::builder()
                .nested_virtualization(types::NestedVirtualizationSpecification::from(setting))
                .build()
        }))
        .set_capacity_reservation_specification(data.capacity_reservation.as_ref().map(|target| {
            types::LaunchTemplateCapacityReservationSpecificationRequest::builder()
                .capacity_reservation_preference(types::CapacityReservationPreference::from(
                    target.preference.as_str(),
                ))
                .set_capacity_reservation_target(target.id.as_ref().map(|id| {
                    types::CapacityReservationTarget::builder().capacity_reservation_id(id.as_str()).build()
                }))
                .build()
        }))
        .set_instance_market_options(data.market.map(|market| {
            types::LaunchTemplateInstanceMarketOptionsRequest::builder()
                .market_type(types::MarketType::from(market.as_str()))
                .build()
        }))
        .build()
}

fn list<T, U>(items: &[T], convert: impl Fn(&T) -> U) -> Option<Vec<U>> {
    (!items.is_empty()).then(|| items.iter().map(convert).collect())
}

fn block_device(device: &BlockDevice) -> types::LaunchTemplateBlockDeviceMappingRequest {
    types::LaunchTemplateBlockDeviceMappingRequest::builder()
        .set_device_name(device.device.clone())
        .set_ebs(device.ebs.as_ref().map(|ebs| {
            types::LaunchTemplateEbsBlockDeviceRequest::builder()
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
        }))
        .build()
}

fn metadata(options: &MetadataOptions) -> types::LaunchTemplateInstanceMetadataOptionsRequest {
    types::LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .set_http_endpoint(
            options.http_endpoint.as_deref().map(types::LaunchTemplateInstanceMetadataEndpointState::from),
        )
        .set_http_protocol_ipv6(
            options
                .http_protocol_ipv6
                .as_deref()
                .map(types::LaunchTemplateInstanceMetadataProtocolIpv6::from),
        )
        .set_http_put_response_hop_limit(options.http_put_response_hop_limit.map(small))
        .set_http_tokens(options.http_tokens.as_deref().map(types::LaunchTemplateHttpTokensState::from))
        .set_instance_metadata_tags(
            options
                .instance_metadata_tags
                .as_deref()
                .map(types::LaunchTemplateInstanceMetadataTagsState::from),
        )
        .build()
}

fn network_interface(
    interface: &NetworkInterface,
) -> types::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let groups = interface.security_groups.iter().map(|group| group.as_str().to_owned()).collect::<Vec<_>>();
    types::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .set_network_card_index(interface.card.map(small))
        .device_index(small(interface.device))
        .set_interface_type(interface.kind.map(|kind| kind.as_str().to_owned()))
        .set_groups(Some(groups).filter(|groups| !groups.is_empty()))
        .set_associate_public_ip_address(interface.associate_public_ip)
        .set_ipv4_prefix_count(interface.ipv4_prefixes.map(small))
        .set_ipv6_prefix_count(interface.ipv6_prefixes.map(small))
        .set_ipv6_address_count(interface.ipv6_addresses.map(small))
        .set_primary_ipv6(interface.primary_ipv6)
        .set_connection_tracking_specification(interface.connection_tracking.map(|tracking| {
            types::ConnectionTrackingSpecificationRequest::builder()
                .set_tcp_established_timeout(tracking.tcp_established.map(small))
                .set_udp_stream_timeout(tracking.udp_stream.map(small))
                .set_udp_timeout(tracking.udp.map(small))
                .build()
        }))
        .build()
}

fn placement(placement: &Placement) -> types::LaunchTemplatePlacementRequest {
    types::LaunchTemplatePlacementRequest::builder()
        .set_tenancy(placement.tenancy.map(|tenancy| types::Tenancy::from(tenancy.as_str())))
        .set_group_id(placement.group.as_ref().map(|group| group.as_str().to_owned()))
        .set_partition_number(placement.partition.map(small))
        .build()
}
