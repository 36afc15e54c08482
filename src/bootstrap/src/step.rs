//! The single steps a plan consists of. Each is one small thing that is safe to do twice.

use std::collections::BTreeMap;

use karpenter_aws_api::Tags;
use karpenter_aws_api::id::{Arn, AssociationId, QueueUrl};
use schemars::JsonSchema;
use serde::Serialize;

use crate::desired::{AccessEntry, InstanceProfile, ManagedPolicy, PodIdentity, Queue, Role, Rule};
use crate::observe::SPOT_ROLE;
use crate::policy::Document;

/// One change to the account.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create the account-wide spot service-linked role.
    CreateSpotRole,
    /// Create a customer-managed policy.
    CreatePolicy(ManagedPolicy),
    /// Make a new default version of a policy, deleting `spare` versions first (AWS keeps five).
    UpdatePolicy {
        /// The policy as it should be.
        policy: ManagedPolicy,
        /// Ids of versions that may go.
        spare: Vec<String>,
    },
    /// Create a role; attachments are steps of their own.
    CreateRole(Role),
    /// Replace the principals that may assume a role.
    UpdateTrust {
        /// The role's name.
        role: String,
        /// Its new trust document.
        trust: Document,
    },
    /// Put a permissions boundary on a role, or take it off.
    SetBoundary {
        /// The role's name.
        role: String,
        /// ARN of the desired boundary.
        boundary: Option<String>,
    },
    /// Attach a managed policy to a role.
    AttachPolicy {
        /// The role's name.
        role: String,
        /// The policy's ARN.
        policy: String,
    },
    /// Detach a policy from a role.
    DetachPolicy {
        /// The role's name.
        role: String,
        /// The policy's ARN.
        policy: String,
    },
    /// Delete a policy and the listed versions that are not its default.
    DeletePolicy {
        /// The policy's ARN.
        policy: String,
        /// Ids of the versions to delete first.
        versions: Vec<String>,
    },
    /// Delete a policy that stands in a role itself.
    DeleteOwnPolicy {
        /// The role's name.
        role: String,
        /// The policy's name.
        policy: String,
    },
    /// Delete a role that nothing is attached to any more.
    DeleteRole {
        /// The role's name.
        role: String,
    },
    CreateInstanceProfile(InstanceProfile),
    /// Put a role into an instance profile, taking another one out first.
    FillInstanceProfile {
        /// The profile's name.
        profile: String,
        /// The role that should be in it.
        role: String,
        /// The role that is in it.
        replaces: Option<String>,
    },
    /// Delete an instance profile, taking its role out first.
    DeleteInstanceProfile {
        /// The profile's name.
        profile: String,
        role: Option<String>,
    },
    /// Delete a launch template that the controller left behind.
    DeleteLaunchTemplate {
        name: String,
    },
    /// Create the interruption queue.
    CreateQueue(Queue),
    /// Set attributes of the queue.
    UpdateQueue {
        /// The queue's name.
        name: String,
        /// The queue's address.
        url: QueueUrl,
        /// Attributes that differ, with the desired values.
        attributes: BTreeMap<String, String>,
    },
    DeleteQueue {
        /// The queue's name.
        name: String,
        /// The queue's address.
        url: QueueUrl,
    },
    /// Create a rule, or put back its event pattern.
    PutRule {
        /// The rule as it should be.
        rule: Rule,
        /// True if it does not exist yet.
        fresh: bool,
    },
    /// Point a rule at the queue.
    PutTarget {
        /// The rule's name.
        rule: String,
        /// The queue's ARN.
        target: String,
    },
    /// Delete a rule and its targets.
    DeleteRule {
        /// The rule's name.
        rule: String,
        /// Ids of its targets.
        targets: Vec<String>,
    },
    /// Let a role of nodes join the cluster.
    CreateAccessEntry(AccessEntry),
    /// Delete an access entry of the wrong type and make the right one: EKS never changes a type.
    ReplaceAccessEntry(AccessEntry),
    /// Delete the node role's access entry.
    DeleteAccessEntry {
        /// ARN of the node role.
        principal: String,
    },
    /// Tie the controller's service account to its role.
    CreatePodIdentity(PodIdentity),
    /// Tie the controller's service account to another role than it has now.
    UpdatePodIdentity {
        id: AssociationId,
        /// The desired role's ARN.
        role: String,
    },
    /// Untie the controller's service account.
    DeletePodIdentity {
        id: AssociationId,
    },
    /// Add tags to what exists, or put changed ones right. Tags of others stay.
    Tag {
        /// Object to tag.
        object: Tagged,
        /// Tags that lack or differ.
        tags: Tags,
    },
    /// Remove tags from a subnet or security group.
    UntagResource {
        /// `subnet` or `security group`.
        kind: &'static str,
        id: String,
        /// Keys to remove.
        keys: Vec<String>,
    },
}

/// Something that exists and carries tags, with the id its service uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tagged {
    /// A role, by name.
    Role(String),
    /// A policy, by ARN.
    Policy(String),
    /// An instance profile, by name.
    InstanceProfile(String),
    /// The queue, by name and address.
    Queue(String, QueueUrl),
    /// A rule, by name and ARN.
    Rule(String, Arn),
    /// An access entry, by principal and its own ARN.
    AccessEntry(String, Arn),
    /// A pod identity association, by id and ARN.
    PodIdentity(AssociationId, Arn),
    /// A subnet, by id.
    Subnet(String),
    /// A security group, by id.
    SecurityGroup(String),
}

impl Tagged {
    /// Returns its name in messages.
    pub(crate) fn name(&self) -> &str {
        self.named().1
    }

    /// The kind of object and its name, as [`Line`] has them.
    fn named(&self) -> (&'static str, &str) {
        match self {
            Self::Role(name) => ("role", name),
            Self::Policy(arn) => ("policy", last(arn)),
            Self::InstanceProfile(name) => ("instance profile", name),
            Self::Queue(name, _) => ("queue", name),
            Self::Rule(name, _) => ("rule", name),
            Self::AccessEntry(principal, _) => ("access entry", principal),
            Self::PodIdentity(id, _) => ("pod identity association", id.as_str()),
            Self::Subnet(id) => ("subnet", id),
            Self::SecurityGroup(id) => ("security group", id),
        }
    }
}

/// Effect of a step on its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The object does not exist yet.
    Create,
    /// The object exists and differs.
    Change,
    /// The object is removed.
    Delete,
}

/// A step for people and tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Line {
    /// Create, change or delete.
    pub effect: Effect,
    /// The kind of object: `role`, `queue`, ...
    pub object: &'static str,
    /// Its name, id or ARN.
    pub name: String,
    /// Details, where the name is not enough.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Step {
    /// The step in one line.
    #[expect(clippy::too_many_lines, reason = "a table with an entry for each kind of step")]
    pub fn line(&self) -> Line {
        use Effect::{Change, Create, Delete};
        let line = |effect, object, name: &str, detail: String| Line {
            effect,
            object,
            name: name.to_owned(),
            detail,
        };
        match self {
            Step::CreateSpotRole => line(Create, "service-linked role", SPOT_ROLE, String::new()),
            Step::CreatePolicy(policy) => line(Create, "policy", &policy.name, size(&policy.document)),
            Step::UpdatePolicy { policy, .. } => line(
                Change,
                "policy",
                &policy.name,
                format!("new default version, {}", size(&policy.document)),
            ),
            Step::CreateRole(role) => line(Create, "role", &role.name, String::new()),
            Step::UpdateTrust { role, .. } => line(Change, "role", role, "trust policy".to_owned()),
            Step::SetBoundary { role, boundary } => {
                let wanted = boundary.as_deref().unwrap_or("none");
                line(Change, "role", role, format!("permissions boundary {wanted}"))
            }
            Step::AttachPolicy { role, policy } => {
                line(Change, "role", role, format!("attach {}", last(policy)))
            }
            Step::DetachPolicy { role, policy } => {
                line(Change, "role", role, format!("detach {}", last(policy)))
            }
            Step::DeleteOwnPolicy { role, policy } => {
                line(Change, "role", role, format!("delete its own policy {policy}"))
            }
            Step::DeleteLaunchTemplate { name } => line(Delete, "launch template", name, String::new()),
            Step::DeletePolicy { policy, .. } => line(Delete, "policy", last(policy), String::new()),
            Step::DeleteRole { role } => line(Delete, "role", role, String::new()),
            Step::CreateInstanceProfile(profile) => {
                line(Create, "instance profile", &profile.name, String::new())
            }
            Step::FillInstanceProfile { profile, role, replaces } => {
                let instead = replaces.as_ref().map(|old| format!(" instead of {old}")).unwrap_or_default();
                line(Change, "instance profile", profile, format!("role {role}{instead}"))
            }
            Step::DeleteInstanceProfile { profile, .. } => {
                line(Delete, "instance profile", profile, String::new())
            }
            Step::CreateQueue(queue) => line(Create, "queue", &queue.name, String::new()),
            Step::UpdateQueue { name, attributes, .. } => {
                let names: Vec<_> = attributes.keys().map(String::as_str).collect();
                line(Change, "queue", name, names.join(", "))
            }
            Step::DeleteQueue { name, .. } => line(Delete, "queue", name, String::new()),
            Step::PutRule { rule, fresh: true } => {
                line(Create, "rule", &rule.name, rule.description.to_owned())
            }
            Step::PutRule { rule, fresh: false } => {
                line(Change, "rule", &rule.name, "event pattern".to_owned())
            }
            Step::PutTarget { rule, target } => {
                line(Change, "rule", rule, format!("send to {}", last(target)))
            }
            Step::DeleteRule { rule, .. } => line(Delete, "rule", rule, String::new()),
            Step::CreateAccessEntry(entry) => {
                line(Create, "access entry", &entry.principal, entry.kind.to_owned())
            }
            Step::ReplaceAccessEntry(entry) => {
                line(Change, "access entry", &entry.principal, format!("type {}", entry.kind))
            }
            Step::DeleteAccessEntry { principal } => line(Delete, "access entry", principal, String::new()),
            Step::CreatePodIdentity(identity) => line(
                Create,
                "pod identity association",
                &format!("{}/{}", identity.namespace, identity.service_account),
                format!("role {}", last(&identity.role)),
            ),
            Step::UpdatePodIdentity { id, role } => {
                line(Change, "pod identity association", id.as_str(), format!("role {}", last(role)))
            }
            Step::DeletePodIdentity { id } => {
                line(Delete, "pod identity association", id.as_str(), String::new())
            }
            Step::Tag { object, tags } => {
                let tags: Vec<_> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let (kind, name) = object.named();
                line(Change, kind, name, format!("tag {}", tags.join(", ")))
            }
            Step::UntagResource { kind, id, keys } => {
                line(Change, kind, id, format!("remove tag {}", keys.join(", ")))
            }
        }
    }

    /// The step as the end of "cannot ...".
    pub fn sentence(&self) -> String {
        let line = self.line();
        let verb = match line.effect {
            Effect::Create => "create",
            Effect::Change => "change",
            Effect::Delete => "delete",
        };
        let detail = if line.detail.is_empty() { String::new() } else { format!(" ({})", line.detail) };
        format!("{verb} {} `{}`{detail}", line.object, line.name)
    }
}

fn size(document: &Document) -> String {
    format!("{} statements, {} characters", document.statements.len(), document.measured_size())
}

/// The name at the end of an ARN.
fn last(arn: &str) -> &str {
    arn.rsplit(['/', ':']).next().unwrap_or(arn)
}
