//! Nodes that do not become ready for pods.

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_model::names;

use super::{name, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, Objects, label};

/// Longest time a node may take to be ready for pods.
const PATIENCE: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "D-30",
        also: &["D-25", "D-35"],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "a node is never initialised, so it is neither used as planned nor consolidated",
        cause: "it is not Ready, an expected resource never registers, or a startup taint stays",
        fix: "`kubectl describe node <node>`, then install the device plugin of the resource, set ENABLE_POD_ENI for pod-eni, or see who should remove the taint",
        look: Look::At(uninitialised),
    },
    Check {
        id: "D-32",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "a node stays NotReady: cni plugin not initialized",
        cause: "aws-node does not start, mostly for lack of rights",
        fix: "`kubectl logs --namespace kube-system --selector k8s-app=aws-node --tail 50`; give the node role or the CNI's service account the policy AmazonEKS_CNI_Policy",
        look: Look::At(without_network),
    },
];

/// Message of the condition `Ready` unless it is True.
fn not_ready(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == names::condition::READY && condition.status != "True")?;
    Some(ready.message.clone().unwrap_or_default())
}

fn uninitialised(facts: &Facts) -> Outcome {
    let claims = facts.cluster.node_claims.get()?;
    let late = facts.cluster.managed_nodes()?.into_iter().filter(|node| {
        let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        label(node.metadata.labels.as_ref(), names::label::INITIALIZED).is_none()
            && created.is_some_and(|created| facts.now.duration_since(created) > PATIENCE)
    });
    Ok(late
        .map(|node| Evidence::new(object("Node", &node.metadata), why_uninitialised(node, claims)))
        .collect())
}

fn why_uninitialised(node: &Node, claims: &Objects<NodeClaim>) -> String {
    if let Some(message) = not_ready(node) {
        return format!("is not Ready: {message}");
    }
    let node_name = Some(name(&node.metadata));
    let is_of_node = |claim: &&NodeClaim| {
        claim.status.as_ref().and_then(|status| status.node_name.as_deref()) == node_name
    };
    let Some(claim) = claims.decoded().iter().find(is_of_node) else {
        let mut undecoded = claims.undecoded();
        return match undecoded.find(|claim| claim.text("/status/nodeName") == node_name) {
            Some(claim) => format!("its NodeClaim {} cannot be decoded", claim.key().1),
            None => "has no NodeClaim".to_owned(),
        };
    };
    let startup: Vec<&str> =
        claim.spec.startup_taints.iter().flatten().map(|taint| taint.key.as_str()).collect();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    if let Some(left) = taints.into_iter().flatten().find(|taint| startup.contains(&taint.key.as_str())) {
        return format!("still has the startup taint {}", left.key);
    }
    let conditions = claim.status.iter().flat_map(|status| &status.conditions);
    let mut said = conditions
        .filter(|condition| condition.kind == names::condition::INITIALIZED)
        .map(|found| found.message.clone());
    said.next_back().unwrap_or_else(|| "no condition gives a reason".to_owned())
}

fn without_network(facts: &Facts) -> Outcome {
    let nodes = facts.cluster.managed_nodes()?.into_iter();
    let found = nodes.filter_map(|node| Some((node, not_ready(node)?)));
    Ok(found
        .filter(|(_, message)| message.contains("cni plugin not initialized"))
        .map(|(node, message)| Evidence::new(object("Node", &node.metadata), message))
        .collect())
}
