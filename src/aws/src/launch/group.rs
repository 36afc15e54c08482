//! Types that can share a launch template: same image, same pod count, same resources reserved, same EFA interfaces, same reservation
//! (spec aws-provider 5.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_cloud::LaunchRequest;
use karpenter_model::names::annotation;
use karpenter_model::resources;
use karpenter_model::{InstanceType, LabelRegistry};

use super::filter::Candidate;
use crate::catalogue::Contents;
use crate::catalogue::adapters::{Slot, slots};
use crate::catalogue::instance_type::capacity::EFA;
use crate::catalogue::instance_type::devices::NETWORK;
use crate::catalogue::instance_type::kubelet;
use crate::class::expressions::Evaluated;
use crate::class::view::ClassView;
use crate::image::image_for;
use crate::launch::filter::reserved::Reserved;
use crate::settings::Settings;

/// Properties that two types must share to use one template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// Image id.
    pub image: String,
    /// Interfaces of an instance with elastic fabric adapters; empty when none is to be attached.
    pub adapters: Vec<Slot>,
    /// Pod capacity, with which the kubelet is configured.
    pub pods: u32,
    /// Results of the class's expressions for the kubelet's reservations; the number of pods is above.
    pub evaluated: Evaluated,
    /// The reservation a template of its own names.
    pub reserved: Option<Reserved>,
}

/// Returns whether an instance for `request` gets its elastic fabric adapters: pods ask for some, through the device plugin
/// or through claims.
pub(crate) fn wants_adapters(request: &LaunchRequest) -> bool {
    let drivers = request.annotations.get(annotation::REQUESTED_DRIVERS).map(String::as_str);
    let claimed = drivers.unwrap_or_default().split(',').any(|driver| driver == NETWORK);
    claimed || !request.requests.amount(EFA).is_zero()
}

/// Groups candidates by template; `wants_efa` attaches every adapter a type has. Types no image is for drop out.
pub fn group(
    candidates: &[Candidate],
    wants_efa: bool,
    view: &ClassView<'_>,
    catalogue: &Contents,
    (settings, registry): (&Settings, &LabelRegistry),
) -> BTreeMap<GroupKey, Vec<Candidate>> {
    let amis = view.status().map(|status| status.amis.as_slice()).unwrap_or_default();
    let mut groups: BTreeMap<GroupKey, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        let instance_type: &Arc<InstanceType> = &candidate.instance_type;
        let Some(ami) = image_for(amis, &instance_type.requirements, registry) else { continue };
        let info = catalogue.types.get(instance_type.name.as_str());
        let count = |name| u32::try_from(instance_type.capacity.amount(name).as_units_ceil()).unwrap_or(0);
        let evaluated =
            info.and_then(|info| kubelet::evaluate(info, view, settings).ok()).unwrap_or_default();
        for (reserved, candidate) in per_reservation(candidate) {
            let key = GroupKey {
                image: ami.id.clone(),
                adapters: slots(info, if wants_efa { count(EFA) } else { 0 }),
                pods: count(resources::PODS),
                evaluated: Evaluated { max_pods: None, ..evaluated.clone() },
                reserved,
            };
            groups.entry(key).or_default().push(candidate);
        }
    }
    groups
}

/// The candidate once per reservation its offerings are out of; as it is when none is.
fn per_reservation(candidate: &Candidate) -> BTreeMap<Option<Reserved>, Candidate> {
    let mut parts: BTreeMap<Option<Reserved>, Candidate> = BTreeMap::new();
    for offering in &candidate.offerings {
        let instance_type = || Arc::clone(&candidate.instance_type);
        let part = parts
            .entry(Reserved::of(offering))
            .or_insert_with(|| Candidate { instance_type: instance_type(), offerings: Vec::new() });
        part.offerings.push(offering.clone());
    }
    parts
}
