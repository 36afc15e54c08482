//! What the reconcilers of this crate need from the API server (spec aws-provider 2.6).
//!
//! The chart grants exactly this plus what the common controllers need.

/// Verbs on one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural name, with subresource where there is one.
    pub resource: &'static str,
    /// What may be done.
    pub verbs: &'static [&'static str],
    /// Only these objects; empty for all.
    pub names: &'static [&'static str],
    /// Only in this namespace; `None` for cluster-wide.
    pub namespace: Option<&'static str>,
}

/// Every rule.
pub fn rbac() -> Vec<Rule> {
    const CLUSTER: Rule = Rule { group: "", resource: "", verbs: &[], names: &[], namespace: None };
    vec![
        Rule {
            group: "karpenter.k8s.aws",
            resource: "ec2nodeclasses",
            verbs: &["get", "list", "watch", "patch", "update"],
            ..CLUSTER
        },
        Rule {
            group: "karpenter.k8s.aws",
            resource: "ec2nodeclasses/status",
            verbs: &["patch", "update"],
            ..CLUSTER
        },
        Rule {
            group: "karpenter.sh",
            resource: "nodeclaims",
            verbs: &["get", "list", "watch", "patch"],
            ..CLUSTER
        },
        Rule { resource: "events", verbs: &["create", "patch"], ..CLUSTER },
        Rule {
            resource: "services",
            verbs: &["get"],
            names: &["kube-dns"],
            namespace: Some("kube-system"),
            ..CLUSTER
        },
    ]
}
