//! Every prerequisite as one pure value, computed from settings alone (spec aws-operations 1).

pub(crate) mod interruption;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::names::{POLICY_NAME_MAX, bounded};
use crate::policy::{Document, controller, node, split, trust};
use crate::settings::{Identity, Platform, Settings};

pub use karpenter_model::names::tag::{CLUSTER_NAME as CLUSTER_TAG, DISCOVERY as DISCOVERY_TAG};

/// Marks what bootstrap made, and for which cluster. Nothing without it is ever changed or deleted.
pub const OWNER_TAG: &str = "karpenter.sh/bootstrap";
/// Tag of what IAM holds besides: the region of the cluster. The name of a cluster is of one region, while names of IAM are
/// of the whole account. What was made before bootstrap gave this tag lacks it and counts as ours.
pub const REGION_TAG: &str = "karpenter.sh/bootstrap-region";
/// The id of each rule's single target; the same as in the reference template.
pub(crate) const RULE_TARGET_ID: &str = "KarpenterInterruptionQueueTarget";

/// Description of the controller's policies; AWS never lets a description change.
pub(crate) const POLICY_DESCRIPTION: &str = "What the Karpenter controller may do";

/// IAM attaches no more managed policies to a role unless it is asked to.
const POLICIES_PER_ROLE: usize = 10;

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// Desired state of the account for one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The controller's customer-managed policies.
    pub policies: Vec<ManagedPolicy>,
    /// The node roles we look after and, unless identity is `None`, the controller role.
    pub roles: Vec<Role>,
    /// The profile private clusters name in `spec.instanceProfile`.
    pub instance_profile: InstanceProfile,
    /// The interruption queue.
    pub queue: Queue,
    /// Rules by which `EventBridge` sends events to the queue.
    pub rules: Vec<Rule>,
    /// Let the nodes join the cluster, one for each role they can have.
    pub access_entries: Vec<AccessEntry>,
    /// Ties the controller's service account to its role.
    pub pod_identity: Option<PodIdentity>,
}

/// A customer-managed policy.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedPolicy {
    /// Name without path.
    pub name: String,
    /// The ARN it has or will have.
    pub arn: String,
    /// IAM path.
    pub path: String,
    /// Rights it grants.
    pub document: Document,
    pub tags: Tags,
}

/// Purpose of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Nodes that run Linux.
    Nodes,
    /// Nodes that run Windows.
    WindowsNodes,
    Controller,
}

impl Purpose {
    /// One sentence for people reading the IAM console.
    pub fn description(self) -> &'static str {
        match self {
            Self::Nodes => "Assumed by the EC2 instances that Karpenter launches",
            Self::WindowsNodes => "Assumed by the Windows EC2 instances that Karpenter launches",
            Self::Controller => "Assumed by the Karpenter controller",
        }
    }
}

/// An IAM role with everything attached to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// Purpose of the role.
    pub purpose: Purpose,
    /// Name without path.
    pub name: String,
    /// IAM path.
    pub path: String,
    /// Principals that may assume it.
    pub trust: Document,
    /// ARNs of the managed policies attached, sorted.
    pub attached: Vec<String>,
    /// ARN of the permissions boundary.
    pub boundary: Option<String>,
    pub tags: Tags,
}

/// An instance profile holding one role.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceProfile {
    /// Name without path.
    pub name: String,
    /// IAM path.
    pub path: String,
    /// Name of the role in it.
    pub role: String,
    pub tags: Tags,
}

/// The interruption queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    pub name: String,
    pub arn: String,
    /// SQS attributes other than the policy, as SQS spells and returns them.
    pub attributes: BTreeMap<String, String>,
    /// Principals that may send.
    pub policy: Document,
    pub tags: Tags,
}

/// An `EventBridge` rule on the default bus with one target, the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub name: String,
    /// One sentence.
    pub description: &'static str,
    /// The event pattern.
    pub pattern: Value,
    /// ARN of the queue it sends to.
    pub target: String,
    pub tags: Tags,
}

/// An EKS access entry for a role that nodes have.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessEntry {
    /// ARN of the role.
    pub principal: String,
    /// `EC2_LINUX` or `EC2_WINDOWS`.
    pub kind: &'static str,
    pub tags: Tags,
}

/// An EKS Pod Identity association.
#[derive(Clone, Debug, PartialEq)]
pub struct PodIdentity {
    /// Namespace of the service account.
    pub namespace: String,
    /// Name of the service account.
    pub service_account: String,
    /// ARN of the controller role.
    pub role: String,
    pub tags: Tags,
}

/// Computes the prerequisites of the cluster that `settings` describe.
pub fn desired(settings: &Settings) -> Desired {
    let tags = tags(settings);
    let of_iam = tags_of_iam(settings, &tags);
    let policies = policies(settings, &of_iam);
    Desired {
        roles: roles(settings, &policies, &of_iam),
        policies,
        instance_profile: InstanceProfile {
            name: settings.instance_profile(),
            path: settings.iam_path.clone(),
            role: settings.node_role(),
            tags: of_iam,
        },
        queue: interruption::queue(settings, &tags),
        rules: interruption::rules(settings, &tags),
        access_entries: access_entries(settings, &tags),
        pod_identity: (settings.identity == Identity::PodIdentity).then(|| PodIdentity {
            namespace: settings.namespace.clone(),
            service_account: settings.service_account.clone(),
            role: settings.controller_role_arn(),
            tags: tags.clone(),
        }),
    }
}

/// The tags on everything bootstrap creates. The tags of ownership cannot be overridden.
fn tags(settings: &Settings) -> Tags {
    let mut tags = settings.tags.clone();
    tags.remove(REGION_TAG);
    tags.insert(CLUSTER_TAG.to_owned(), settings.cluster.clone());
    tags.insert(OWNER_TAG.to_owned(), settings.cluster.clone());
    tags
}

/// Returns the tags of objects in IAM: those on everything, and the region.
fn tags_of_iam(settings: &Settings, tags: &Tags) -> Tags {
    let mut tags = tags.clone();
    tags.insert(REGION_TAG.to_owned(), settings.region.clone());
    tags
}

fn policies(settings: &Settings, tags: &Tags) -> Vec<ManagedPolicy> {
    if settings.identity == Identity::None {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (prefix, statements) in controller::policies(settings) {
        for (index, document) in split::split(statements, split::MANAGED_POLICY_MAX).into_iter().enumerate() {
            let name = policy_name(settings, prefix, index);
            let arn = settings.iam_arn(&format!("policy{}{name}", settings.iam_path));
            let path = settings.iam_path.clone();
            all.push(ManagedPolicy { name, arn, path, document, tags: tags.clone() });
        }
    }
    all
}

/// The name of the `index`th policy with this prefix.
fn policy_name(settings: &Settings, prefix: &str, index: usize) -> String {
    let suffix = if index == 0 { String::new() } else { format!("-{}", index + 1) };
    bounded(prefix, settings.policy_suffix(), &suffix, POLICY_NAME_MAX)
}

/// Returns whether a policy bears a name that one of ours has, or had when settings split them into more.
pub(crate) fn is_policy_name(settings: &Settings, name: &str) -> bool {
    let mut prefixes = controller::policies(settings).into_iter().map(|(prefix, _)| prefix);
    prefixes.any(|prefix| (0..POLICIES_PER_ROLE).any(|index| policy_name(settings, prefix, index) == name))
}

fn roles(settings: &Settings, policies: &[ManagedPolicy], tags: &Tags) -> Vec<Role> {
    let role = |purpose, name, trust, attached| Role {
        purpose,
        name,
        path: settings.iam_path.clone(),
        trust,
        attached,
        boundary: settings.permissions_boundary.clone(),
        tags: tags.clone(),
    };
    let nodes = |purpose, name| role(purpose, name, trust::node(settings), node::managed_policies(settings));
    let mut roles = Vec::new();
    if settings.existing_node_role.is_none() {
        roles.push(nodes(Purpose::Nodes, settings.node_role()));
    }
    if settings.windows {
        roles.push(nodes(Purpose::WindowsNodes, settings.windows_node_role()));
    }
    if let Some(trust) = trust::controller(settings) {
        let mut attached: Vec<String> = policies.iter().map(|policy| policy.arn.clone()).collect();
        attached.sort();
        roles.push(role(Purpose::Controller, settings.controller_role(), trust, attached));
    }
    roles
}

fn access_entries(settings: &Settings, tags: &Tags) -> Vec<AccessEntry> {
    if !settings.access_entry {
        return Vec::new();
    }
    let mut principals = vec![(settings.node_role_arn(), Platform::Linux)];
    if settings.windows {
        principals.push((settings.windows_node_role_arn(), Platform::Windows));
    }
    principals.extend(settings.extra_node_roles.iter().map(|role| (role.arn.clone(), role.platform)));
    let entry = |(principal, platform): (String, Platform)| AccessEntry {
        principal,
        kind: platform.entry_type(),
        tags: tags.clone(),
    };
    principals.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ExtraNodeRole;
    use crate::settings::tests::settings;

    #[test]
    fn names_are_those_the_ecosystem_knows() {
        let desired = desired(&settings());
        let roles: Vec<_> = desired.roles.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(roles, ["KarpenterNodeRole-prod", "prod-karpenter"]);
        assert_eq!(desired.queue.name, "prod");
        assert_eq!(desired.instance_profile.name, "KarpenterNodeInstanceProfile-prod");
        assert_eq!(desired.rules.len(), 5);
        assert_eq!(desired.rules[1].name, "Karpenter-prod-SpotInterrupt");
    }

    #[test]
    fn the_controller_role_carries_every_policy_and_both_roles_the_boundary() {
        let mut settings = settings();
        settings.permissions_boundary = Some("arn:aws:iam::123456789012:policy/boundary".to_owned());
        let desired = desired(&settings);
        let mut policies: Vec<_> = desired.policies.iter().map(|policy| policy.arn.clone()).collect();
        policies.sort();
        assert_eq!(desired.roles[1].attached, policies);
        assert!(desired.roles.iter().all(|role| role.boundary == settings.permissions_boundary));
    }

    #[test]
    fn without_identity_neither_controller_role_nor_policies_are_made() {
        let mut settings = settings();
        settings.identity = Identity::None;
        let desired = desired(&settings);
        assert!(desired.policies.is_empty() && desired.pod_identity.is_none());
        assert_eq!(desired.roles.len(), 1);
    }

    #[test]
    fn the_ownership_tag_wins_over_the_users_tags() {
        let mut settings = settings();
        settings.tags.insert(OWNER_TAG.to_owned(), "other".to_owned());
        assert_eq!(desired(&settings).queue.tags[OWNER_TAG], "prod");
    }

    #[test]
    fn every_role_that_nodes_have_may_be_passed_and_may_join() {
        let mut settings = settings();
        settings.windows = true;
        settings.existing_node_role = Some("arn:aws:iam::123456789012:role/team/nodes".to_owned());
        settings.extra_node_roles = vec![ExtraNodeRole {
            arn: "arn:aws:iam::123456789012:role/gpu".to_owned(),
            platform: Platform::Linux,
        }];
        let desired = desired(&settings);
        let entries: Vec<_> =
            desired.access_entries.iter().map(|entry| (entry.principal.as_str(), entry.kind)).collect();
        assert_eq!(
            entries,
            [
                ("arn:aws:iam::123456789012:role/team/nodes", "EC2_LINUX"),
                ("arn:aws:iam::123456789012:role/KarpenterWindowsNodeRole-prod", "EC2_WINDOWS"),
                ("arn:aws:iam::123456789012:role/gpu", "EC2_LINUX"),
            ]
        );
        let statements = desired.policies.iter().flat_map(|policy| &policy.document.statements);
        let pass =
            statements.into_iter().find(|statement| statement.sid == "AllowPassingInstanceRole").unwrap();
        let mut principals: Vec<_> = entries.iter().map(|(principal, _)| (*principal).to_owned()).collect();
        principals.sort();
        assert_eq!(pass.resources, principals);
        let made: Vec<_> = desired.roles.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(
            made,
            ["KarpenterWindowsNodeRole-prod", "prod-karpenter"],
            "the existing role is not ours"
        );
    }
}
