//! Pods: what they ask for, and what keeps their nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_model::names::{self, annotation::DO_NOT_DISRUPT};

use super::{name, object, selects};
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
        fix: "set requests, such as `kubectl set resources deployment <name> --requests=cpu=100m,memory=128Mi`, or defaults by a LimitRange",
        look: Look::At(without_requests),
    },
    Check {
        id: "D-15",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "FailedAttachVolume, or a claim that stays Pending; events speak of an in-tree plugin",
        cause: "a volume or claim is of the in-tree plugin for EBS, which Kubernetes leaves to the CSI driver, and that is not installed",
        fix: "`aws eks create-addon --cluster-name <cluster> --addon-name aws-ebs-csi-driver`; give new claims a class with the provisioner ebs.csi.aws.com",
        look: Look::At(in_tree),
    },
    Check {
        id: "D-26",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "a node is never drained",
        cause: "a PodDisruptionBudget allows no eviction, or several cover one pod, which the API refuses to evict",
        fix: "allow at least one and keep one budget per pod (`kubectl edit pdb --namespace <namespace> <budget>`), or set terminationGracePeriod on the NodePool",
        look: Look::At(blocking_budgets),
    },
    Check {
        id: "D-27",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "a node is never considered for consolidation",
        cause: "it or a pod on it is annotated karpenter.sh/do-not-disrupt",
        fix: "`kubectl annotate <kind> <name> karpenter.sh/do-not-disrupt-`, or give it a duration",
        look: Look::At(protected),
    },
    Check {
        id: "D-42",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "a new DaemonSet does not run on existing nodes",
        cause: "those nodes are full, and its pods have no priority to make room",
        fix: "give the DaemonSet a priority class (`kubectl edit daemonset <name>`), or headroom to the nodes",
        look: Look::At(squeezed_daemons),
    },
];

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
    let mut namespaces: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    // Pods that EKS itself runs there ask for no memory, and users cannot change that.
    let theirs = |pod: &&Pod| pod.metadata.namespace.as_deref() != Some("kube-system");
    for pod in on_managed_nodes(facts)?.into_iter().filter(theirs) {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let silent = containers.filter(|container| {
            let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            !requests.is_some_and(|requests| requests.contains_key("memory") && requests.contains_key("cpu"))
        });
        if silent.count() > 0 {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            namespaces.entry(namespace).or_default().push(name(&pod.metadata));
        }
    }
    Ok(namespaces
        .into_iter()
        .map(|(namespace, pods)| {
            let (count, first) = (pods.len(), pods.first().copied().unwrap_or_default());
            let seen =
                format!("{count} pods with a container that requests no CPU or no memory, such as {first}");
            Evidence::new(format!("Namespace {namespace}"), seen)
        })
        .collect())
}

/// Volumes and waiting claims of the in-tree plugin. A class that nothing uses is no fault: EKS puts one into every
/// cluster. What the CSI driver serves in the plugin's place works, and counts against the limits of that driver.
fn in_tree(facts: &Facts) -> Outcome {
    const PROVISIONER: &str = "kubernetes.io/aws-ebs";
    let classes = facts.cluster.storage_classes.get()?.iter();
    let classes: Vec<&str> =
        classes.filter(|class| class.provisioner == PROVISIONER).map(|class| name(&class.metadata)).collect();
    let volumes = facts.cluster.volumes.get()?.iter();
    let volumes = volumes
        .filter(|volume| volume.spec.as_ref().is_some_and(|spec| spec.aws_elastic_block_store.is_some()))
        .map(|volume| {
            (object("PersistentVolume", &volume.metadata), "is an awsElasticBlockStore".to_owned())
        });
    let waiting =
        facts.cluster.volume_claims.get()?.iter().filter(|claim| {
            claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending")
        });
    let waiting = waiting.filter_map(|claim| {
        let class = claim.spec.as_ref()?.storage_class_name.as_deref()?;
        let seen = format!("waits for StorageClass {class}, whose provisioner is {PROVISIONER}");
        classes.contains(&class).then(|| (object("PersistentVolumeClaim", &claim.metadata), seen))
    });
    let is_served = facts.cluster.daemon_sets.get()?.iter().any(is_ebs_driver);
    let evidence = volumes.chain(waiting).map(|(object, seen)| {
        if is_served {
            Evidence::new(object, format!("{seen}; the CSI driver serves it")).advice_only()
        } else {
            Evidence::new(object, seen)
        }
    });
    Ok(evidence.collect())
}

/// The CSI driver of EBS on the nodes, by the name of its add-on or, under another name, by its image.
fn is_ebs_driver(set: &DaemonSet) -> bool {
    let spec = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let mut images =
        spec.into_iter().flat_map(|spec| &spec.containers).filter_map(|found| found.image.as_deref());
    name(&set.metadata) == "ebs-csi-node" || images.any(|image| image.contains("ebs-csi-driver"))
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    budget.metadata.namespace == pod.metadata.namespace && selects(selector, pod.metadata.labels.as_ref())
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
            .filter(|condition| {
                condition.type_ == names::condition::POD_SCHEDULED && condition.status == "False"
            })
            .any(|condition| condition.message.as_deref().unwrap_or_default().contains("Insufficient"));
        insufficient && pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0) == 0
    });
    Ok(waiting
        .map(|pod| Evidence::new(object("Pod", &pod.metadata), "waits for room on its node, with priority 0"))
        .collect())
}
