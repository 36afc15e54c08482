//! Instances and offerings that a step of a timeline means.

use std::collections::BTreeMap;

use karpenter_aws_api::ec2::{Instance, Lifecycle};
use karpenter_aws_sim::OfferingSelector;
use karpenter_kube_sim::kubelet::{Difference, Flaps};
use karpenter_model::names::{label, tag};
use karpenter_model::taint::{Effect, Taint};

use super::format::{CapacityLoss, CapacityType, Differ, Machines, NodeTaint, PriceChange, TaintEffect};
use super::value::{Amount, is_of_type};

/// Returns the instances of `found` that belong to nodes and are meant, the oldest first. `found` must have live instances
/// only.
pub fn meant(which: &Machines, mut found: Vec<Instance>) -> Vec<Instance> {
    found.retain(|instance| means(which, instance));
    found.sort_by(|a, b| (a.launched_at, &a.id).cmp(&(b.launched_at, &b.id)));
    found.truncate(which.count.unwrap_or(usize::MAX));
    found
}

/// Returns whether an instance belongs to a node and is meant, whatever the count.
pub(crate) fn means(which: &Machines, instance: &Instance) -> bool {
    let tagged = |key: &str| instance.tags.get(key).cloned().unwrap_or_default();
    let spot = instance.lifecycle == Some(Lifecycle::Spot);
    let capacity = if spot { CapacityType::Spot } else { CapacityType::OnDemand };
    !tagged(tag::NODE_CLAIM).is_empty()
        && which.pool.as_ref().is_none_or(|pool| *pool == tagged(label::NODE_POOL))
        && which.zone.as_ref().is_none_or(|zone| zone == instance.zone.as_str())
        && which.instance_type.as_ref().is_none_or(|of| is_of_type(of, instance.instance_type.as_str()))
        && which.capacity_type.is_none_or(|of| of == capacity)
}

impl Differ {
    /// The machines it means.
    pub(crate) fn machines(&self) -> Machines {
        Machines {
            count: self.count,
            pool: self.pool.clone(),
            zone: self.zone.clone(),
            instance_type: self.instance_type.clone(),
            capacity_type: self.capacity_type,
        }
    }

    /// Returns the difference of these machines.
    pub(crate) fn difference(&self) -> Difference {
        let amounts =
            |of: &BTreeMap<String, Amount>| of.iter().map(|(name, by)| (name.clone(), by.0)).collect();
        let taint = |taint: &NodeTaint| Taint::new(&taint.key, &taint.value, taint.effect.into());
        Difference {
            hardware: amounts(&self.hardware),
            room: amounts(&self.room),
            labels: self.labels.clone(),
            without_labels: self.without_labels.iter().cloned().collect(),
            taints: self.taints.iter().map(taint).collect(),
            volumes: self.volumes,
            joins_later: self.joins_later.0,
            ready_later: self.ready_later.0,
            flaps: self.flaps.map(|flaps| Flaps { every: flaps.every.0, lasts: flaps.r#for.0 }),
        }
    }
}

impl From<TaintEffect> for Effect {
    fn from(effect: TaintEffect) -> Self {
        match effect {
            TaintEffect::NoSchedule => Self::NoSchedule,
            TaintEffect::PreferNoSchedule => Self::PreferNoSchedule,
            TaintEffect::NoExecute => Self::NoExecute,
        }
    }
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
