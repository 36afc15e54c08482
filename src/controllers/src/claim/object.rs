//! The NodeClaim object of a launch (spec scheduling 21).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_api::convert::taint_to_api;
use karpenter_api::nodeclaim::ClaimResources;
use karpenter_api::{
    Duration, NillableDuration, NodeClaim, NodeClaimSpec, Operator, Requirement, resource_map,
};
use karpenter_model::names::{finalizer, label};
use karpenter_model::{Expression, Launch, Pool, Taint};

/// The object to create, without its name. It has the finalizer from the
/// start: nothing may be launched for a claim without, and putting it on afterwards would cost a write and a pass.
pub(super) fn object(launch: &Launch, pool: &Pool) -> NodeClaim {
    NodeClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", launch.pool)),
            labels: Some(
                launch.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            ),
            annotations: Some(launch.annotations.clone()),
            owner_references: Some(vec![OwnerReference {
                api_version: "karpenter.sh/v1".to_owned(),
                kind: "NodePool".to_owned(),
                name: pool.name.to_string(),
                uid: pool.uid.to_string(),
                block_owner_deletion: Some(true),
                controller: None,
            }]),
            finalizers: Some(vec![finalizer::TERMINATION.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: spec(launch),
        status: None,
    }
}

fn spec(launch: &Launch) -> NodeClaimSpec {
    NodeClaimSpec {
        taints: taints(&launch.taints),
        startup_taints: taints(&launch.startup_taints),
        requirements: launch
            .requirements
            .to_expressions()
            .iter()
            .map(|one| requirement(one, launch))
            .collect(),
        resources: Some(ClaimResources { requests: Some(resource_map(&launch.requests)) }),
        node_class_ref: launch.node_class.clone(),
        // In the notation of the pool: people and tools compare claims with it as texts.
        termination_grace_period: launch.termination_grace_period.map(Duration::from),
        expire_after: launch.expire_after.map_or_else(NillableDuration::never, NillableDuration::from),
    }
}

fn taints(taints: &[Taint]) -> Option<Vec<k8s_openapi::api::core::v1::Taint>> {
    (!taints.is_empty()).then(|| taints.iter().map(taint_to_api).collect())
}

/// Instance types are written in price order, which is all that is left of the plan's prices. A claim straight from a
/// template has not been planned and keeps the types the template names.
fn requirement(expression: &Expression, launch: &Launch) -> Requirement {
    let mut written = Requirement::from(expression);
    let planned = !launch.instance_types.is_empty();
    if planned && written.key == label::INSTANCE_TYPE && written.operator == Operator::In {
        written.values = Some(launch.instance_types.iter().map(ToString::to_string).collect());
    }
    written
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karpenter_api::{NodePool, convert};
    use karpenter_model::names::annotation;
    use karpenter_model::{BinId, Effect, LabelRegistry, NodeClassRef, Quantity, Resources};
    use serde_json::json;

    use super::*;

    fn launch() -> Launch {
        let written = [
            Requirement::new("karpenter.sh/capacity-type", Operator::In, ["spot"]),
            Requirement::new(label::INSTANCE_TYPE, Operator::In, ["m7i.large", "c7i.large"]),
            Requirement::new("a", Operator::Gte, ["2"]),
        ];
        Launch {
            bin: BinId(1),
            pool: "web".into(),
            pool_hash: "planned".into(),
            labels: [("team".into(), "a".into())].into(),
            annotations: [(annotation::POOL_HASH.to_owned(), "planned".to_owned())].into(),
            requirements: convert::requirements(&LabelRegistry::core(), &written),
            taints: vec![Taint::new("t", "", Effect::NoSchedule)],
            startup_taints: Vec::new(),
            node_class: NodeClassRef { group: "g".into(), kind: "K".into(), name: "n".into() },
            expire_after: None,
            termination_grace_period: Some(Duration::from_mins(90)),
            requests: Resources::one_pod().with("cpu", Quantity::from_millis(1500)),
            instance_types: ["m7i.large".into(), "c7i.large".into()].into(),
            cheapest: None,
            pods: Vec::new(),
        }
    }

    fn pool() -> Pool {
        convert::pool(&NodePool::new("web", NodePool::default().spec), &LabelRegistry::core()).unwrap()
    }

    #[test]
    fn a_claim_carries_the_hash_of_the_pool_it_was_planned_with() {
        let edited = Pool { hash: "edited meanwhile".into(), ..pool() };
        let claim = object(&launch(), &edited);
        assert_eq!(claim.metadata.annotations, Some(launch().annotations));
    }

    #[test]
    fn is_what_the_api_server_expects() {
        let claim = object(&launch(), &Pool { uid: "u".into(), ..pool() });
        assert_eq!(
            serde_json::to_value(&claim).unwrap(),
            json!({
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {
                    "generateName": "web-",
                    "labels": {"team": "a"},
                    "annotations": {"karpenter.sh/nodepool-hash": "planned"},
                    "ownerReferences": [{
                        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "web", "uid": "u",
                        "blockOwnerDeletion": true,
                    }],
                    "finalizers": ["karpenter.sh/termination"],
                },
                "spec": {
                    "taints": [{"key": "t", "effect": "NoSchedule"}],
                    "requirements": [
                        {"key": "a", "operator": "Gte", "values": ["2"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                        {
                            "key": "node.kubernetes.io/instance-type", "operator": "In",
                            "values": ["m7i.large", "c7i.large"],
                        },
                    ],
                    "resources": {"requests": {"cpu": "1500m", "pods": "1"}},
                    "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
                    "terminationGracePeriod": "1h30m0s",
                    "expireAfter": "Never",
                },
            })
        );
    }

    #[test]
    fn reads_back_as_planned() {
        let planned = launch();
        let mut claim = object(&planned, &pool());
        claim.metadata.name = Some("web-1".to_owned());
        let read = convert::claim(&claim, &LabelRegistry::core()).unwrap();
        assert_eq!(read.requirements, planned.requirements);
        assert_eq!(read.requests, planned.requests);
        assert_eq!(read.taints, planned.taints);
        assert_eq!(read.termination_grace_period, planned.termination_grace_period);
        assert_eq!((read.expire_after, read.node_class), (None, planned.node_class));
    }
}
