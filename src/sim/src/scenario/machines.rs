//! Which instances a step of a timeline means.

use karpenter_aws_api::ec2::{Instance, Lifecycle};
use karpenter_model::names::{label, tag};

use super::format::{CapacityType, Machines};
use super::judge::is_of_type;

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
