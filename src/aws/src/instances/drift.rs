//! Drift of an instance from its `NodeClass` (spec aws-provider 13).
//!
//! Pure. Missing data is never drift and never its end: an empty list in the status, an unknown type or an instance
//! EC2 describes incompletely leaves the question open, and open questions neither replace nodes nor absolve them.
//! Objects that a person has taken out of the selection are not missing: their instances drift.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::{ConditionStatus, EC2NodeClass};
use karpenter_aws_api::ec2::Instance;
use karpenter_aws_api::id::{SecurityGroupId, SubnetId};
use karpenter_cloud::DriftReason;
use karpenter_model::names::{
    annotation::aws::{EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION},
    condition,
    label::aws,
    reason,
};
use karpenter_model::{Claim, InstanceType, LabelRegistry};

use crate::image::image_for;
use crate::instances::view::reservation_of;
use crate::network::placement_groups::Group;

/// A static field of the `NodeClass` changed.
pub const NODE_CLASS: DriftReason = DriftReason::new(reason::aws::NODE_CLASS_DRIFT);
/// Another image is selected for the type now, or none.
pub const AMI: DriftReason = DriftReason::new(reason::aws::AMI_DRIFT);
/// The security groups differ.
pub const SECURITY_GROUP: DriftReason = DriftReason::new(reason::aws::SECURITY_GROUP_DRIFT);
/// The subnet is not selected any more.
pub const SUBNET: DriftReason = DriftReason::new(reason::aws::SUBNET_DRIFT);
/// The capacity reservation is not selected any more.
pub const CAPACITY_RESERVATION: DriftReason = DriftReason::new(reason::aws::CAPACITY_RESERVATION_DRIFT);
/// The placement group is another one now.
pub const PLACEMENT_GROUP: DriftReason = DriftReason::new(reason::aws::PLACEMENT_GROUP_DRIFT);

/// Reason why the question cannot be answered now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open(pub &'static str);

/// Drift that shows without looking at the instance.
///
/// # Errors
/// [`Open`] when something the comparison needs is not known.
pub fn of_claim(
    claim: &Claim,
    class: &EC2NodeClass,
    instance_type: Option<&InstanceType>,
    registry: &LabelRegistry,
) -> Result<Option<DriftReason>, Open> {
    if static_fields(&claim.annotations, class.metadata.annotations.as_ref()) {
        return Ok(Some(NODE_CLASS));
    }
    let amis = class.status.as_ref().map(|status| status.amis.as_slice()).unwrap_or_default();
    if amis.is_empty() {
        return Err(Open("the node class has not resolved any image"));
    }
    let of_type = instance_type.ok_or(Open("its instance type is not among those of the node class"))?;
    let image = claim.image_id.as_ref().filter(|image| !image.as_str().is_empty());
    let image = image.ok_or(Open("the claim does not say which image it runs"))?;
    match image_for(amis, &of_type.requirements, registry) {
        Some(wanted) => Ok((image.as_str() != wanted.id).then_some(AMI)),
        // The type has no image any more. That is the user's decision only if no term can mean the present
        // one.
        None if is_deselected(image.as_str(), class) => Ok(Some(AMI)),
        None => Err(Open("no image of the node class is for its instance type")),
    }
}

/// Returns whether people have stopped selecting the image. An image of an alias that AWS does not name at the moment is not
/// deselected: such images come and go without a change by the user. One that is still selected by its id is only missing.
fn is_deselected(image: &str, class: &EC2NodeClass) -> bool {
    let terms = &class.spec.ami_selector_terms;
    let by_people = terms.iter().all(|term| term.alias.is_none() && term.id.as_deref() != Some(image));
    by_people && is_resolved(condition::aws::AMIS_READY, class)
}

/// Returns whether the condition is true and was observed at the present generation of the class.
fn is_resolved(condition: &str, class: &EC2NodeClass) -> bool {
    let conditions = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions.iter().any(|one| {
        one.kind == condition
            && one.status == ConditionStatus::True
            && one.observed_generation == class.metadata.generation
    })
}

/// Difference between the network of an instance and the one that the status of its class names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// No difference.
    Same,
    /// The instance lacks groups.
    LacksGroups,
    /// The instance has these groups besides: [`SECURITY_GROUP`] if one of them is not selected any more, rather than
    /// missing in the answer the status was made from.
    OtherGroups(Vec<SecurityGroupId>),
    /// The instance is in this subnet: [`SUBNET`] if that is not selected any more, in the same way.
    OtherSubnet(SubnetId),
}

/// Compares the network of an instance.
///
/// # Errors
/// [`Open`] when something the comparison needs is not known.
pub(crate) fn of_network(instance: &Instance, class: &EC2NodeClass) -> Result<Network, Open> {
    let status = class.status.as_ref().ok_or(Open("the node class has not resolved anything"))?;
    let wanted: BTreeSet<&str> = status.security_groups.iter().map(|group| group.id.as_str()).collect();
    let actual: BTreeSet<&str> = instance.security_groups.iter().map(SecurityGroupId::as_str).collect();
    if wanted.is_empty() || actual.is_empty() {
        return Err(Open("the security groups of the node class or of the instance are not known"));
    }
    if status.subnets.is_empty() {
        return Err(Open("the subnets of the node class are not known"));
    }
    let subnet = instance.subnet.as_ref().ok_or(Open("the subnet of the instance is not known"))?;
    // Certain without another question to EC2: the class selects a group that the instance does not have.
    if !wanted.is_subset(&actual) {
        return Ok(Network::LacksGroups);
    }
    let others: Vec<SecurityGroupId> = actual.difference(&wanted).map(|id| (*id).into()).collect();
    if !others.is_empty() {
        return Ok(Network::OtherGroups(others));
    }
    let selected = status.subnets.iter().any(|one| one.id == subnet.as_str());
    Ok(if selected { Network::Same } else { Network::OtherSubnet(subnet.clone()) })
}

/// Returns whether the instance runs in a reservation that the `NodeClass` does not select any more. To be asked about a
/// fresh description before anything is concluded: a reservation that ended leaves its instances on-demand.
///
/// # Errors
/// [`Open`] when the reservations of the `NodeClass` have not been resolved.
pub(crate) fn outside_reservations(
    instance: &Instance,
    class: &EC2NodeClass,
    reserved_capacity: bool,
) -> Result<bool, Open> {
    let Some(reservation) = reservation_of(instance, reserved_capacity) else { return Ok(false) };
    let status = class.status.as_ref().ok_or(Open("the node class has not resolved anything"))?;
    if !is_resolved(condition::aws::CAPACITY_RESERVATIONS_READY, class) {
        return Err(Open("the capacity reservations of the node class are not known"));
    }
    Ok(status.capacity_reservations.iter().all(|one| one.id != reservation.as_str()))
}

/// Reason for drift if the claim was launched into another placement group than the one selected now, or into none.
pub(crate) fn of_placement(claim: &Claim, group: Option<&Group>) -> Option<DriftReason> {
    let actual = claim.labels.get(aws::PLACEMENT_GROUP_ID).map(karpenter_model::LabelValue::as_str);
    let wanted = group.map(|group| group.id.as_str());
    (actual != wanted).then_some(PLACEMENT_GROUP)
}

/// Returns whether both sides carry a hash of the same version, and the hashes differ.
fn static_fields(claim: &BTreeMap<String, String>, class: Option<&BTreeMap<String, String>>) -> bool {
    let Some(class) = class else { return false };
    let both = |key: &str| Some((claim.get(key)?, class.get(key)?));
    match (both(EC2_NODE_CLASS_HASH_VERSION), both(EC2_NODE_CLASS_HASH)) {
        (Some((a, b)), Some((hash, wanted))) => a == b && hash != wanted,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
