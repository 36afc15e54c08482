//! Calls that `CloudFormation` makes with the caller's rights: the handlers of the resource types that the template has.
//!
//! The lists are `handlers.<operation>.permissions` and `tagging.permissions` of the public schemas of the types, as the
//! package cfn-lint 1.58.0 has them in `cfnlint/data/schemas/resources`; `aws cloudformation describe-type --type RESOURCE
//! --type-name <type>` prints the newest. The operation `list` is left out: a stack never lists. Tests compare the rows
//! with the template and with the policy that is printed.

use super::Action;

/// Resources that the calls of a handler are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// The cluster and its access entries.
    AccessEntries,
    /// The cluster and its Pod Identity associations.
    Associations,
    /// The controller's own policies.
    Policies,
    Profile,
    Queue,
    Roles,
    Rules,
    /// The service-linked role for spot.
    SpotRole,
}

/// The handlers of one resource type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handlers {
    /// Type of the resource in templates.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares the rows with the template"))]
    resource_type: &'static str,
    subject: Subject,
    create: &'static [&'static str],
    read: &'static [&'static str],
    update: &'static [&'static str],
    delete: &'static [&'static str],
    /// Actions for the tags of the template, and for those of the stack.
    tag: &'static [&'static str],
    /// Actions that no stack of the template leads to, each with why: they are not granted for the sake of the handler.
    unused: &'static [(&'static str, &'static str)],
}

const NO_USERS_OR_GROUPS: &str = "the template attaches its policies to roles only";
const NO_INLINE_POLICY: &str = "the roles of the template have no inline policies";
const BY_SETTINGS: &str = "granted where settings name a boundary, or ask to take one off";

/// One row for each resource type of the template.
pub(super) const ALL: &[Handlers] = &[
    Handlers {
        resource_type: "AWS::EKS::AccessEntry",
        subject: Subject::AccessEntries,
        create: &[
            "eks:AssociateAccessPolicy",
            "eks:CreateAccessEntry",
            "eks:DescribeAccessEntry",
            "eks:ListAssociatedAccessPolicies",
            "eks:TagResource",
        ],
        read: &["eks:DescribeAccessEntry", "eks:ListAssociatedAccessPolicies"],
        update: &[
            "eks:AssociateAccessPolicy",
            "eks:DescribeAccessEntry",
            "eks:DisassociateAccessPolicy",
            "eks:ListAssociatedAccessPolicies",
            "eks:TagResource",
            "eks:UntagResource",
            "eks:UpdateAccessEntry",
        ],
        delete: &["eks:DeleteAccessEntry", "eks:DescribeAccessEntry"],
        tag: &["eks:TagResource", "eks:UntagResource"],
        unused: &[
            ("eks:AssociateAccessPolicy", "entries of nodes have no access policies"),
            ("eks:DisassociateAccessPolicy", "entries of nodes have no access policies"),
        ],
    },
    Handlers {
        resource_type: "AWS::EKS::PodIdentityAssociation",
        subject: Subject::Associations,
        create: &[
            "eks:CreatePodIdentityAssociation",
            "eks:DescribePodIdentityAssociation",
            "eks:TagResource",
            "iam:GetRole",
            "iam:PassRole",
        ],
        read: &["eks:DescribePodIdentityAssociation"],
        update: &[
            "eks:DescribePodIdentityAssociation",
            "eks:TagResource",
            "eks:UntagResource",
            "eks:UpdatePodIdentityAssociation",
            "iam:GetRole",
            "iam:PassRole",
        ],
        delete: &["eks:DeletePodIdentityAssociation", "eks:DescribePodIdentityAssociation"],
        tag: &["eks:TagResource", "eks:UntagResource"],
        unused: &[],
    },
    Handlers {
        resource_type: "AWS::Events::Rule",
        subject: Subject::Rules,
        create: &[
            "events:DescribeRule",
            "events:PutRule",
            "events:PutTargets",
            "events:TagResource",
            "iam:PassRole",
        ],
        read: &[
            "events:DescribeRule",
            "events:ListTagsForResource",
            "events:ListTargetsByRule",
            "iam:PassRole",
        ],
        update: &[
            "events:DescribeRule",
            "events:PutRule",
            "events:PutTargets",
            "events:RemoveTargets",
            "events:TagResource",
            "events:UntagResource",
            "iam:PassRole",
        ],
        delete: &[
            "events:DeleteRule",
            "events:DescribeRule",
            "events:ListTargetsByRule",
            "events:RemoveTargets",
            "iam:PassRole",
        ],
        tag: &["events:ListTagsForResource", "events:TagResource", "events:UntagResource"],
        unused: &[("iam:PassRole", "a rule needs no role to send to a queue")],
    },
    Handlers {
        resource_type: "AWS::IAM::InstanceProfile",
        subject: Subject::Profile,
        create: &[
            "iam:AddRoleToInstanceProfile",
            "iam:CreateInstanceProfile",
            "iam:GetInstanceProfile",
            "iam:PassRole",
        ],
        read: &["iam:GetInstanceProfile"],
        update: &[
            "iam:AddRoleToInstanceProfile",
            "iam:GetInstanceProfile",
            "iam:PassRole",
            "iam:RemoveRoleFromInstanceProfile",
        ],
        delete: &["iam:DeleteInstanceProfile", "iam:GetInstanceProfile", "iam:RemoveRoleFromInstanceProfile"],
        tag: &[],
        unused: &[],
    },
    Handlers {
        resource_type: "AWS::IAM::ManagedPolicy",
        subject: Subject::Policies,
        create: &[
            "iam:AttachGroupPolicy",
            "iam:AttachRolePolicy",
            "iam:AttachUserPolicy",
            "iam:CreatePolicy",
        ],
        read: &["iam:GetPolicy", "iam:GetPolicyVersion", "iam:ListEntitiesForPolicy"],
        update: &[
            "iam:AttachGroupPolicy",
            "iam:AttachRolePolicy",
            "iam:AttachUserPolicy",
            "iam:CreatePolicyVersion",
            "iam:DeletePolicyVersion",
            "iam:DetachGroupPolicy",
            "iam:DetachRolePolicy",
            "iam:DetachUserPolicy",
            "iam:GetPolicy",
            "iam:ListPolicyVersions",
        ],
        delete: &[
            "iam:DeletePolicy",
            "iam:DeletePolicyVersion",
            "iam:DetachGroupPolicy",
            "iam:DetachRolePolicy",
            "iam:DetachUserPolicy",
            "iam:GetPolicy",
            "iam:ListEntitiesForPolicy",
            "iam:ListPolicyVersions",
        ],
        tag: &[],
        unused: &[
            ("iam:AttachGroupPolicy", NO_USERS_OR_GROUPS),
            ("iam:AttachUserPolicy", NO_USERS_OR_GROUPS),
            ("iam:DetachGroupPolicy", NO_USERS_OR_GROUPS),
            ("iam:DetachUserPolicy", NO_USERS_OR_GROUPS),
        ],
    },
    Handlers {
        resource_type: "AWS::IAM::Role",
        subject: Subject::Roles,
        create: &[
            "iam:AttachRolePolicy",
            "iam:CreateRole",
            "iam:GetRole",
            "iam:GetRolePolicy",
            "iam:PutRolePolicy",
            "iam:TagRole",
            "iam:UntagRole",
        ],
        read: &["iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies", "iam:ListRolePolicies"],
        update: &[
            "iam:AttachRolePolicy",
            "iam:DeleteRolePermissionsBoundary",
            "iam:DeleteRolePolicy",
            "iam:DetachRolePolicy",
            "iam:PutRolePermissionsBoundary",
            "iam:PutRolePolicy",
            "iam:TagRole",
            "iam:UntagRole",
            "iam:UpdateAssumeRolePolicy",
            "iam:UpdateRole",
            "iam:UpdateRoleDescription",
        ],
        delete: &[
            "iam:DeleteRole",
            "iam:DeleteRolePolicy",
            "iam:DetachRolePolicy",
            "iam:GetRole",
            "iam:ListAttachedRolePolicies",
            "iam:ListRolePolicies",
            "iam:TagRole",
            "iam:UntagRole",
        ],
        tag: &["iam:ListRoleTags", "iam:TagRole", "iam:UntagRole"],
        unused: &[
            ("iam:DeleteRolePermissionsBoundary", BY_SETTINGS),
            ("iam:PutRolePermissionsBoundary", BY_SETTINGS),
            ("iam:PutRolePolicy", NO_INLINE_POLICY),
        ],
    },
    Handlers {
        resource_type: "AWS::IAM::ServiceLinkedRole",
        subject: Subject::SpotRole,
        create: &["iam:CreateServiceLinkedRole", "iam:GetRole"],
        read: &["iam:GetRole"],
        update: &["iam:GetRole", "iam:UpdateRole"],
        delete: &["iam:DeleteServiceLinkedRole", "iam:GetRole", "iam:GetServiceLinkedRoleDeletionStatus"],
        tag: &[],
        unused: &[
            ("iam:UpdateRole", "only its description can be updated, and the template sets none"),
            ("iam:DeleteServiceLinkedRole", "the template retains it"),
            ("iam:GetServiceLinkedRoleDeletionStatus", "the template retains it"),
        ],
    },
    Handlers {
        resource_type: "AWS::SQS::Queue",
        subject: Subject::Queue,
        create: &[
            "sqs:CreateQueue",
            "sqs:GetQueueAttributes",
            "sqs:GetQueueUrl",
            "sqs:ListQueueTags",
            "sqs:TagQueue",
        ],
        read: &["sqs:GetQueueAttributes", "sqs:ListQueueTags"],
        update: &[
            "sqs:GetQueueAttributes",
            "sqs:ListQueueTags",
            "sqs:SetQueueAttributes",
            "sqs:TagQueue",
            "sqs:UntagQueue",
        ],
        delete: &["sqs:DeleteQueue", "sqs:GetQueueAttributes"],
        tag: &["sqs:ListQueueTags", "sqs:TagQueue", "sqs:UntagQueue"],
        unused: &[],
    },
    Handlers {
        resource_type: "AWS::SQS::QueuePolicy",
        subject: Subject::Queue,
        create: &["sqs:SetQueueAttributes"],
        read: &[],
        update: &["sqs:SetQueueAttributes"],
        delete: &["sqs:SetQueueAttributes"],
        tag: &[],
        unused: &[],
    },
];

impl Handlers {
    /// Returns the calls of the handlers when the stack is to be made, changed or deleted, and the subject of each. Looking
    /// makes a change set, for which no handler runs.
    pub(super) fn calls(&self, action: Action) -> impl Iterator<Item = (&'static str, Subject)> + use<'_> {
        let operations: &[&[&str]] = match action {
            Action::Look => &[],
            // A stack that fails deletes what it made.
            Action::Apply => &[self.create, self.read, self.update, self.delete, self.tag],
            Action::Destroy => &[self.read, self.delete],
        };
        let calls = operations.concat().into_iter();
        calls
            .filter(|call| self.unused.iter().all(|(unused, _)| unused != call))
            .map(|call| (call, self.subject_of(call)))
    }

    /// Handlers of profiles, associations and policies also call about the role that those belong to.
    fn subject_of(&self, call: &str) -> Subject {
        match (self.subject, call) {
            (Subject::SpotRole, _) => Subject::SpotRole,
            (_, "iam:AttachRolePolicy" | "iam:DetachRolePolicy" | "iam:GetRole" | "iam:PassRole") => {
                Subject::Roles
            }
            (subject, _) => subject,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use karpenter_iam::{Decision, Denial, Policies, Policy, Request};

    use super::super::required_for_stack;
    use super::*;
    use crate::policy::Document;
    use crate::render::cloudformation::template;
    use crate::settings::tests::settings;

    /// An ARN of each subject, as IAM would ask for it.
    fn arns(subject: Subject) -> &'static [&'static str] {
        match subject {
            Subject::AccessEntries => {
                &["arn:aws:eks:eu-west-1:123456789012:access-entry/prod/role/123456789012/a/b"]
            }
            Subject::Associations => &["arn:aws:eks:eu-west-1:123456789012:podidentityassociation/prod/a-b"],
            Subject::Policies => &["arn:aws:iam::123456789012:policy/KarpenterIntegration-prod"],
            Subject::Profile => {
                &["arn:aws:iam::123456789012:instance-profile/KarpenterNodeInstanceProfile-prod"]
            }
            Subject::Queue => &["arn:aws:sqs:eu-west-1:123456789012:prod"],
            Subject::Roles => &[
                "arn:aws:iam::123456789012:role/KarpenterNodeRole-prod",
                "arn:aws:iam::123456789012:role/prod-karpenter",
            ],
            Subject::Rules => &["arn:aws:events:eu-west-1:123456789012:rule/Karpenter-prod-SpotInterrupt"],
            Subject::SpotRole => &[
                "arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot",
            ],
        }
    }

    fn printed(action: Action) -> Policies {
        let documents = required_for_stack(&settings(), "Karpenter-prod", action);
        let policy = |document: &Document| Policy::of_identity(&document.to_json()).unwrap();
        Policies::of(documents.iter().map(policy).collect())
    }

    /// Returns whether the call is granted, at least under the conditions that a statement has.
    fn grants(policies: &Policies, call: &str, arn: &str) -> bool {
        let decision = policies.decide(&Request::new(call, arn).partial());
        matches!(decision, Decision::Allowed(_) | Decision::Denied(Denial::Undecided { .. }))
    }

    #[test]
    fn each_resource_type_of_the_template_has_one_row() {
        let template = template();
        let types = template.lines().filter_map(|line| line.trim().strip_prefix("Type: "));
        let of_template: BTreeSet<&str> = types.filter(|found| found.starts_with("AWS::")).collect();
        let rows: Vec<&str> = ALL.iter().map(|row| row.resource_type).collect();
        assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), of_template);
        assert_eq!(rows.len(), of_template.len());
    }

    #[test]
    fn each_call_of_a_handler_is_granted_by_the_printed_policy() {
        let mut refused = Vec::new();
        for action in [Action::Apply, Action::Destroy] {
            let policies = printed(action);
            for row in ALL {
                for (call, subject) in row.calls(action) {
                    let missing = arns(subject).iter().filter(|arn| !grants(&policies, call, arn));
                    refused.extend(missing.map(|arn| (action, row.resource_type, call, *arn)));
                }
            }
        }
        assert_eq!(refused, []);
    }

    #[test]
    fn what_no_stack_leads_to_is_not_granted() {
        for action in [Action::Look, Action::Apply, Action::Destroy] {
            let policies = printed(action);
            for row in ALL {
                for (call, why) in row.unused {
                    // Profile and association of the same stack need it.
                    let needed_elsewhere = *call == "iam:PassRole" && action == Action::Apply;
                    let arns = arns(row.subject_of(call));
                    let granted = arns.iter().any(|arn| grants(&policies, call, arn));
                    assert!(!granted || needed_elsewhere, "{action:?}: {call} is granted, but {why}");
                }
            }
        }
    }

    #[test]
    fn looking_runs_no_handler() {
        assert!(ALL.iter().all(|row| row.calls(Action::Look).count() == 0));
        assert!(!grants(&printed(Action::Look), "eks:UpdateAccessEntry", arns(Subject::AccessEntries)[0]));
    }
}
