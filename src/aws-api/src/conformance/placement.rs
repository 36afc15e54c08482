//! Capacity bought ahead, and places in relation to other instances.

use super::launch::{clean_up, launch_one, reaches, request, template_with};
use super::{Outcome, Reserved, Subject, Violation, ensure, refused, same};
use crate::ec2::{
    CapacityReservation, CapacityReservationPreference, CapacityReservationQuery, CapacityReservationTarget,
    Instance, InstanceQuery, InstanceState, LaunchTemplateData, Placement, PlacementGroup,
    PlacementGroupQuery, PlacementStrategy,
};
use crate::id::{InstanceId, ReservationId};
use crate::{Filter, Kind};

pub(super) async fn reservations_are_found(subject: &Subject) -> Outcome {
    let Some(Reserved { reservation: id, .. }) = &subject.reserved else { return Ok(()) };
    let found = reservation(subject, id).await?;
    same(&found.instance_type, &subject.types[0], "type reserved")?;
    same(&(found.total, found.available), &(1, 1), "instances reserved and left")?;
    for (name, value, there) in [
        ("state", "active", true),
        ("owner-id", found.owner.as_str(), true),
        ("instance-match-criteria", "targeted", true),
        ("instance-match-criteria", "open", false),
    ] {
        let filters = vec![Filter::new(name, [value])];
        let query = CapacityReservationQuery { ids: Vec::new(), filters };
        let listed = subject.clients.ec2.describe_capacity_reservations(&query).await?;
        same(&listed.iter().any(|one| one.id == *id), &there, &format!("listed with {name}={value}"))?;
    }
    let query = CapacityReservationQuery { ids: vec!["cr-0123456789abcdef0".into()], filters: Vec::new() };
    let unknown = subject.clients.ec2.describe_capacity_reservations(&query).await;
    refused(unknown, Kind::NotFound, "a reservation that is not there")
}

pub(super) async fn a_reservation_is_used_up_and_given_back(subject: &Subject) -> Outcome {
    let Some(Reserved { reservation: id, .. }) = &subject.reserved else { return Ok(()) };
    let name = subject.name("reserved");
    let target = CapacityReservationTarget {
        preference: CapacityReservationPreference::CapacityReservationsOnly,
        id: Some(id.clone()),
    };
    let change = LaunchTemplateData { capacity_reservation: Some(target), ..LaunchTemplateData::default() };
    template_with(subject, &name, change).await?;
    let first = launch_one(subject, &request(subject, &name, &[0])).await?;
    same(&instance(subject, &first).await?.reservation.as_ref(), &Some(id), "reservation of the instance")?;
    same(&reservation(subject, id).await?.available, &0, "instances left")?;
    let second = subject.clients.ec2.create_fleet(&request(subject, &name, &[0])).await?;
    ensure(second.instances.is_empty(), || format!("launched into a reservation that is full: {second:?}"))?;
    let codes: Vec<&str> = second.errors.iter().map(|error| error.code.as_str()).collect();
    same(&codes, &vec!["ReservationCapacityExceeded"], "why")?;
    clean_up(subject, &name, std::slice::from_ref(&first)).await?;
    reaches(subject, &first, &[InstanceState::Terminated]).await?;
    same(&reservation(subject, id).await?.available, &1, "instances left after the end of the first")
}

pub(super) async fn partitions_are_chosen_or_named(subject: &Subject) -> Outcome {
    let Some(Reserved { placement_group, .. }) = &subject.reserved else { return Ok(()) };
    let group = placement_group_of(subject, placement_group).await?;
    same(&group.strategy, &PlacementStrategy::Partition, "strategy")?;
    same(&group.partitions, &Some(3), "partitions")?;
    let unknown = placement_group_of(subject, "nobody-made-this-group").await;
    ensure(unknown.is_err(), || "a group that is not there is described".to_owned())?;
    let mut launched = Vec::new();
    let names = [subject.name("any-partition"), subject.name("second-partition")];
    for (name, partition) in names.iter().zip([None, Some(2)]) {
        let placement = Placement { group: Some(group.id.clone()), partition, ..Placement::default() };
        let change = LaunchTemplateData { placement: Some(placement), ..LaunchTemplateData::default() };
        template_with(subject, name, change).await?;
        let id = launch_one(subject, &request(subject, name, &[0])).await?;
        let placed = instance(subject, &id).await?;
        same(&placed.placement_group.as_ref(), &Some(&group.id), "group of the instance")?;
        let chosen = placed.partition.is_some_and(|number| (1..=3).contains(&number));
        ensure(chosen, || format!("partition of the instance: {:?}", placed.partition))?;
        if partition.is_some() {
            same(&placed.partition, &partition, "partition that was named")?;
        }
        launched.push(id);
    }
    clean_up(subject, &names[0], &launched).await?;
    clean_up(subject, &names[1], &[]).await
}

async fn reservation(subject: &Subject, id: &ReservationId) -> Result<CapacityReservation, Violation> {
    let query = CapacityReservationQuery { ids: vec![id.clone()], filters: Vec::new() };
    let mut found = subject.clients.ec2.describe_capacity_reservations(&query).await?;
    same(&found.len(), &1, "reservations of one id")?;
    Ok(found.remove(0))
}

async fn placement_group_of(subject: &Subject, name: &str) -> Result<PlacementGroup, Violation> {
    let query = PlacementGroupQuery {
        names: vec![name.to_owned()],
        filters: vec![Filter::new("state", ["available"])],
        ..PlacementGroupQuery::default()
    };
    let mut found = subject.clients.ec2.describe_placement_groups(&query).await?;
    same(&found.len(), &1, "groups of one name")?;
    Ok(found.remove(0))
}

async fn instance(subject: &Subject, id: &InstanceId) -> Result<Instance, Violation> {
    reaches(subject, id, &[InstanceState::Running]).await?;
    let query = InstanceQuery { ids: vec![id.clone()], filters: Vec::new() };
    Ok(subject.clients.ec2.describe_instances(&query).await?.remove(0))
}
