//! Offer of the in-memory cloud.
//!
//! Prices follow size: a spot machine costs 30% of the on-demand one, and zones differ by a cent so that the
//! cheapest offering is always a single one.

use std::sync::Arc;

use karpenter_model::device::DeviceTemplates;
use karpenter_model::names::label;
use karpenter_model::{
    CapacityType, InstanceType, LabelRegistry, Offering, Overhead, Price, Quantity, Requirement,
    Requirements, Resources,
};

use crate::overlay::List;
use crate::{LaunchRequest, NodeClassKind, OfferingKey};

/// The node class kind of the in-memory cloud.
pub const NODE_CLASS: NodeClassKind = NodeClassKind { group: "karpenter.memory", kind: "MemoryNodeClass" };

const CAPACITY_TYPES: [CapacityType; 2] = [CapacityType::Spot, CapacityType::OnDemand];
const GIB: i64 = 1 << 30;
const NANO_DOLLARS: i64 = 1_000_000_000;

/// The instance types of one account.
#[derive(Debug)]
pub struct Catalogue {
    types: List,
    registry: Arc<LabelRegistry>,
}

impl Catalogue {
    /// A catalogue of these types.
    pub fn new(types: Vec<InstanceType>, registry: Arc<LabelRegistry>) -> Self {
        Self { types: types.into_iter().map(Arc::new).collect(), registry }
    }

    /// Three sizes (`small` 2 cpu 4 GiB, `medium` 4 cpu 16 GiB, `large` 16 cpu 64 GiB) in these zones, as spot
    /// and on demand.
    pub fn small(zones: &[&str]) -> Self {
        let registry = Arc::new(LabelRegistry::core());
        let types = [("small", 2, 4), ("medium", 4, 16), ("large", 16, 64)]
            .into_iter()
            .map(|(name, cpu, gib)| sized(name, cpu, gib, zones))
            .collect();
        Self::new(types, registry)
    }

    /// The same where machines of type `kind` bring along these devices.
    #[must_use]
    pub fn bringing(mut self, kind: &str, devices: &Arc<DeviceTemplates>) -> Self {
        let types = self.types.iter().map(|one| {
            let devices = if one.name == *kind { Some(Arc::clone(devices)) } else { one.devices.clone() };
            Arc::new(InstanceType { devices, ..(**one).clone() })
        });
        self.types = types.collect();
        self
    }

    pub(super) fn registry(&self) -> Arc<LabelRegistry> {
        Arc::clone(&self.registry)
    }

    /// Every offering that can serve the request, cheapest first; ties by type, zone and capacity type.
    pub(super) fn candidates(&self, request: &LaunchRequest) -> Vec<(Arc<InstanceType>, Offering)> {
        let types = request.seen(&self.types, &self.registry);
        let mut candidates: Vec<_> = types
            .iter()
            .filter(|one| request.instance_types.is_empty() || request.instance_types.contains(&one.name))
            .filter(|one| request.requirements.intersects(&one.requirements).is_ok())
            .filter(|one| request.requests.fits(&one.allocatable()))
            .flat_map(|one| one.offerings.iter().map(|offering| (Arc::clone(one), offering.clone())))
            .filter(|(_, offering)| offering.is_compatible(&request.requirements, &self.registry))
            .collect();
        candidates.sort_by(|(left_type, left), (right_type, right)| {
            let left = (left.price, &left_type.name, &left.zone, left.capacity_type);
            left.cmp(&(right.price, &right_type.name, &right.zone, right.capacity_type))
        });
        candidates
    }

    /// Every type, its offerings available as far as the given test allows.
    pub(super) fn with_availability(&self, available: impl Fn(&OfferingKey) -> bool) -> List {
        self.types
            .iter()
            .map(|instance_type| {
                let mut seen = InstanceType::clone(instance_type);
                for offering in &mut seen.offerings {
                    offering.available = available(&super::offering_key(instance_type, offering));
                }
                Arc::new(seen)
            })
            .collect()
    }
}

fn sized(name: &str, cpu: i64, gib: i64, zones: &[&str]) -> InstanceType {
    let capacity = Resources::from_iter([
        ("cpu".into(), Quantity::from_units(cpu)),
        ("memory".into(), Quantity::from_bytes(gib * GIB)),
        ("ephemeral-storage".into(), Quantity::from_bytes(20 * GIB)),
        ("pods".into(), Quantity::from_units(110)),
    ]);
    let kube_reserved = Resources::from_iter([
        ("cpu".into(), Quantity::from_millis(80)),
        ("memory".into(), Quantity::from_bytes(GIB / 2)),
    ]);
    let capacity_types = CAPACITY_TYPES.map(CapacityType::as_str);
    InstanceType {
        requirements: requirements(&[
            (label::INSTANCE_TYPE, &[name]),
            (label::ARCH, &["amd64"]),
            (label::OS, &["linux"]),
            (label::ZONE, zones),
            (label::CAPACITY_TYPE, &capacity_types),
        ]),
        capacity,
        overhead: Overhead { kube_reserved, ..Overhead::default() },
        ..InstanceType::bare(name, offerings(cpu, zones))
    }
}

fn offerings(cpu: i64, zones: &[&str]) -> Vec<Offering> {
    let mut offerings = Vec::new();
    for (index, zone) in (0_i64..).zip(zones) {
        for capacity_type in CAPACITY_TYPES {
            let on_demand = cpu * NANO_DOLLARS / 20 + index * NANO_DOLLARS / 100;
            let price = match capacity_type {
                CapacityType::Spot => on_demand * 3 / 10,
                CapacityType::OnDemand | CapacityType::Reserved => on_demand,
            };
            offerings.push(Offering::new(zone, capacity_type, Price::from_nanos(price)));
        }
    }
    offerings
}

fn requirements(entries: &[(&str, &[&str])]) -> Requirements {
    entries
        .iter()
        .map(|(key, values)| Requirement::one_of((*key).into(), values.iter().map(|value| (*value).into())))
        .collect()
}
