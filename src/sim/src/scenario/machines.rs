//! Which instances and offerings a step of a timeline means.

use karpenter_aws_api::ec2::{Instance, Lifecycle};
use karpenter_aws_sim::OfferingSelector;
use karpenter_model::names::{label, tag};

use super::format::{CapacityLoss, CapacityType, Machines, PriceChange};
use super::value::is_of_type;

/// Those of `found` that belong to nodes and are meant, the oldest first. `found` must have live instances only.
pub fn meant(which: &Machines, mut found: Vec<Instance>) -> Vec<Instance> {
    let tagged = |instance: &Instance, key: &str| instance.tags.get(key).cloned().unwrap_or_default();
    found.retain(|instance| {
        let spot = instance.lifecycle == Some(Lifecycle::Spot);
        let capacity = if spot { CapacityType::Spot } else { CapacityType::OnDemand };
        !tagged(instance, tag::NODE_CLAIM).is_empty()
            && which.pool.as_ref().is_none_or(|pool| *pool == tagged(instance, label::NODE_POOL))
            && which.zone.as_ref().is_none_or(|zone| zone == instance.zone.as_str())
            && which.instance_type.as_ref().is_none_or(|of| is_of_type(of, instance.instance_type.as_str()))
            && which.capacity_type.is_none_or(|of| of == capacity)
    });
    found.sort_by(|a, b| (a.launched_at, &a.id).cmp(&(b.launched_at, &b.id)));
    found.truncate(which.count.unwrap_or(usize::MAX));
    found
}

impl CapacityLoss {
    /// The offerings that have no capacity.
    pub(super) fn offerings(&self) -> OfferingSelector {
        selector(self.capacity_type, self.zone.as_ref(), self.instance_type.as_ref())
    }
}

impl PriceChange {
    /// The offerings whose price changes.
    pub fn offerings(&self) -> OfferingSelector {
        selector(self.capacity_type, self.zone.as_ref(), self.instance_type.as_ref())
    }
}

fn selector(
    capacity_type: Option<CapacityType>,
    zone: Option<&String>,
    instance_type: Option<&String>,
) -> OfferingSelector {
    OfferingSelector {
        instance_type: instance_type.map(|name| name.as_str().into()),
        zone: zone.map(|name| name.as_str().into()),
        spot: capacity_type.map(|of| of == CapacityType::Spot),
    }
}
