//! Zones, VPCs, subnets and security groups over the SDK.

use aws_sdk_ec2::{Client, types};

use super::super::call::{Call, each_page};
use super::super::convert::{count, describe};
use super::{filters_to_sdk, ids_to_sdk, page_size, tags_from_sdk};
use karpenter_aws_api::Result;
use karpenter_aws_api::ec2::{
    AvailabilityZone, SecurityGroup, SecurityGroupQuery, Subnet, SubnetQuery, Vpc, VpcQuery,
};

pub(super) async fn zones(client: &Client) -> Result<Vec<AvailabilityZone>> {
    let call = Call::new("DescribeAvailabilityZones", "all");
    let answer = client.describe_availability_zones().send().await.map_err(|failure| call.failed(failure))?;
    answer
        .availability_zones
        .unwrap_or_default()
        .into_iter()
        .map(|zone| {
            Ok(AvailabilityZone {
                name: call.field(zone.zone_name, "zoneName")?.into(),
                id: call.field(zone.zone_id, "zoneId")?.into(),
                kind: zone.zone_type.unwrap_or_else(|| "availability-zone".to_owned()),
                state: call.field(zone.state, "zoneState")?.as_str().to_owned(),
            })
        })
        .collect()
}

pub(super) async fn vpcs(client: &Client, query: &VpcQuery) -> Result<Vec<Vpc>> {
    let call = Call::new("DescribeVpcs", describe(&query.ids, &query.filters));
    let request = client
        .describe_vpcs()
        .set_vpc_ids(ids_to_sdk(&query.ids))
        .set_filters(filters_to_sdk(&query.filters))
        .set_max_results(page_size(&query.ids, 500));
    let mut vpcs = Vec::new();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for vpc in page.vpcs.unwrap_or_default() {
            vpcs.push(Vpc {
                id: call.field(vpc.vpc_id, "vpcId")?.into(),
                cidr: call.field(vpc.cidr_block, "cidrBlock")?,
                is_default: vpc.is_default.unwrap_or(false),
                tags: tags_from_sdk(vpc.tags),
            });
        }
    });
    Ok(vpcs)
}

pub(super) async fn subnets(client: &Client, query: &SubnetQuery) -> Result<Vec<Subnet>> {
    let call = Call::new("DescribeSubnets", describe(&query.ids, &query.filters));
    let request = client
        .describe_subnets()
        .set_subnet_ids(ids_to_sdk(&query.ids))
        .set_filters(filters_to_sdk(&query.filters))
        .set_max_results(page_size(&query.ids, 500));
    let mut subnets = Vec::new();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for found in page.subnets.unwrap_or_default() {
            subnets.push(subnet(&call, found)?);
        }
    });
    Ok(subnets)
}

fn subnet(call: &Call, subnet: types::Subnet) -> Result<Subnet> {
    Ok(Subnet {
        id: call.field(subnet.subnet_id, "subnetId")?.into(),
        vpc: call.field(subnet.vpc_id, "vpcId")?.into(),
        zone: call.field(subnet.availability_zone, "availabilityZone")?.into(),
        zone_id: subnet.availability_zone_id.map(Into::into),
        free_addresses: call.field(count(subnet.available_ip_address_count), "availableIpAddressCount")?,
        cidr: subnet.cidr_block.unwrap_or_default(),
        public_by_default: subnet.map_public_ip_on_launch.unwrap_or(false),
        tags: tags_from_sdk(subnet.tags),
    })
}

pub(super) async fn security_groups(
    client: &Client,
    query: &SecurityGroupQuery,
) -> Result<Vec<SecurityGroup>> {
    let call = Call::new("DescribeSecurityGroups", describe(&query.ids, &query.filters));
    let request = client
        .describe_security_groups()
        .set_group_ids(ids_to_sdk(&query.ids))
        .set_filters(filters_to_sdk(&query.filters))
        .set_max_results(page_size(&query.ids, 500));
    let mut groups = Vec::new();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for group in page.security_groups.unwrap_or_default() {
            groups.push(SecurityGroup {
                id: call.field(group.group_id, "groupId")?.into(),
                name: call.field(group.group_name, "groupName")?,
                vpc: group.vpc_id.map(Into::into),
                tags: tags_from_sdk(group.tags),
            });
        }
    });
    Ok(groups)
}
