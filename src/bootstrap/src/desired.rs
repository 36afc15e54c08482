//! Every prerequisite as one pure value, computed from settings alone (spec aws-operations 1, design 7).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::names::{POLICY_NAME_MAX, RULE_NAME_MAX, bounded};
use crate::policy::{Document, controller, node, queue, split, trust};
use crate::settings::{Identity, Settings};

/// Marks what bootstrap made, and for which cluster. Nothing without it is ever changed or deleted.
pub const OWNER_TAG: &str = "karpenter.sh/bootstrap";
/// The tag EC2NodeClass selectors find subnets and security groups by.
pub const DISCOVERY_TAG: &str = "karpenter.sh/discovery";
/// The id of each rule's single target; the same as in the reference template.
pub const RULE_TARGET_ID: &str = "KarpenterInterruptionQueueTarget";

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// What the account should hold for one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The controller's customer-managed policies.
    pub policies: Vec<ManagedPolicy>,
    /// The node role and, unless identity is `None`, the controller role.
    pub roles: Vec<Role>,
    /// The profile private clusters name in `spec.instanceProfile`.
    pub instance_profile: InstanceProfile,
    /// The interruption queue.
    pub queue: Queue,
    /// What `EventBridge` sends to the queue.
    pub rules: Vec<Rule>,
    /// Lets the nodes join the cluster.
    pub access_entry: Option<AccessEntry>,
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
    /// What it grants.
    pub document: Document,
    /// Its tags.
    pub tags: Tags,
}

/// An IAM role with everything attached to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// Name without path.
    pub name: String,
    /// IAM path.
    pub path: String,
    /// One sentence for people reading the IAM console.
    pub description: &'static str,
    /// Who may assume it.
    pub trust: Document,
    /// ARNs of the managed policies attached, sorted.
    pub attached: Vec<String>,
    /// ARN of the permissions boundary.
    pub boundary: Option<String>,
    /// Its tags.
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
    /// Its tags.
    pub tags: Tags,
}

/// The interruption queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
    /// SQS attributes other than the policy, as SQS spells and returns them.
    pub attributes: BTreeMap<String, String>,
    /// Who may send.
    pub policy: Document,
    /// Its tags.
    pub tags: Tags,
}

/// An `EventBridge` rule on the default bus with one target, the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// One sentence.
    pub description: &'static str,
    /// The event pattern.
    pub pattern: Value,
    /// ARN of the queue it sends to.
    pub target: String,
    /// Its tags.
    pub tags: Tags,
}

/// An EKS access entry for the node role.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessEntry {
    /// ARN of the node role.
    pub principal: String,
    /// `EC2_LINUX`; Windows nodes need a role and an entry of their own.
    pub kind: &'static str,
    /// Its tags.
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
    /// Its tags.
    pub tags: Tags,
}

/// Computes the prerequisites of the cluster that `settings` describe.
pub fn desired(settings: &Settings) -> Desired {
    let tags = tags(settings);
    let policies = policies(settings, &tags);
    let rules = rules(settings, &tags);
    let rule_arns: Vec<String> = rules.iter().map(|rule| settings.rule_arn(&rule.name)).collect();
    Desired {
        roles: roles(settings, &policies, &tags),
        policies,
        instance_profile: InstanceProfile {
            name: bounded("KarpenterNodeInstanceProfile-", &settings.cluster, "", POLICY_NAME_MAX),
            path: settings.iam_path.clone(),
            role: settings.node_role(),
            tags: tags.clone(),
        },
        queue: Queue {
            name: settings.queue(),
            arn: settings.queue_arn(),
            attributes: queue_attributes(settings),
            policy: queue::queue_policy(settings, &rule_arns),
            tags: tags.clone(),
        },
        rules,
        access_entry: settings.access_entry.then(|| AccessEntry {
            principal: settings.node_role_arn(),
            kind: "EC2_LINUX",
            tags: tags.clone(),
        }),
        pod_identity: (settings.identity == Identity::PodIdentity).then(|| PodIdentity {
            namespace: settings.namespace.clone(),
            service_account: settings.service_account.clone(),
            role: settings.controller_role_arn(),
            tags: tags.clone(),
        }),
    }
}

/// The tags on everything bootstrap creates. The ownership tag cannot be overridden.
fn tags(settings: &Settings) -> Tags {
    let mut tags = settings.tags.clone();
    tags.insert("eks:eks-cluster-name".to_owned(), settings.cluster.clone());
    tags.insert(OWNER_TAG.to_owned(), settings.cluster.clone());
    tags
}

fn policies(settings: &Settings, tags: &Tags) -> Vec<ManagedPolicy> {
    if settings.identity == Identity::None {
        return Vec::new();
    }
    let documents = split::split(controller::statements(settings), split::MANAGED_POLICY_MAX);
    let named = documents.into_iter().enumerate().map(|(index, document)| {
        let suffix = format!("-{}", index + 1);
        let name = bounded("KarpenterController-", &settings.cluster, &suffix, POLICY_NAME_MAX);
        let arn = settings.iam_arn(&format!("policy{}{name}", settings.iam_path));
        ManagedPolicy { name, arn, path: settings.iam_path.clone(), document, tags: tags.clone() }
    });
    named.collect()
}

fn roles(settings: &Settings, policies: &[ManagedPolicy], tags: &Tags) -> Vec<Role> {
    let role = |name, description, trust, attached| Role {
        name,
        path: settings.iam_path.clone(),
        description,
        trust,
        attached,
        boundary: settings.permissions_boundary.clone(),
        tags: tags.clone(),
    };
    let mut roles = vec![role(
        settings.node_role(),
        "Assumed by the EC2 instances that Karpenter launches",
        trust::node(settings),
        node::managed_policies(settings),
    )];
    if let Some(trust) = trust::controller(settings) {
        let mut attached: Vec<String> = policies.iter().map(|policy| policy.arn.clone()).collect();
        attached.sort();
        roles.push(role(settings.controller_role(), "Assumed by the Karpenter controller", trust, attached));
    }
    roles
}

fn queue_attributes(settings: &Settings) -> BTreeMap<String, String> {
    // SQS-managed encryption and a customer key exclude each other (spec aws-operations 1.11).
    let encryption = match &settings.queue_kms_key {
        Some(key) => ("KmsMasterKeyId", key.clone()),
        None => ("SqsManagedSseEnabled", "true".to_owned()),
    };
    [("MessageRetentionPeriod", "300".to_owned()), encryption]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The five rules of spec aws-operations 1.4.
fn rules(settings: &Settings, tags: &Tags) -> Vec<Rule> {
    let sources: [(&str, &str, &str, &str); 5] = [
        ("-HealthEvent", "Scheduled changes announced by AWS Health", "aws.health", "AWS Health Event"),
        (
            "-SpotInterrupt",
            "Spot capacity is about to be reclaimed",
            "aws.ec2",
            "EC2 Spot Instance Interruption Warning",
        ),
        (
            "-InstanceRebalance",
            "Spot capacity is at elevated risk",
            "aws.ec2",
            "EC2 Instance Rebalance Recommendation",
        ),
        (
            "-InstanceStateChange",
            "An instance stopped or was terminated",
            "aws.ec2",
            "EC2 Instance State-change Notification",
        ),
        (
            "-CRInterruption",
            "Reserved capacity is about to be reclaimed",
            "aws.ec2",
            "EC2 Capacity Reservation Instance Interruption Warning",
        ),
    ];
    sources
        .into_iter()
        .map(|(suffix, description, source, detail_type)| Rule {
            name: bounded("Karpenter-", &settings.cluster, suffix, RULE_NAME_MAX),
            description,
            pattern: json!({ "source": [source], "detail-type": [detail_type] }),
            target: settings.queue_arn(),
            tags: tags.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        settings.tags.insert(OWNER_TAG.to_owned(), "somebody".to_owned());
        assert_eq!(desired(&settings).queue.tags[OWNER_TAG], "prod");
    }

    #[test]
    fn a_customer_key_replaces_sqs_managed_encryption() {
        let mut settings = settings();
        settings.queue_kms_key = Some("arn:aws:kms:eu-west-1:123456789012:key/k".to_owned());
        let attributes = desired(&settings).queue.attributes;
        assert!(attributes.contains_key("KmsMasterKeyId"));
        assert!(!attributes.contains_key("SqsManagedSseEnabled"));
    }
}
