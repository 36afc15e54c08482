//! Labels of claims and Nodes agree with the account about their machines.

use karpenter_aws_api::ec2::{Instance, Lifecycle};
use karpenter_aws_api::id::ReservationId;
use karpenter_kube_sim::apiserver::object;
use karpenter_model::CapacityType;
use karpenter_model::names::label::{self, aws};
use serde_json::Value;

use super::{Scene, claim_of};

/// Returns the labels that contradict the account at the moment.
pub(super) fn wrong(scene: &Scene) -> Vec<String> {
    let mut wrong = Vec::new();
    for instance in scene.alive() {
        let Some(claim) = scene.claim(claim_of(instance)) else { continue };
        let node = scene.node_of_claim(claim).map(|(_, node)| node);
        for (kind, object) in [("claim", Some(claim)), ("node", node)] {
            let said = object.into_iter().flat_map(|object| contradictions(object, instance));
            wrong.extend(said.map(|said| format!("{kind} of {} {said}", instance.id)));
        }
    }
    wrong
}

/// Labels that are not what they are to be.
fn contradictions(object: &Value, instance: &Instance) -> Vec<String> {
    let kind = match (&instance.lifecycle, &instance.reservation) {
        (Some(Lifecycle::Spot), _) => CapacityType::Spot,
        (_, Some(_)) => CapacityType::Reserved,
        (_, None) => CapacityType::OnDemand,
    };
    let facts = [
        (label::CAPACITY_TYPE, Some(kind.as_str())),
        (label::INSTANCE_TYPE, Some(instance.instance_type.as_str())),
        (label::ZONE, Some(instance.zone.as_str())),
        (aws::CAPACITY_RESERVATION_ID, instance.reservation.as_ref().map(ReservationId::as_str)),
    ];
    facts
        .into_iter()
        .filter(|(key, fact)| object::label(object, key) != *fact)
        .map(|(key, fact)| format!("says {key} is {:?}, not {fact:?}", object::label(object, key)))
        .collect()
}
