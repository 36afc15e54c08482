//! Permissions that the controllers' calls need: the source of the chart's roles.
//!
//! Kept next to the calls and checked against those really made: a test runs the controllers and compares. Not
//! more than the reference asks for (spec disruption 5.4), save for what the controllers can do without.

use k8s_openapi::api::rbac::v1::PolicyRule;
use karpenter_cloud::NodeClassKind;

/// Rules of the cluster role. `classes` are the node classes of the provider.
pub fn rbac(classes: &[NodeClassKind]) -> Vec<PolicyRule> {
    let mut rules = vec![
        rule("karpenter.sh", &["nodepools", "nodepools/status"], &["get", "list", "watch"]),
        rule("karpenter.sh", &["nodepools", "nodepools/status"], &["patch"]),
        rule("karpenter.sh", &["nodeclaims", "nodeclaims/status"], &["get", "list", "watch"]),
        rule("karpenter.sh", &["nodeclaims"], &["create", "delete", "patch"]),
        rule("karpenter.sh", &["nodeclaims/status"], &["patch"]),
        rule("karpenter.sh", &["nodeoverlays"], &["get", "list", "watch"]),
        rule("karpenter.sh", &["nodeoverlays/status"], &["patch"]),
        rule("", &["nodes", "pods", "namespaces"], &["get", "list", "watch"]),
        rule("", &["persistentvolumes", "persistentvolumeclaims"], &["get", "list", "watch"]),
        rule("policy", &["poddisruptionbudgets"], &["get", "list", "watch"]),
        rule(
            "storage.k8s.io",
            &["storageclasses", "csinodes", "volumeattachments"],
            &["get", "list", "watch"],
        ),
        // For resource claims, unless they are ignored.
        rule(
            "resource.k8s.io",
            &["deviceclasses", "resourceclaims", "resourceslices"],
            &["get", "list", "watch"],
        ),
        rule("", &["nodes"], &["patch", "delete"]),
        rule("", &["pods"], &["delete"]),
        rule("", &["pods/eviction"], &["create"]),
        rule("", &["events"], &["create", "patch"]),
        rule("apps", &["daemonsets"], &["get", "list", "watch"]),
        // For capacity buffers: they, and what they name.
        rule("autoscaling.x-k8s.io", &["capacitybuffers"], &["get", "list", "watch"]),
        rule("autoscaling.x-k8s.io", &["capacitybuffers/status"], &["patch"]),
        rule("", &["podtemplates"], &["get", "list", "watch"]),
        // Replica sets and stateful sets also select the pods of the default spread, like these.
        rule("apps", &["deployments", "replicasets", "statefulsets"], &["get", "list", "watch"]),
        rule("", &["services", "replicationcontrollers"], &["get", "list", "watch"]),
    ];
    rules.extend(optional_rbac());
    for class in classes {
        let plural = format!("{}es", class.kind.to_lowercase());
        rules.push(rule(class.group, &[&plural], &["get", "list", "watch"]));
    }
    rules
}

/// Returns the rules that the reference does not ask for. An installation that swaps the image and keeps the
/// roles loses only what they are for.
pub fn optional_rbac() -> Vec<PolicyRule> {
    vec![
        rule("", &["limitranges"], &["get", "list", "watch"]),
        // Devices that people or controllers keep claims away from.
        rule("resource.k8s.io", &["devicetaintrules"], &["get", "list", "watch"]),
        // Devices of the pods of capacity buffers.
        rule("resource.k8s.io", &["resourceclaimtemplates"], &["get"]),
        // To name nodes to the scheduler.
        rule("", &["pods/status"], &["patch"]),
    ]
}

/// Returns the additional permission to write deletion costs of pods, for the feature gate `PodDeletionCostManagement` alone.
pub fn deletion_cost_rbac() -> Vec<PolicyRule> {
    vec![rule("", &["pods"], &["patch"])]
}

/// Rules of the role in the namespace of the lease, whose name is `lease`.
pub fn lease_rbac(lease: &str) -> Vec<PolicyRule> {
    vec![
        rule("coordination.k8s.io", &["leases"], &["get", "create"]),
        PolicyRule {
            resource_names: Some(vec![lease.to_owned()]),
            ..rule("coordination.k8s.io", &["leases"], &["update", "patch"])
        },
    ]
}

/// Returns the rule that allows `verbs` on `resources` of an API group.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(texts(resources)),
        verbs: texts(verbs),
        ..PolicyRule::default()
    }
}
