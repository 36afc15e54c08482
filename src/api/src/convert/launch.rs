//! A planned launch to the `NodeClaim` that asks for it (spec scheduling 21).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::{Resource as _, api::core::v1::Taint as ApiTaint};
use karpenter_model::{Launch, PoolUid, Resources, Taint};

use super::taint_to_api;
use crate::nodeclaim::{ClaimResources, NodeClaim, NodeClaimSpec};
use crate::requirement::{NodeClassReference, Requirement};
use crate::{Duration, NillableDuration, NodePool, RawQuantity, ResourceMap};

/// The object to create; the API server completes its name. `pool` is the uid of the owning pool.
///
/// Everything is as planned: labels, annotations and requirements are taken over, in key order.
pub fn node_claim(launch: &Launch, pool: &PoolUid) -> NodeClaim {
    let texts = |(key, value): (&karpenter_model::LabelKey, &karpenter_model::LabelValue)| {
        (key.to_string(), value.to_string())
    };
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", launch.pool)),
        labels: Some(launch.labels.iter().map(texts).collect()),
        annotations: Some(launch.annotations.clone()),
        owner_references: Some(vec![owner(launch, pool)]),
        ..Default::default()
    };
    let spec = NodeClaimSpec {
        taints: taints(&launch.taints),
        startup_taints: taints(&launch.startup_taints),
        requirements: launch.requirements.to_expressions().iter().map(Requirement::from).collect(),
        resources: Some(ClaimResources { requests: Some(quantities(&launch.requests)) }),
        node_class_ref: NodeClassReference::from(&launch.node_class),
        termination_grace_period: launch.termination_grace_period.map(Duration::from),
        expire_after: launch.expire_after.map_or_else(NillableDuration::never, NillableDuration::from),
    };
    NodeClaim { metadata, spec, status: None }
}

/// Deleting the pool deletes its claims; the pool is no controller of theirs.
fn owner(launch: &Launch, pool: &PoolUid) -> OwnerReference {
    OwnerReference {
        api_version: NodePool::API_VERSION.to_owned(),
        kind: NodePool::KIND.to_owned(),
        name: launch.pool.to_string(),
        uid: pool.to_string(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

fn taints(planned: &[Taint]) -> Option<Vec<ApiTaint>> {
    (!planned.is_empty()).then(|| planned.iter().map(taint_to_api).collect())
}

fn quantities(amounts: &Resources) -> ResourceMap {
    amounts
        .iter()
        .map(|(name, quantity)| (name.to_string(), RawQuantity::Text(quantity.to_string())))
        .collect()
}

#[cfg(test)]
mod tests {
    use karpenter_model::{BinId, Effect, LabelRegistry, NodeClassRef, Quantity};
    use serde_json::json;

    use super::*;

    fn launch() -> Launch {
        let written = [
            Requirement::new("karpenter.sh/capacity-type", crate::Operator::In, ["spot"]),
            Requirement::new("a", crate::Operator::Gte, ["2"]),
        ];
        Launch {
            bin: BinId(1),
            pool: "web".into(),
            pool_hash: "1".into(),
            labels: [("team".into(), "a".into())].into(),
            annotations: [("karpenter.sh/nodepool-hash".to_owned(), "1".to_owned())].into(),
            requirements: super::super::requirements(&LabelRegistry::core(), &written),
            taints: vec![Taint::new("t", "", Effect::NoSchedule)],
            startup_taints: Vec::new(),
            node_class: NodeClassRef { group: "g".into(), kind: "K".into(), name: "n".into() },
            expire_after: None,
            termination_grace_period: Some(std::time::Duration::from_mins(90)),
            requests: Resources::one_pod().with("cpu", Quantity::from_millis(1500)),
            instance_types: ["m7i.large".into()].into(),
            cheapest: None,
            pods: Vec::new(),
        }
    }

    #[test]
    fn is_what_the_api_server_expects() {
        let claim = node_claim(&launch(), &"u".into());
        assert_eq!(
            serde_json::to_value(&claim).unwrap(),
            json!({
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {
                    "generateName": "web-",
                    "labels": {"team": "a"},
                    "annotations": {"karpenter.sh/nodepool-hash": "1"},
                    "ownerReferences": [{
                        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "web", "uid": "u",
                        "blockOwnerDeletion": true,
                    }],
                },
                "spec": {
                    "taints": [{"key": "t", "effect": "NoSchedule"}],
                    "requirements": [
                        {"key": "a", "operator": "Gte", "values": ["2"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                    ],
                    "resources": {"requests": {"cpu": "1500m", "pods": "1"}},
                    "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
                    "terminationGracePeriod": "1h30m",
                    "expireAfter": "Never",
                },
            })
        );
    }

    #[test]
    fn reads_back_as_planned() {
        let planned = launch();
        let claim = super::super::claim(&node_claim(&planned, &"u".into()), &LabelRegistry::core()).unwrap();
        assert_eq!(claim.requirements, planned.requirements);
        assert_eq!(claim.requests, planned.requests);
        assert_eq!(claim.taints, planned.taints);
        assert_eq!(claim.termination_grace_period, planned.termination_grace_period);
        assert_eq!((claim.expire_after, claim.node_class), (None, planned.node_class));
    }
}
