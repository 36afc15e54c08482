//! Orders the offerings of a fleet: the allocation strategies.

use super::Capacity;
use crate::catalogue::Catalogue;
use karpenter_aws_api::ec2::{CapacityKind, FleetOverride, FleetRequest, OnDemandAllocation, SpotAllocation};
use karpenter_aws_api::id::Zone;

/// Pools with fewer instances than this count as shallow for the capacity-minded strategies.
const SHALLOW: u32 = 10;

/// One offering of one template, with what it costs.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) template: String,
    pub(super) offering: FleetOverride,
    pub(super) zone: Zone,
    price: u64,
}

/// All offerings of a request, best first. Ties break by type, zone and template, so runs repeat.
pub(super) fn ranked(
    request: &FleetRequest,
    catalogue: &Catalogue,
    capacity: &Capacity,
    zone_of: impl Fn(&FleetOverride) -> Zone,
) -> Vec<Candidate> {
    let spot = matches!(request.capacity, CapacityKind::Spot(_));
    let mut candidates: Vec<Candidate> = request
        .configs
        .iter()
        .flat_map(|config| config.overrides.iter().map(move |offering| (config, offering)))
        .map(|(config, offering)| {
            let zone = zone_of(offering);
            let price = if spot {
                catalogue.spot.get(&(offering.instance_type.clone(), zone.clone()))
            } else {
                catalogue.on_demand.get(&offering.instance_type)
            };
            Candidate {
                template: config.launch_template.clone(),
                offering: offering.clone(),
                price: price.copied().unwrap_or(u64::MAX),
                zone,
            }
        })
        .collect();
    candidates.sort_by_cached_key(|candidate| {
        let offering = &candidate.offering;
        let shallow = capacity.depth(&offering.instance_type, &candidate.zone, spot) < SHALLOW;
        let priority = offering.priority_nanos.unwrap_or(i64::MAX);
        let rank = match request.capacity {
            CapacityKind::Spot(SpotAllocation::LowestPrice)
            | CapacityKind::OnDemand(OnDemandAllocation::LowestPrice)
            | CapacityKind::InterruptibleReservation
            | CapacityKind::CapacityBlock => (false, 0, candidate.price),
            CapacityKind::Spot(SpotAllocation::PriceCapacityOptimized) => (shallow, 0, candidate.price),
            CapacityKind::Spot(SpotAllocation::CapacityOptimizedPrioritized) => (shallow, priority, 0),
            CapacityKind::OnDemand(OnDemandAllocation::Prioritized) => (false, priority, 0),
        };
        let name = (offering.instance_type.clone(), candidate.zone.clone(), candidate.template.clone());
        (rank, name, offering.subnet.clone())
    });
    candidates
}
