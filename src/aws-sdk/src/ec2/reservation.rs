//! Capacity reservations and placement groups over the SDK.

use aws_sdk_ec2::{Client, types};

use super::super::call::{Call, each_page};
use super::super::convert::{count, describe, instant};
use super::{filters_to_sdk, ids_to_sdk, page_size, tags_from_sdk};
use karpenter_aws_api::Result;
use karpenter_aws_api::ec2::{
    CapacityReservation, CapacityReservationQuery, PlacementGroup, PlacementGroupQuery, PlacementStrategy,
};
use karpenter_aws_api::id::PlacementGroupId;

pub(super) async fn reservations(
    client: &Client,
    query: &CapacityReservationQuery,
) -> Result<Vec<CapacityReservation>> {
    let call = Call::new("DescribeCapacityReservations", describe(&query.ids, &query.filters));
    let request = client
        .describe_capacity_reservations()
        .set_capacity_reservation_ids(ids_to_sdk(&query.ids))
        .set_filters(filters_to_sdk(&query.filters))
        .set_max_results(page_size(&query.ids, 1000));
    let mut found = Vec::new();
    each_page!(call, request.into_paginator(), next_token, |page| {
        for item in page.capacity_reservations.unwrap_or_default() {
            found.push(reservation(&call, item)?);
        }
    });
    Ok(found)
}

fn reservation(call: &Call, item: types::CapacityReservation) -> Result<CapacityReservation> {
    Ok(CapacityReservation {
        id: call.field(item.capacity_reservation_id, "capacityReservationId")?.into(),
        owner: call.field(item.owner_id, "ownerId")?,
        instance_type: call.field(item.instance_type, "instanceType")?.into(),
        zone: call.field(item.availability_zone, "availabilityZone")?.into(),
        match_criteria: call
            .field(item.instance_match_criteria, "instanceMatchCriteria")?
            .as_str()
            .to_owned(),
        kind: item.reservation_type.map(|kind| kind.as_str().to_owned()),
        state: call.field(item.state, "state")?.as_str().to_owned(),
        total: call.field(count(item.total_instance_count), "totalInstanceCount")?,
        available: call.field(count(item.available_instance_count), "availableInstanceCount")?,
        ends_at: instant(item.end_date.as_ref()),
        interruptible: item.interruptible,
        platform: item.instance_platform.map(|platform| platform.as_str().to_owned()),
        tenancy: item.tenancy.map(|tenancy| tenancy.as_str().to_owned()),
        tags: tags_from_sdk(item.tags),
    })
}

pub(super) async fn placement_groups(
    client: &Client,
    query: &PlacementGroupQuery,
) -> Result<Vec<PlacementGroup>> {
    let words: Vec<&str> = query
        .names
        .iter()
        .map(String::as_str)
        .chain(query.ids.iter().map(PlacementGroupId::as_str))
        .collect();
    let call = Call::new("DescribePlacementGroups", describe(&words, &query.filters));
    let answer = client
        .describe_placement_groups()
        .set_group_names(ids_to_sdk(&query.names))
        .set_group_ids(ids_to_sdk(&query.ids))
        .set_filters(filters_to_sdk(&query.filters))
        .send()
        .await
        .map_err(|failure| call.failed(failure))?;
    answer
        .placement_groups
        .unwrap_or_default()
        .into_iter()
        .map(|group| {
            Ok(PlacementGroup {
                id: call.field(group.group_id, "groupId")?.into(),
                name: call.field(group.group_name, "groupName")?,
                strategy: PlacementStrategy::from(call.field(group.strategy, "strategy")?.as_str()),
                state: call.field(group.state, "state")?.as_str().to_owned(),
                partitions: count(group.partition_count).filter(|partitions| *partitions > 0),
                tags: tags_from_sdk(group.tags),
            })
        })
        .collect()
}
