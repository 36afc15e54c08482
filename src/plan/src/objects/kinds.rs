//! Kinds of objects by their API group: where their objects are, and whether plans or lint rules read them.
//!
//! Kinds that are not read are here because lint tells a kind of Kubernetes from one that there is not.

use Scope::{Cluster, Namespace};

/// Scope of the objects of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Objects belong to the whole cluster.
    Cluster,
    /// Objects are in a namespace, which is `default` when a manifest does not say.
    Namespace,
}

/// A kind of an API group.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    scope: Scope,
    is_read: bool,
}

/// A kind that plans or lint rules read. No two of them have the same name.
const fn read(name: &'static str, scope: Scope) -> Kind {
    Kind { name, scope, is_read: true }
}

const fn known(name: &'static str, scope: Scope) -> Kind {
    Kind { name, scope, is_read: false }
}

/// An API group with its kinds.
type Group = (&'static str, &'static [Kind]);

/// The kinds of Kubernetes v1.35.
pub(crate) const KUBERNETES: &[Group] = &[
    (
        "",
        &[
            known("Binding", Namespace),
            known("ComponentStatus", Cluster),
            known("ConfigMap", Namespace),
            known("Endpoints", Namespace),
            known("Event", Namespace),
            read("LimitRange", Namespace),
            read("Namespace", Cluster),
            read("Node", Cluster),
            read("PersistentVolume", Cluster),
            read("PersistentVolumeClaim", Namespace),
            read("Pod", Namespace),
            read("PodTemplate", Namespace),
            read("ReplicationController", Namespace),
            known("ResourceQuota", Namespace),
            known("Secret", Namespace),
            known("Service", Namespace),
            known("ServiceAccount", Namespace),
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            known("MutatingAdmissionPolicy", Cluster),
            known("MutatingAdmissionPolicyBinding", Cluster),
            known("MutatingWebhookConfiguration", Cluster),
            known("ValidatingAdmissionPolicy", Cluster),
            known("ValidatingAdmissionPolicyBinding", Cluster),
            known("ValidatingWebhookConfiguration", Cluster),
        ],
    ),
    ("apiextensions.k8s.io", &[known("CustomResourceDefinition", Cluster)]),
    ("apiregistration.k8s.io", &[known("APIService", Cluster)]),
    (
        "apps",
        &[
            known("ControllerRevision", Namespace),
            read("DaemonSet", Namespace),
            read("Deployment", Namespace),
            read("ReplicaSet", Namespace),
            read("StatefulSet", Namespace),
        ],
    ),
    ("autoscaling", &[read("HorizontalPodAutoscaler", Namespace)]),
    ("batch", &[read("CronJob", Namespace), read("Job", Namespace)]),
    (
        "certificates.k8s.io",
        &[
            known("CertificateSigningRequest", Cluster),
            known("ClusterTrustBundle", Cluster),
            known("PodCertificateRequest", Namespace),
        ],
    ),
    ("coordination.k8s.io", &[known("Lease", Namespace), known("LeaseCandidate", Namespace)]),
    ("discovery.k8s.io", &[known("EndpointSlice", Namespace)]),
    ("events.k8s.io", &[known("Event", Namespace)]),
    (
        "flowcontrol.apiserver.k8s.io",
        &[known("FlowSchema", Cluster), known("PriorityLevelConfiguration", Cluster)],
    ),
    (
        "networking.k8s.io",
        &[
            known("IPAddress", Cluster),
            known("Ingress", Namespace),
            known("IngressClass", Cluster),
            known("NetworkPolicy", Namespace),
            known("ServiceCIDR", Cluster),
        ],
    ),
    ("node.k8s.io", &[read("RuntimeClass", Cluster)]),
    ("policy", &[read("PodDisruptionBudget", Namespace)]),
    (
        "rbac.authorization.k8s.io",
        &[
            known("ClusterRole", Cluster),
            known("ClusterRoleBinding", Cluster),
            known("Role", Namespace),
            known("RoleBinding", Namespace),
        ],
    ),
    (
        "resource.k8s.io",
        &[
            read("DeviceClass", Cluster),
            known("DeviceTaintRule", Cluster),
            read("ResourceClaim", Namespace),
            read("ResourceClaimTemplate", Namespace),
            read("ResourceSlice", Cluster),
        ],
    ),
    ("scheduling.k8s.io", &[read("PriorityClass", Cluster), known("Workload", Namespace)]),
    (
        "storage.k8s.io",
        &[
            known("CSIDriver", Cluster),
            read("CSINode", Cluster),
            known("CSIStorageCapacity", Namespace),
            read("StorageClass", Cluster),
            read("VolumeAttachment", Cluster),
            known("VolumeAttributesClass", Cluster),
        ],
    ),
];

/// Kinds that Karpenter defines, and those of the documents of an export.
const OURS: &[Group] = &[
    ("autoscaling.x-k8s.io", &[read("CapacityBuffer", Namespace)]),
    (
        "export.karpenter.sh",
        &[read("BufferTemplate", Namespace), read("Export", Cluster), read("InstanceType", Cluster)],
    ),
    ("karpenter.k8s.aws", &[read("EC2NodeClass", Cluster)]),
    ("karpenter.sh", &[read("NodeClaim", Cluster), read("NodeOverlay", Cluster), read("NodePool", Cluster)]),
];

fn all() -> impl Iterator<Item = (&'static str, &'static Kind)> {
    KUBERNETES.iter().chain(OURS).flat_map(|(group, kinds)| kinds.iter().map(move |kind| (*group, kind)))
}

/// Returns whether a kind is one that Karpenter defines.
pub(crate) fn is_ours(kind: &str) -> bool {
    OURS.iter().any(|(_, kinds)| kinds.iter().any(|one| one.name == kind))
}

/// Returns whether objects of a kind are in a namespace, as far as the kind is known.
pub(crate) fn has_namespace(kind: &str) -> bool {
    all().any(|(_, one)| one.name == kind && one.scope == Namespace)
}

/// Returns whether objects of a kind are of the whole cluster, as far as the kind is known.
pub(crate) fn is_of_cluster(kind: &str) -> bool {
    all().any(|(_, one)| one.name == kind && one.scope == Cluster)
}

/// The usual `apiVersion` of a kind, as far as it is known.
pub(crate) fn example_of(kind: &str) -> Option<String> {
    let (group, _) = all().find(|(_, one)| one.name == kind)?;
    Some(match group {
        "" => "v1".to_owned(),
        "autoscaling.x-k8s.io" => format!("{group}/v1beta1"),
        "karpenter.sh" if kind == "NodeOverlay" => format!("{group}/v1alpha1"),
        _ => format!("{group}/v1"),
    })
}

/// Returns whether a kind that is read belongs to another group than `group`.
pub(crate) fn is_of_another_group(kind: &str, group: &str) -> bool {
    all().any(|(own, one)| one.is_read && one.name == kind && own != group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_read_are_found_by_their_name_alone() {
        for (group, kind) in all() {
            if kind.is_read {
                assert!(!is_of_another_group(kind.name, group), "{}", kind.name);
            }
            let scopes = all().filter(|(_, one)| one.name == kind.name).map(|(_, one)| one.scope);
            assert!(scopes.into_iter().all(|scope| scope == kind.scope), "{}", kind.name);
        }
    }

    #[test]
    fn every_kind_that_karpenter_defines_is_read() {
        for definition in karpenter_api::crd_values() {
            let text = |pointer: &str| crate::objects::text(&definition, pointer).to_owned();
            let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
            let found = all().find(|(own, one)| *own == group && one.name == kind);
            assert!(found.is_some_and(|(_, one)| one.is_read), "{kind} of {group}");
            assert_eq!(has_namespace(&kind), text("/spec/scope") == "Namespaced", "{kind}");
        }
    }
}
