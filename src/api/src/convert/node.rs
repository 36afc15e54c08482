//! `Node` to the model.

use k8s_openapi::api::core::v1::{Node, NodeCondition as ApiCondition};
use karpenter_model::names::taint;
use karpenter_model::{ConditionStatus, Effect, NodeCondition, NodeConditions, NodeObject, Taint};

use super::annotations;
use super::labels;
use super::present;
use super::resources;
use super::{Error, InPart};

/// Reads a Node.
pub fn node(object: &Node) -> Result<NodeObject, Error> {
    match node_in_part(object) {
        (node, None) => Ok(node),
        (_, Some(error)) => Err(error),
    }
}

/// Reads what can be read of a Node, with the first problem: its machine is judged by its present contents.
/// Nothing new is placed by an amount that cannot be read, nor past a taint.
pub fn node_in_part(object: &Node) -> (NodeObject, Option<Error>) {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let mut part = InPart::default();
    let node = read(object, name, &mut part);
    (node, part.0.map(|error| error.of("Node", name)))
}

fn read(object: &Node, name: &str, part: &mut InPart) -> NodeObject {
    let metadata = &object.metadata;
    let spec = object.spec.as_ref();
    let status = object.status.as_ref();
    let owners = metadata.owner_references.iter().flatten();
    let mut taints = part.taints("spec.taints", spec.and_then(|spec| spec.taints.as_ref()));
    // The scheduler goes by the field; the taint follows a moment later.
    let cordon = Taint::new(taint::UNSCHEDULABLE, "", Effect::NoSchedule);
    if spec.is_some_and(|spec| spec.unschedulable == Some(true)) && !taints.contains(&cordon) {
        taints.push(cordon);
    }
    NodeObject {
        name: name.into(),
        provider_id: present(spec.and_then(|spec| spec.provider_id.as_ref())).map(Into::into),
        labels: labels(metadata.labels.as_ref()),
        annotations: annotations(metadata.annotations.as_ref()),
        taints,
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        owners: owners.map(|owner| owner.uid.as_str().into()).collect(),
        capacity: part
            .or_nothing(resources("status.capacity", status.and_then(|status| status.capacity.as_ref()))),
        allocatable: part.or_nothing(resources(
            "status.allocatable",
            status.and_then(|status| status.allocatable.as_ref()),
        )),
        boot_id: present(status.and_then(|status| status.node_info.as_ref()).map(|info| &info.boot_id))
            .map(str::to_owned),
        conditions: status
            .into_iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .map(|written| (written.type_.clone(), condition(written)))
            .collect::<NodeConditions>()
            .into(),
        created_at: metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
        deletion: metadata.deletion_timestamp.as_ref().map(|time| time.0),
    }
}

fn condition(written: &ApiCondition) -> NodeCondition {
    NodeCondition {
        status: ConditionStatus::parse(&written.status),
        reason: written.reason.clone().unwrap_or_default(),
        last_transition: written.last_transition_time.as_ref().map(|time| time.0).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::Quantity;
    use serde_json::json;

    use super::*;

    #[test]
    fn takes_everything_over() {
        let object: Node = serde_json::from_value(json!({
            "metadata": {
                "name": "n", "labels": {"a": "b"}, "finalizers": ["f"],
                "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "c", "uid": "u"}],
            },
            "spec": {"providerID": "aws:///a/i-1", "taints": [{"key": "t", "effect": "NoExecute"}]},
            "status": {
                "capacity": {"cpu": "2", "nvidia.com/gpu": "0"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "Up", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        }))
        .unwrap();
        let node = node(&object).unwrap();
        assert!(node.is_ready());
        assert_eq!(node.conditions["Ready"].reason, "Up");
        assert_eq!(node.provider_id.as_ref().map(karpenter_model::ProviderId::as_str), Some("aws:///a/i-1"));
        assert_eq!(node.capacity.get("nvidia.com/gpu"), Some(Quantity::ZERO), "zero is kept");
        assert_eq!(node.taints[0].to_string(), "t:NoExecute");
        assert!(node.owners.contains("u"));
    }

    #[test]
    fn a_cordoned_node_has_the_taint_once() {
        let taint = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
        for taints in [json!([]), json!([taint])] {
            let object =
                json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true, "taints": taints}});
            let node = node(&serde_json::from_value(object).unwrap()).unwrap();
            let taints: Vec<String> = node.taints.iter().map(ToString::to_string).collect();
            assert_eq!(taints, ["node.kubernetes.io/unschedulable:NoSchedule"]);
        }
    }

    #[test]
    fn an_unknown_effect_is_named() {
        let object: Node = serde_json::from_value(json!({
            "metadata": {"name": "n"}, "spec": {"taints": [{"key": "t", "effect": "Maybe"}]},
        }))
        .unwrap();
        let error = node(&object).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read `spec.taints[0].effect` of Node `n`: `Maybe` is not a known value; correct the object"
        );
    }
}
