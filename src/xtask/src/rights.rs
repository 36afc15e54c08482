//! Rights that the code asks for against those of the reference's roles (spec aws-operations 3.4): a swap of the image
//! must need no further right. Rights that the code can do without may go beyond.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::generate::Rights;

/// Groups, resources and verbs of the reference's roles: as its chart has them.
type Allowed = &'static [(&'static str, &'static [&'static str], &'static [&'static str])];

const READ: &[&str] = &["get", "list", "watch"];

const CLUSTER: Allowed = &[
    ("karpenter.sh", &["nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status"], READ),
    ("karpenter.sh", &["nodeoverlays", "nodeoverlays/status"], READ),
    ("autoscaling.x-k8s.io", &["capacitybuffers", "capacitybuffers/status"], READ),
    ("", &["podtemplates", "pods", "nodes", "persistentvolumes", "persistentvolumeclaims"], READ),
    ("", &["replicationcontrollers", "namespaces", "events", "services"], READ),
    ("storage.k8s.io", &["storageclasses", "csinodes", "volumeattachments"], READ),
    ("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"], READ),
    ("policy", &["poddisruptionbudgets"], READ),
    ("resource.k8s.io", &["deviceclasses", "resourceclaims", "resourceslices"], READ),
    ("karpenter.sh", &["nodeclaims", "nodeclaims/status"], &["create", "delete", "update", "patch"]),
    ("karpenter.sh", &["nodepools", "nodepools/status", "nodeoverlays/status"], &["update", "patch"]),
    ("autoscaling.x-k8s.io", &["capacitybuffers/status"], &["update", "patch"]),
    ("", &["events"], &["create", "patch"]),
    ("", &["nodes"], &["patch", "delete", "update"]),
    ("", &["pods/eviction"], &["create"]),
    ("", &["pods"], &["delete"]),
    ("karpenter.k8s.aws", &["ec2nodeclasses"], READ),
    ("karpenter.k8s.aws", &["ec2nodeclasses", "ec2nodeclasses/status"], &["patch", "update"]),
];

const LEASES: Allowed = &[("coordination.k8s.io", &["leases"], &["get", "watch", "create"])];

const NAMED: Allowed =
    &[("coordination.k8s.io", &["leases"], &["patch", "update"]), ("", &["services"], &["get"])];

/// One line for every right that goes beyond `allowed`.
fn beyond(rules: &[PolicyRule], allowed: Allowed) -> Vec<String> {
    let mut lines = Vec::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    let is_in = allowed.iter().any(|(groups, resources, verbs)| {
                        groups == group
                            && resources.contains(&resource.as_str())
                            && verbs.contains(&verb.as_str())
                    });
                    if !is_in {
                        lines.push(format!("`{verb}` on `{resource}` of group `{group}`"));
                    }
                }
            }
        }
    }
    lines
}

#[test]
fn the_code_needs_no_more_than_the_reference() {
    let rights = Rights::declared("lease");
    let (named, unnamed): (Vec<_>, Vec<_>) =
        rights.lease.into_iter().chain(rights.dns).partition(|rule| rule.resource_names.is_some());
    let optional = karpenter_controllers::optional_rbac();
    let core: Vec<PolicyRule> = rights.core.into_iter().filter(|rule| !optional.contains(rule)).collect();
    let mut lines = beyond(&core, CLUSTER);
    lines.extend(beyond(&rights.aws, CLUSTER));
    lines.extend(beyond(&unnamed, LEASES));
    lines.extend(beyond(&named, NAMED));
    assert!(lines.is_empty(), "the reference does not allow:\n{}", lines.join("\n"));
}

#[test]
fn a_right_beyond_is_named() {
    let rule = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["secrets".to_owned()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    };
    assert_eq!(beyond(&[rule], CLUSTER), ["`get` on `secrets` of group ``"]);
}
