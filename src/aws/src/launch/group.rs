//! Types that can share a launch template: same image, same pod count, same EFA count (spec aws-provider 5.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::ec2nodeclass::Ami;
use karpenter_model::{InstanceType, LabelRegistry, Resources, resources};

use super::filter::Candidate;
use crate::image::image_for;
use crate::instance_type::capacity::EFA;

/// What the templates of two types must have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// Image id.
    pub image: String,
    /// Elastic fabric adapters to attach.
    pub efa: u32,
    /// Pod capacity, which the kubelet is told.
    pub pods: u32,
}

/// Groups candidates by template. Types no image is for drop out.
pub fn group(
    candidates: &[Candidate],
    amis: &[Ami],
    requests: &Resources,
    registry: &LabelRegistry,
) -> BTreeMap<GroupKey, Vec<Candidate>> {
    let wants_efa = !requests.amount(EFA).is_zero();
    let mut groups: BTreeMap<GroupKey, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        let instance_type: &Arc<InstanceType> = &candidate.instance_type;
        let Some(ami) = image_for(amis, &instance_type.requirements, registry) else { continue };
        let count = |name| u32::try_from(instance_type.capacity.amount(name).as_units_ceil()).unwrap_or(0);
        let key = GroupKey {
            image: ami.id.clone(),
            efa: if wants_efa { count(EFA) } else { 0 },
            pods: count(resources::PODS),
        };
        groups.entry(key).or_default().push(candidate.clone());
    }
    groups
}
