//! The NodeClaim object of a launch (spec scheduling 21).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_api::convert::taint_to_api;
use karpenter_api::nodeclaim::ClaimResources;
use karpenter_api::{
    Duration, NillableDuration, NodeClaim, NodeClaimSpec, NodeClassReference, Operator, RawQuantity,
    Requirement,
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
    let requests: BTreeMap<String, RawQuantity> = launch
        .requests
        .iter()
        .map(|(name, quantity)| (name.to_string(), RawQuantity::Text(quantity.to_string())))
        .collect();
    NodeClaimSpec {
        taints: taints(&launch.taints),
        startup_taints: taints(&launch.startup_taints),
        requirements: launch
            .requirements
            .to_expressions()
            .iter()
            .map(|one| requirement(one, launch))
            .collect(),
        resources: Some(ClaimResources { requests: Some(requests) }),
        node_class_ref: NodeClassReference {
            group: launch.node_class.group.clone(),
            kind: launch.node_class.kind.clone(),
            name: launch.node_class.name.clone(),
        },
        termination_grace_period: launch
            .termination_grace_period
            .map(|span| Duration::from(format!("{}s", span.as_secs()).as_str())),
        expire_after: launch.expire_after.map_or_else(NillableDuration::never, |span| {
            NillableDuration::from(format!("{}s", span.as_secs()).as_str())
        }),
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
    use karpenter_api::{NodePool, convert};
    use karpenter_model::names::annotation;
    use karpenter_model::{BinId, LabelRegistry, NodeClassRef, Requirements, Resources};

    use super::*;

    #[test]
    fn a_claim_carries_the_hash_of_the_pool_it_was_planned_with() {
        let launch = Launch {
            bin: BinId(1),
            pool: "web".into(),
            pool_hash: "planned".into(),
            labels: karpenter_model::Labels::new(),
            annotations: [(annotation::POOL_HASH.to_owned(), "planned".to_owned())].into(),
            requirements: Requirements::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            node_class: NodeClassRef::default(),
            expire_after: None,
            termination_grace_period: None,
            requests: Resources::new(),
            instance_types: [].into(),
            cheapest: None,
            pods: Vec::new(),
        };
        let edited = convert::pool(&NodePool::new("web", NodePool::default().spec), &LabelRegistry::core());
        let edited = Pool { hash: "edited meanwhile".into(), ..edited.unwrap() };
        let claim = object(&launch, &edited);
        assert_eq!(claim.metadata.annotations, Some(launch.annotations));
    }
}
