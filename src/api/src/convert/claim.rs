//! `NodeClaim` to the model's claim.

use karpenter_model::claim::condition::ConditionType;
use karpenter_model::names::label;
use karpenter_model::{Claim, Condition, LabelRegistry};

use super::annotations;
use super::labels;
use super::pool::{span, span_or_never};
use super::present;
use super::requirements;
use super::resources;
use super::{Error, InPart};
use crate::nodeclaim::{NodeClaim, NodeClaimStatus};

/// Reads a claim; conditions of types that are not used are left out.
pub fn claim(object: &NodeClaim, registry: &LabelRegistry) -> Result<Claim, Error> {
    match claim_in_part(object, registry) {
        (claim, None) => Ok(claim),
        (_, Some(error)) => Err(error),
    }
}

/// Reads what can be read of a claim, with the first problem: its machine would be taken for one without a claim if it
/// were overlooked. What cannot be read is not there: nothing is asked for, nothing offered, nothing ends.
pub fn claim_in_part(object: &NodeClaim, registry: &LabelRegistry) -> (Claim, Option<Error>) {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let mut part = InPart::default();
    let claim = read(object, name, registry, &mut part);
    (claim, part.0.map(|error| error.of("NodeClaim", name)))
}

fn read(object: &NodeClaim, name: &str, registry: &LabelRegistry, part: &mut InPart) -> Claim {
    let (metadata, spec) = (&object.metadata, &object.spec);
    let empty = NodeClaimStatus::default();
    let status = object.status.as_ref().unwrap_or(&empty);
    let labels = labels(metadata.labels.as_ref());
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    Claim {
        name: name.into(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        pool: labels.get(label::NODE_POOL).map(|pool| pool.as_str().into()),
        node_class: spec.node_class_ref.clone(),
        labels,
        annotations: annotations(metadata.annotations.as_ref()),
        requirements: requirements(registry, &spec.requirements),
        taints: part.taints("spec.taints", spec.taints.as_ref()),
        startup_taints: part.taints("spec.startupTaints", spec.startup_taints.as_ref()),
        requests: part.or_nothing(resources("spec.resources.requests", requests)),
        expire_after: part.or_nothing(span_or_never("spec.expireAfter", &spec.expire_after)),
        termination_grace_period: part
            .or_nothing(span("spec.terminationGracePeriod", spec.termination_grace_period.as_ref())),
        created_at: metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
        deletion: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        provider_id: present(status.provider_id.as_ref()).map(Into::into),
        node_name: present(status.node_name.as_ref()).map(Into::into),
        image_id: present(status.image_id.as_ref()).map(Into::into),
        capacity: part.or_nothing(resources("status.capacity", status.capacity.as_ref())),
        allocatable: part.or_nothing(resources("status.allocatable", status.allocatable.as_ref())),
        conditions: status.conditions.iter().filter_map(condition).collect(),
        last_pod_event: status.last_pod_event_time.as_ref().map(|time| time.0),
    }
}

fn condition(written: &crate::Condition) -> Option<(ConditionType, Condition)> {
    let condition = Condition {
        status: written.status,
        reason: written.reason.clone(),
        message: written.message.clone(),
        last_transition: written.last_transition_time.0,
        observed_generation: written.observed_generation.unwrap_or_default(),
    };
    Some((ConditionType::parse(&written.kind)?, condition))
}

#[cfg(test)]
mod tests {
    use karpenter_model::{CapacityType, Quantity};
    use serde_json::json;

    use super::*;

    #[test]
    fn takes_everything_over() {
        let object: NodeClaim = serde_json::from_value(json!({
            "metadata": {
                "name": "web-1", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"karpenter.sh/nodepool": "web", "karpenter.sh/capacity-type": "spot"},
                "finalizers": ["karpenter.sh/termination"],
            },
            "spec": {
                "requirements": [{"key": "a", "operator": "In", "values": ["b"]}],
                "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
                "resources": {"requests": {"cpu": 1}},
            },
            "status": {
                "providerID": "aws:///a/i-1",
                "nodeName": "",
                "capacity": {"memory": "1Gi"},
                "conditions": [
                    {"type": "Launched", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"},
                    {"type": "SomethingElse", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"},
                ],
            },
        }))
        .unwrap();
        let claim = claim(&object, &LabelRegistry::core()).unwrap();
        assert_eq!(claim.pool.as_ref().map(karpenter_model::PoolName::as_str), Some("web"));
        assert_eq!(claim.capacity_type(), Some(CapacityType::Spot));
        assert_eq!(claim.requests.get("cpu"), Some(Quantity::ONE));
        assert_eq!(claim.capacity.get("memory"), Some(Quantity::from_bytes(1 << 30)));
        assert_eq!(claim.node_name, None, "an empty name is no name");
        assert!(claim.is_true(ConditionType::Launched));
        assert_eq!(claim.conditions.len(), 1);
        assert_eq!(claim.created_at.to_string(), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn errors_name_object_and_field() {
        let object: NodeClaim = serde_json::from_value(json!({
            "metadata": {"name": "web-1"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}},
            "status": {"capacity": {"cpu": "much"}},
        }))
        .unwrap();
        let error = claim(&object, &LabelRegistry::core()).unwrap_err();
        assert_eq!(
            (error.object.as_str(), error.field.as_str()),
            ("NodeClaim `web-1`", "status.capacity.cpu")
        );
    }

    #[test]
    fn what_cannot_be_read_of_a_claim_hides_nothing_else() {
        let object: NodeClaim = serde_json::from_value(json!({
            "metadata": {"name": "web-1", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
                "taints": [{"key": "t", "effect": "Maybe"}, {"key": "u", "effect": "NoExecute"}],
                "expireAfter": "soon", "terminationGracePeriod": "later",
            },
            "status": {"providerID": "aws:///a/i-1", "capacity": {"cpu": "much", "memory": "1Gi"}},
        }))
        .unwrap();
        let (claim, problem) = claim_in_part(&object, &LabelRegistry::core());
        assert_eq!(problem.unwrap().field, "spec.taints[0].effect", "the first");
        assert_eq!(claim.provider_id, Some("aws:///a/i-1".into()));
        assert!(claim.deletion.is_some());
        let taints: Vec<String> = claim.taints.iter().map(ToString::to_string).collect();
        assert_eq!(taints, ["t:NoSchedule", "u:NoExecute"]);
        assert_eq!((claim.expire_after, claim.termination_grace_period), (None, None), "nothing ends by it");
        assert_eq!(claim.capacity.iter().count(), 0, "nothing is offered");
    }
}
