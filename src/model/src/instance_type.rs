//! Instance types and their offerings, as a cloud sells them (spec scheduling 10).

use std::sync::Arc;

use crate::device::DeviceTemplates;
use crate::id::{CapacityType, InstanceTypeName, LabelValue, ReservationId, Zone};
use crate::label::LabelRegistry;
use crate::money::Price;
use crate::names::label;
use crate::node::Node;
use crate::requirement::Requirement;
use crate::requirement::set::{Requirements, Undefined};
use crate::resources::quantity::Quantity;
use crate::resources::{self, Resources};

/// One instance type as one pool sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceType {
    pub name: InstanceTypeName,
    /// One entry for every well-known label, possibly `DoesNotExist`.
    pub requirements: Requirements,
    /// Resources of the machine.
    pub capacity: Resources,
    /// Resources that the system keeps.
    pub overhead: Overhead,
    /// Places and ways it is sold, available or not.
    pub offerings: Vec<Offering>,
    /// Parts that users have overlaid.
    pub overlaid: Overlaid,
    /// Devices that drivers will publish on its machines, as the cloud describes them; `None` where it describes none.
    pub devices: Option<Arc<DeviceTemplates>>,
}

/// Parts of an instance type that a `NodeOverlay` sets instead of the cloud (spec scheduling 24).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overlaid {
    /// The price of at least one offering.
    pub price: bool,
    /// The amount of at least one resource.
    pub capacity: bool,
}

/// Resources pods cannot have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overhead {
    /// `kubeReserved` of the kubelet.
    pub kube_reserved: Resources,
    /// `systemReserved` of the kubelet.
    pub system_reserved: Resources,
    /// Hard eviction threshold.
    pub eviction: Resources,
}

impl Overhead {
    /// The sum of the three.
    pub fn total(&self) -> Resources {
        self.kube_reserved.merge(&self.system_reserved).merge(&self.eviction)
    }
}

/// One way to buy an instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offering {
    /// Zone of the instance.
    pub zone: Zone,
    /// Capacity type of the instance.
    pub capacity_type: CapacityType,
    /// Labels that hold for it; always zone and capacity type, for reserved ones the reservation id.
    pub requirements: Requirements,
    /// Price per hour.
    pub price: Price,
    /// The price was derived from others and published by no source: it puts types into an order, but next to
    /// a published price it proves nothing.
    pub estimated: bool,
    /// Nothing is known to be wrong with it. A reservation that is full is available all the same; whether a launch may count
    /// on it says [`Offering::is_launchable`].
    pub available: bool,
    /// The reservation behind a reserved offering.
    pub reservation: Option<Reservation>,
    /// Capacity entries that replace those of the type when launched through this offering.
    pub capacity_override: Resources,
    /// Overhead entries that replace those of the type when launched through this offering.
    pub overhead_override: Resources,
}

impl Offering {
    /// An offering that is available at this price and has the labels of every offering.
    pub fn new(zone: &str, capacity_type: CapacityType, price: Price) -> Self {
        let labels = [(label::ZONE, zone), (label::CAPACITY_TYPE, capacity_type.as_str())];
        let labels = labels.map(|(key, value)| Requirement::one_of(key.into(), [value.into()]));
        Self {
            zone: zone.into(),
            capacity_type,
            requirements: labels.into_iter().collect(),
            price,
            estimated: false,
            available: true,
            reservation: None,
            capacity_override: Resources::new(),
            overhead_override: Resources::new(),
        }
    }
}

/// A capacity reservation and how many instances it still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    pub id: ReservationId,
    /// Instances left.
    pub count: u32,
}

impl InstanceType {
    /// A type of which nothing is known but its name and its offerings: the starting point of builders and tests.
    pub fn bare(name: &str, offerings: Vec<Offering>) -> Self {
        Self {
            name: name.into(),
            requirements: Requirements::new(),
            capacity: Resources::new(),
            overhead: Overhead::default(),
            offerings,
            overlaid: Overlaid::default(),
            devices: None,
        }
    }

    /// Returns what pods and daemons may use: capacity minus overhead; huge pages are taken from memory, floor 0.
    pub fn allocatable(&self) -> Resources {
        allocatable(&self.capacity, &self.overhead.total())
    }

    /// Returns what pods and daemons may use when launched through `offering`, whose overrides replace entries.
    pub fn allocatable_through(&self, offering: &Offering) -> Resources {
        let capacity = self.capacity.replaced_by(&offering.capacity_override);
        allocatable(&capacity, &self.overhead.total().replaced_by(&offering.overhead_override))
    }

    /// The offering a machine of this type was bought through, available or not. Of several reservations in one zone
    /// it is the one the machine names; the first, should that have ended.
    pub fn bought_through(&self, node: &Node, registry: &LabelRegistry) -> Option<&Offering> {
        let (zone, capacity_type) = (node.zone()?, node.capacity_type()?);
        let sold = |offering: &&Offering| offering.zone == zone && offering.capacity_type == capacity_type;
        let mut offerings = self.offerings.iter().filter(sold);
        let named = registry.reservation_id.as_ref().and_then(|key| node.effective_labels().get(key));
        let first = offerings.clone().next();
        let own = offerings.find(|offering| {
            let reservation = offering.reservation.as_ref().map(|reservation| reservation.id.as_str());
            reservation.is_some() && reservation == named.map(LabelValue::as_str)
        });
        own.or(first)
    }

    /// Launchable offerings that `requirements` accept.
    pub fn compatible_offerings<'a>(
        &'a self,
        requirements: &'a Requirements,
        registry: &'a LabelRegistry,
    ) -> impl Iterator<Item = &'a Offering> {
        self.offerings
            .iter()
            .filter(|offering| offering.is_launchable() && offering.is_compatible(requirements, registry))
    }

    /// Price of the cheapest available offering that `requirements` accept.
    pub fn cheapest(&self, requirements: &Requirements, registry: &LabelRegistry) -> Option<Price> {
        self.compatible_offerings(requirements, registry).map(|offering| offering.price).min()
    }

    /// The highest price a launch may end up with: the first capacity type in launch preference that has a
    /// compatible available offering, at its most expensive.
    pub fn worst_launch_price(&self, requirements: &Requirements, registry: &LabelRegistry) -> Option<Price> {
        let offerings: Vec<&Offering> = self.compatible_offerings(requirements, registry).collect();
        let first = offerings.iter().map(|offering| offering.capacity_type).min()?;
        offerings
            .iter()
            .filter(|offering| offering.capacity_type == first)
            .map(|offering| offering.price)
            .max()
    }
}

impl Offering {
    /// Believed to be launchable now: available, and with an instance left where it is out of a reservation.
    pub fn is_launchable(&self) -> bool {
        self.available && self.reservation.as_ref().is_none_or(|reservation| reservation.count > 0)
    }

    /// Returns whether a claim with `requirements` may be launched through this offering; well-known keys the claim
    /// does not mention are fine.
    pub fn is_compatible(&self, requirements: &Requirements, registry: &LabelRegistry) -> bool {
        requirements.compatible(&self.requirements, Undefined::WellKnown(registry)).is_ok()
    }
}

fn allocatable(capacity: &Resources, overhead: &Resources) -> Resources {
    let mut allocatable = capacity.subtract(overhead);
    let huge: Quantity = capacity
        .iter()
        .filter(|(name, _)| name.as_str().starts_with(resources::HUGE_PAGES_PREFIX))
        .fold(Quantity::ZERO, |sum, (_, quantity)| sum.saturating_add(*quantity));
    if let Some(memory) = allocatable.get(resources::MEMORY) {
        let left = memory.saturating_sub(huge);
        let floor = if huge > Quantity::ZERO { left.max(Quantity::ZERO) } else { left };
        allocatable.set(resources::MEMORY, floor);
    }
    allocatable
}

pub mod overlay;
#[cfg(test)]
mod tests;
