//! Permissions on the API server that the reconcilers of this crate need, beyond the common controllers
//! (spec aws-provider 2.6).

use k8s_openapi::api::rbac::v1::PolicyRule;
use karpenter_controllers::rule;

/// Rules of the cluster role.
pub fn rbac() -> Vec<PolicyRule> {
    vec![
        rule("karpenter.k8s.aws", &["ec2nodeclasses"], &["get", "list", "watch"]),
        rule("karpenter.k8s.aws", &["ec2nodeclasses", "ec2nodeclasses/status"], &["patch"]),
        rule("karpenter.sh", &["nodeclaims"], &["delete", "patch"]),
        rule("", &["nodes"], &["patch"]),
        rule("", &["events"], &["create", "patch"]),
    ]
}

/// Rules of the role in `kube-system`: the address of the cluster's DNS is written into user data.
pub fn dns_rbac() -> Vec<PolicyRule> {
    vec![PolicyRule {
        resource_names: Some(vec!["kube-dns".to_owned()]),
        ..rule("", &["services"], &["get"])
    }]
}
