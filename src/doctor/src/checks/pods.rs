//! Pods: what they ask for, and what keeps their nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::{name, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, label};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "D-13",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "nodes are packed badly; pods are killed for lack of memory",
        cause: "pods do not say what they need",
        fix: "set requests, or defaults by a LimitRange",
        look: Look::At(without_requests),
    },
    Check {
        id: "D-15",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "FailedAttachVolume; the log says `in-tree storage plugin`",
        cause: "a volume or storage class uses the removed in-tree plugin, whose attach limits nobody knows",
        fix: "use the provisioner ebs.csi.aws.com",
        look: Look::At(in_tree),
    },
    Check {
        id: "D-26",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "a node is never drained",
        cause: "a PodDisruptionBudget allows no eviction, or several cover one pod, which the API refuses to evict",
        fix: "allow at least one, keep one budget per pod, or set terminationGracePeriod on the NodePool",
        look: Look::At(blocking_budgets),
    },
    Check {
        id: "D-27",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "a node is never considered for consolidation",
        cause: "it or a pod on it is annotated karpenter.sh/do-not-disrupt",
        fix: "remove the annotation, or give it a duration",
        look: Look::At(protected),
    },
    Check {
        id: "D-42",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "a new DaemonSet does not run on existing nodes",
        cause: "those nodes are full, and its pods have no priority to make room",
        fix: "give the DaemonSet a priority class, or headroom to the nodes",
        look: Look::At(squeezed_daemons),
    },
];

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Running pods on nodes that Karpenter launched.
pub(super) fn on_managed_nodes(facts: &Facts) -> Result<Vec<&Pod>, crate::facts::Unseen> {
    let nodes: Vec<&str> =
        facts.cluster.managed_nodes()?.into_iter().map(|node| name(&node.metadata)).collect();
    let pods = facts.cluster.pods.get()?.iter().filter(|pod| is_running(pod));
    Ok(pods
        .filter(|pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            node.is_some_and(|node| nodes.contains(&node))
        })
        .collect())
}

fn owner(pod: &Pod) -> Option<&str> {
    Some(pod.metadata.owner_references.as_ref()?.first()?.kind.as_str())
}

fn without_requests(facts: &Facts) -> Outcome {
    let mut namespaces: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in on_managed_nodes(facts)? {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let silent = containers.filter(|container| {
            let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            !requests.is_some_and(|requests| requests.contains_key("memory") && requests.contains_key("cpu"))
        });
        if silent.count() > 0 {
            *namespaces.entry(pod.metadata.namespace.as_deref().unwrap_or_default()).or_default() += 1;
        }
    }
    Ok(namespaces
        .into_iter()
        .map(|(namespace, count)| {
            let seen = format!("{count} pods with a container that requests no CPU or no memory");
            Evidence::new(format!("Namespace {namespace}"), seen)
        })
        .collect())
}

fn in_tree(facts: &Facts) -> Outcome {
    const PROVISIONER: &str = "kubernetes.io/aws-ebs";
    let classes =
        facts.cluster.storage_classes.get()?.iter().filter(|class| class.provisioner == PROVISIONER);
    let volumes = facts
        .cluster
        .volumes
        .get()?
        .iter()
        .filter(|volume| volume.spec.as_ref().is_some_and(|spec| spec.aws_elastic_block_store.is_some()));
    let classes = classes.map(|class| {
        Evidence::new(object("StorageClass", &class.metadata), format!("provisioner is {PROVISIONER}"))
    });
    let volumes = volumes.map(|volume| {
        Evidence::new(object("PersistentVolume", &volume.metadata), "is an awsElasticBlockStore")
    });
    Ok(classes.chain(volumes).collect())
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    if budget.metadata.namespace != pod.metadata.namespace {
        return false;
    }
    // Expressions are rare in budgets; those with one are left out rather than guessed at.
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let plain = selector.filter(|selector| selector.match_expressions.as_ref().is_none_or(Vec::is_empty));
    let Some(labels) = plain.and_then(|selector| selector.match_labels.as_ref()) else { return false };
    labels.iter().all(|(key, value)| label(pod.metadata.labels.as_ref(), key) == Some(value))
}

fn blocking_budgets(facts: &Facts) -> Outcome {
    let pods = on_managed_nodes(facts)?;
    let budgets = facts.cluster.budgets.get()?;
    let mut found = Vec::new();
    for budget in budgets {
        let Some(status) = &budget.status else { continue };
        // An outage allows no eviction either, but passes by itself: only budgets that never allow one count.
        let never = status.disruptions_allowed == 0 && status.desired_healthy >= status.expected_pods;
        if never && status.expected_pods > 0 && pods.iter().any(|pod| covers(budget, pod)) {
            let seen = format!("wants {} of {} pods healthy", status.desired_healthy, status.expected_pods);
            found.push(Evidence::new(object("PodDisruptionBudget", &budget.metadata), seen));
        }
    }
    for pod in &pods {
        let several: Vec<&str> = budgets
            .iter()
            .filter(|budget| covers(budget, pod))
            .map(|budget| name(&budget.metadata))
            .collect();
        if several.len() > 1 {
            let seen = format!("is covered by {}", several.join(", "));
            found.push(Evidence::new(object("Pod", &pod.metadata), seen));
        }
    }
    Ok(found)
}

fn protected(facts: &Facts) -> Outcome {
    let pods = on_managed_nodes(facts)?.into_iter().map(|pod| ("Pod", &pod.metadata));
    let nodes = facts.cluster.managed_nodes()?.into_iter().map(|node| ("Node", &node.metadata));
    let marked = nodes.chain(pods).filter_map(|(kind, metadata)| {
        let value = label(metadata.annotations.as_ref(), DO_NOT_DISRUPT).filter(|value| *value != "false")?;
        Some(Evidence::new(object(kind, metadata), format!("{DO_NOT_DISRUPT}: {value}")))
    });
    Ok(marked.collect())
}

fn squeezed_daemons(facts: &Facts) -> Outcome {
    let pods = facts.cluster.pods.get()?.iter().filter(|pod| owner(pod) == Some("DaemonSet"));
    let waiting = pods.filter(|pod| {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let insufficient = conditions
            .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
            .any(|condition| condition.message.as_deref().unwrap_or_default().contains("Insufficient"));
        insufficient && pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0) == 0
    });
    Ok(waiting
        .map(|pod| Evidence::new(object("Pod", &pod.metadata), "waits for room on its node, with priority 0"))
        .collect())
}
