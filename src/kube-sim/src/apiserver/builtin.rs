//! The built-in kinds: one row each.

use super::{
    columns::columns_of,
    resource::{Registry, Resource, Scale},
};

/// Row: group, version, kind, plural, short names, and the traits spelled as letters:
/// `n` namespaced, `s` has a status subresource, `g` counts generations, `x` can be scaled,
/// `a` belongs to the category `all`.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str], &'static str);

const ROWS: &[Row] = &[
    ("", "v1", "ConfigMap", "configmaps", &["cm"], "n"),
    ("", "v1", "Endpoints", "endpoints", &["ep"], "n"),
    ("", "v1", "Event", "events", &["ev"], "n"),
    ("", "v1", "LimitRange", "limitranges", &["limits"], "n"),
    ("", "v1", "Namespace", "namespaces", &["ns"], "s"),
    ("", "v1", "Node", "nodes", &["no"], "s"),
    ("", "v1", "PersistentVolume", "persistentvolumes", &["pv"], "s"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"], "ns"),
    ("", "v1", "Pod", "pods", &["po"], "nsga"),
    ("", "v1", "PodTemplate", "podtemplates", &[], "ng"),
    ("", "v1", "ReplicationController", "replicationcontrollers", &["rc"], "nsgxa"),
    ("", "v1", "ResourceQuota", "resourcequotas", &["quota"], "ns"),
    ("", "v1", "Secret", "secrets", &[], "n"),
    ("", "v1", "Service", "services", &["svc"], "nsa"),
    ("", "v1", "ServiceAccount", "serviceaccounts", &["sa"], "n"),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        &[],
        "g",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        &[],
        "g",
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
        "sg",
    ),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", &[], "n"),
    ("apps", "v1", "DaemonSet", "daemonsets", &["ds"], "nsga"),
    ("apps", "v1", "Deployment", "deployments", &["deploy"], "nsgxa"),
    ("apps", "v1", "ReplicaSet", "replicasets", &["rs"], "nsgxa"),
    ("apps", "v1", "StatefulSet", "statefulsets", &["sts"], "nsgxa"),
    ("batch", "v1", "CronJob", "cronjobs", &["cj"], "nsga"),
    ("batch", "v1", "Job", "jobs", &[], "nsga"),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", &["csr"], "s"),
    ("coordination.k8s.io", "v1", "Lease", "leases", &[], "n"),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", &[], "ng"),
    ("events.k8s.io", "v1", "Event", "events", &["ev"], "n"),
    ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas", &[], "s"),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", &["ing"], "nsg"),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", &["netpol"], "ng"),
    ("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", &[], ""),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"], "nsg"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", &[], ""),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", &[], ""),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", &[], "n"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", &[], "n"),
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", &[], "g"),
    ("resource.k8s.io", "v1beta2", "DeviceTaintRule", "devicetaintrules", &[], "sg"),
    ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", &[], "ns"),
    ("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", &[], "n"),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", &[], "g"),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", &["pc"], "g"),
    ("storage.k8s.io", "v1", "CSIDriver", "csidrivers", &[], ""),
    ("storage.k8s.io", "v1", "CSINode", "csinodes", &[], ""),
    ("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", &[], "n"),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", &["sc"], ""),
    ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", &[], "s"),
];

/// A registry of all built-in kinds.
pub(crate) fn registry() -> Registry {
    Registry::of(ROWS.iter().map(resource))
}

fn resource(row: &Row) -> Resource {
    let (group, version, kind, plural, short_names, traits) = *row;
    let has = |letter| traits.contains(letter);
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: short_names.iter().map(|&s| s.to_owned()).collect(),
        categories: if has('a') { vec!["all".to_owned()] } else { Vec::new() },
        namespaced: has('n'),
        has_status: has('s'),
        scale: has('x').then(|| Scale {
            spec: "/spec/replicas".to_owned(),
            status: "/status/replicas".to_owned(),
            selector: "/spec/selector".to_owned(),
        }),
        counts_generations: has('g'),
        custom: false,
        columns: columns_of(group, plural),
        schema: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_served_once() {
        assert_eq!(registry().iter().count(), ROWS.len());
    }
}
