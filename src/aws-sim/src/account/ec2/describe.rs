//! The listings of EC2: which filters exist, and what an unknown id does.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_aws_api::id::{InstanceType, PlacementGroupId, ReservationId, Zone};
use karpenter_aws_api::{Error, Filter, Listing, Result, Tags};

use super::capacity::Refusal;
use super::filters::matches;
use super::vm::Vm;
use super::{Compute, no_instance};
use crate::catalogue::{Catalogue, decimal};
use karpenter_aws_api::ec2::{
    CapacityReservation, CapacityReservationQuery, FleetRequest, Image, ImageQuery, ImageState, Instance,
    InstanceQuery, InstanceTypeInfo, InstanceTypeQuery, PlacementGroup, PlacementGroupQuery,
    PlacementStrategy, SpotPrice, SpotPriceQuery, TypeOffering, UsageClass,
};

/// Product of every spot price.
const PRODUCT: &str = "Linux/UNIX";

pub(super) fn fleet_subject(request: &FleetRequest) -> String {
    let offerings: usize = request.configs.iter().map(|config| config.overrides.len()).sum();
    format!("{} over {offerings} offerings", request.target)
}

pub(super) fn instance_subject(query: &InstanceQuery) -> String {
    if query.ids.is_empty() { "filtered".to_owned() } else { format!("{:?}", query.ids) }
}

pub(super) fn instance_types(
    catalogue: &Catalogue,
    query: &InstanceTypeQuery,
) -> Result<Listing<InstanceTypeInfo>> {
    let operation = "DescribeInstanceTypes";
    if let Some(unknown) = query.types.iter().find(|name| !catalogue.types.contains_key(*name)) {
        let text = format!("The following supplied instance types do not exist: [{unknown}]");
        return Err(Error::answered(operation, unknown.as_str(), "InvalidInstanceType", text));
    }
    let mut found = Vec::new();
    for info in catalogue.types.values() {
        let fits = matches(operation, &query.filters, &Tags::new(), |name| match name {
            "instance-type" => Some(vec![info.name.to_string()]),
            "supported-virtualization-type" => Some(vec!["hvm".to_owned()]),
            "processor-info.supported-architecture" => {
                Some(info.architectures.iter().map(|name| name.as_str().to_owned()).collect())
            }
            "supported-usage-class" => {
                Some(info.usage_classes.iter().map(|name| name.as_str().to_owned()).collect())
            }
            "bare-metal" => Some(vec![info.bare_metal.to_string()]),
            "current-generation" => Some(vec![info.current_generation.to_string()]),
            "hypervisor" => Some(vec![info.hypervisor.clone()]),
            _ => None,
        })?;
        if fits && (query.types.is_empty() || query.types.contains(&info.name)) {
            found.push(info.clone());
        }
    }
    Ok(Listing::complete(found))
}

pub(super) fn offerings(catalogue: &Catalogue, filters: &[Filter]) -> Result<Listing<TypeOffering>> {
    let mut found = Vec::new();
    for (instance_type, zone) in &catalogue.offerings {
        let fits = matches("DescribeInstanceTypeOfferings", filters, &Tags::new(), |name| match name {
            "instance-type" => Some(vec![instance_type.to_string()]),
            "location" => Some(vec![zone.to_string()]),
            _ => None,
        })?;
        if fits {
            found.push(TypeOffering { instance_type: instance_type.clone(), zone: zone.clone() });
        }
    }
    Ok(Listing::complete(found))
}

pub(super) fn spot_prices(
    catalogue: &Catalogue,
    query: &SpotPriceQuery,
    now: Timestamp,
) -> Listing<SpotPrice> {
    let product = query.products.is_empty() || query.products.iter().any(|name| name == PRODUCT);
    let prices = catalogue
        .spot
        .iter()
        .filter(|((kind, _), _)| product && (query.types.is_empty() || query.types.contains(kind)))
        .map(|((instance_type, zone), price)| SpotPrice {
            instance_type: instance_type.clone(),
            zone: zone.clone(),
            price: spot_text(*price),
            product: PRODUCT.to_owned(),
            since: now.saturating_sub(Duration::from_hours(1)).unwrap_or(now),
        })
        .collect();
    Listing::complete(prices)
}

/// The history prints six decimals.
fn spot_text(nanos: u64) -> String {
    let ten_decimals = decimal(nanos);
    ten_decimals[..ten_decimals.len() - 4].to_owned()
}

impl Compute {
    pub(super) fn images(&self, query: &ImageQuery, account: &str, now: Timestamp) -> Result<Listing<Image>> {
        let operation = "DescribeImages";
        if let Some(unknown) = query.ids.iter().find(|id| !self.images.contains_key(*id)) {
            let text = format!("The image id '[{unknown}]' does not exist");
            return Err(Error::answered(operation, unknown.as_str(), "InvalidAMIID.NotFound", text));
        }
        let owned = |image: &Image| {
            query.owners.is_empty()
                || query.owners.iter().any(|owner| match owner.as_str() {
                    "self" => image.owner == account,
                    "amazon" => image.owner != account,
                    id => image.owner == id,
                })
        };
        let mut found = Vec::new();
        for image in self.images.values() {
            let deprecated = image.deprecated_at.is_some_and(|at| at <= now);
            let fits = matches(operation, &query.filters, &image.tags, |name| match name {
                "image-id" => Some(vec![image.id.to_string()]),
                "name" => Some(vec![image.name.clone()]),
                "architecture" => Some(vec![image.architecture.as_str().to_owned()]),
                "state" => Some(vec![state_text(&image.state).to_owned()]),
                "owner-id" => Some(vec![image.owner.clone()]),
                _ => None,
            })?;
            let wanted = query.ids.is_empty() || query.ids.contains(&image.id);
            if fits && wanted && owned(image) && (query.include_deprecated || !deprecated) {
                found.push(image.clone());
            }
        }
        Ok(Listing::complete(found))
    }

    pub(super) fn reservations(&self, query: &CapacityReservationQuery) -> Result<Vec<CapacityReservation>> {
        let operation = "DescribeCapacityReservations";
        if let Some(unknown) = query.ids.iter().find(|id| !self.reservations.contains_key(*id)) {
            let text = format!("The capacity reservation '{unknown}' does not exist");
            let code = "InvalidCapacityReservationId.NotFound";
            return Err(Error::answered(operation, unknown.as_str(), code, text));
        }
        let mut found = Vec::new();
        for item in self.reservations.values() {
            let fits = matches(operation, &query.filters, &item.tags, |name| match name {
                "state" => Some(vec![item.state.clone()]),
                "owner-id" => Some(vec![item.owner.clone()]),
                "instance-match-criteria" => Some(vec![item.match_criteria.clone()]),
                "instance-type" => Some(vec![item.instance_type.to_string()]),
                "availability-zone" => Some(vec![item.zone.to_string()]),
                _ => None,
            })?;
            if fits && (query.ids.is_empty() || query.ids.contains(&item.id)) {
                found.push(item.clone());
            }
        }
        Ok(found)
    }

    /// One instance of a reservation, for a launch that targets it.
    pub(super) fn take_reservation(
        &mut self,
        id: &ReservationId,
        instance_type: &InstanceType,
        zone: &Zone,
    ) -> Result<(), Refusal> {
        let full = |text: String| Err(("ReservationCapacityExceeded", text));
        match self.reservations.get_mut(id) {
            None => full(format!("The capacity reservation '{id}' does not exist")),
            Some(found) if found.instance_type != *instance_type || found.zone != *zone => {
                full(format!("The capacity reservation '{id}' is not for {instance_type} in {zone}"))
            }
            Some(found) if found.available == 0 => {
                full(format!("The requested capacity reservation '{id}' has no available capacity"))
            }
            Some(found) => {
                found.available -= 1;
                Ok(())
            }
        }
    }

    /// Returns the partition for an instance that names none.
    pub(super) fn emptiest_partition(&self, group: &PlacementGroupId) -> Option<u32> {
        let placed = self.placement_groups.get(group)?;
        let partitions = placed.partitions.filter(|_| placed.strategy == PlacementStrategy::Partition)?;
        let alive = |vm: &&Vm| vm.ended_at.is_none() && vm.placement_group.as_ref() == Some(group);
        let taken = |partition: u32| {
            self.vms.values().filter(alive).filter(|vm| vm.partition == Some(partition)).count()
        };
        (1..=partitions).min_by_key(|partition| taken(*partition))
    }

    pub(super) fn placement_groups(&self, query: &PlacementGroupQuery) -> Result<Vec<PlacementGroup>> {
        let operation = "DescribePlacementGroups";
        let unknown = |name: &str| {
            let text = format!("The Placement Group '{name}' is unknown.");
            Err(Error::answered(operation, name, "InvalidPlacementGroup.Unknown", text))
        };
        for name in &query.names {
            if !self.placement_groups.values().any(|group| group.name == *name) {
                return unknown(name);
            }
        }
        if let Some(id) = query.ids.iter().find(|id| !self.placement_groups.contains_key(*id)) {
            return unknown(id.as_str());
        }
        let mut found = Vec::new();
        for group in self.placement_groups.values() {
            let fits = matches(operation, &query.filters, &group.tags, |name| match name {
                "state" => Some(vec![group.state.clone()]),
                "strategy" => Some(vec![group.strategy.as_str().to_owned()]),
                "group-name" => Some(vec![group.name.clone()]),
                _ => None,
            })?;
            let wanted = (query.names.is_empty() && query.ids.is_empty())
                || query.names.contains(&group.name)
                || query.ids.contains(&group.id);
            if fits && wanted {
                found.push(group.clone());
            }
        }
        Ok(found)
    }

    pub(super) fn describe_instances(
        &self,
        query: &InstanceQuery,
        delay: Duration,
        now: Timestamp,
    ) -> Result<Vec<Instance>> {
        let operation = "DescribeInstances";
        for id in &query.ids {
            if !self.vms.get(id).is_some_and(|vm| vm.is_visible(delay, now)) {
                return Err(no_instance(operation, id));
            }
        }
        let mut found = Vec::new();
        for vm in self.vms.values().filter(|vm| vm.is_visible(delay, now)) {
            if !query.ids.is_empty() && !query.ids.contains(&vm.id) {
                continue;
            }
            let fits = matches(operation, &query.filters, &vm.tags, |name| match name {
                "instance-state-name" => Some(vec![vm.state.as_str().to_owned()]),
                "instance-id" => Some(vec![vm.id.to_string()]),
                "instance-type" => Some(vec![vm.instance_type.to_string()]),
                "image-id" => Some(vec![vm.image.to_string()]),
                "availability-zone" => Some(vec![vm.zone.to_string()]),
                "subnet-id" => Some(vec![vm.subnet.to_string()]),
                "vpc-id" => Some(vec![vm.vpc.to_string()]),
                "client-token" => Some(Vec::new()),
                "instance-lifecycle" => {
                    Some(vm.is_spot().then(|| UsageClass::Spot.as_str().to_owned()).into_iter().collect())
                }
                _ => None,
            })?;
            if fits {
                found.push(vm.describe());
            }
        }
        Ok(found)
    }
}

fn state_text(state: &ImageState) -> &str {
    match state {
        ImageState::Available => "available",
        ImageState::Other(text) => text,
    }
}
