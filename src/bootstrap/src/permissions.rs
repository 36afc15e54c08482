//! Rights that the caller of `karpenter bootstrap` needs: the least that `plan`, `check`, `apply` and `destroy` get by with.
//!
//! Meant for the people who have to grant it. A test compares the actions with the calls that an account recorded.
//!
//! Rights to make roles are conditioned, so that their holder cannot get more by them: only the policies bootstrap
//! attaches may be attached, roles may be handed to EC2 and to the pods of EKS alone, and with a permissions boundary
//! no role is made or given policies without it. Without a boundary one way stays open that IAM has no condition for:
//! the controller's policies are the holder's to write.

mod handlers;

use std::collections::{BTreeMap, BTreeSet};

use self::handlers::Subject;

use crate::desired::{CLUSTER_TAG, DISCOVERY_TAG, Desired, OWNER_TAG, desired};
use crate::leftovers::profile_path;
use crate::observe::{SPOT_ROLE, widened};
use crate::policy::split::{MANAGED_POLICY_MAX, split};
use crate::policy::{Document, Statement, node};
use crate::settings::{IpFamily, Removable, Settings};

/// Command that the permissions are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// `plan` and `check`: read.
    Look,
    /// `apply`: read, create and change.
    Apply,
    /// `destroy`: read and delete.
    Destroy,
}

/// The policy documents that allow `action`: as many as it takes for each to fit into a managed policy. The caller needs
/// all of them.
pub fn required(settings: &Settings, action: Action) -> Vec<Document> {
    let settings = &touched(settings, action);
    let scope = Scope::new(settings, &desired(settings));
    let mut statements = scope.look(settings);
    match action {
        Action::Look => {}
        Action::Apply => statements.extend(scope.apply(settings)),
        Action::Destroy => {
            statements.extend(scope.look_for_leftovers());
            statements.extend(scope.destroy(settings));
        }
    }
    statements.retain(|statement| !statement.resources.is_empty());
    split(statements, MANAGED_POLICY_MAX)
}

/// Returns the policy documents that allow `action` through a stack: what is asked of `CloudFormation`, and what that does with
/// the caller's rights.
///
/// A stack that fails takes back what it made, so making one needs the rights to delete, too. `CloudFormation` calls more
/// than we do for the same resource: see the table of `handlers`.
pub fn required_for_stack(settings: &Settings, stack: &str, action: Action) -> Vec<Document> {
    let settings = &touched(settings, action);
    let scope = Scope::new(settings, &desired(settings));
    let mut statements = scope.look(settings);
    statements.push(use_stack(settings, stack, action));
    match action {
        Action::Look => {}
        Action::Apply => {
            statements.extend(scope.apply(settings));
            statements.extend(scope.destroy(settings));
        }
        Action::Destroy => {
            statements.extend(scope.look_for_leftovers());
            statements.extend(scope.destroy(settings));
        }
    }
    let missing = scope.handlers(action, &statements);
    statements.extend(missing);
    statements.retain(|statement| !statement.resources.is_empty());
    split(statements, MANAGED_POLICY_MAX)
}

/// Settings that name everything the action touches: `destroy` also looks for what settings do not ask for.
fn touched(settings: &Settings, action: Action) -> Settings {
    if action == Action::Destroy { widened(settings) } else { settings.clone() }
}

/// Even looking needs a change set, which is deleted again with the stack that was made for it.
fn use_stack(settings: &Settings, stack: &str, action: Action) -> Statement {
    let mut actions = vec![
        "cloudformation:CreateChangeSet",
        "cloudformation:DeleteChangeSet",
        "cloudformation:DeleteStack",
        "cloudformation:DescribeChangeSet",
        "cloudformation:DescribeStackEvents",
        "cloudformation:DescribeStacks",
        "cloudformation:TagResource",
    ];
    if action == Action::Apply {
        actions.extend(["cloudformation:ContinueUpdateRollback", "cloudformation:ExecuteChangeSet"]);
    }
    let arn = format!(
        "arn:{}:cloudformation:{}:{}:stack/{stack}/*",
        settings.partition, settings.region, settings.account
    );
    Statement::allow("UseStack", &actions, vec![arn])
}

/// ARNs of what bootstrap may touch.
struct Scope {
    roles: Vec<String>,
    /// Managed policies that one of the roles is to have.
    attached: Vec<String>,
    policies: Vec<String>,
    /// The account's own policy for the network of IPv6; empty where it is not needed.
    ipv6: Vec<String>,
    profile: String,
    queue: String,
    rules: Vec<String>,
    cluster: String,
    entries: String,
    associations: String,
    spot_role: String,
}

impl Scope {
    fn new(settings: &Settings, desired: &Desired) -> Self {
        let eks = |kind: &str, rest: &str| {
            format!(
                "arn:{}:eks:{}:{}:{kind}/{}{rest}",
                settings.partition, settings.region, settings.account, settings.cluster
            )
        };
        // The addresses of the cluster's pods are read from EKS, after these rights are given, unless settings name them.
        let ipv6 = settings.ip_family.is_none_or(|family| family == IpFamily::V6);
        let ipv6: Vec<String> = ipv6.then(|| node::cni_ipv6_policy(settings)).into_iter().collect();
        let role = |name: &String| settings.iam_arn(&format!("role{}{name}", settings.iam_path));
        Self {
            roles: desired.roles.iter().map(|wanted| role(&wanted.name)).collect(),
            attached: desired
                .roles
                .iter()
                .flat_map(|role| role.attached.clone())
                .chain(ipv6.clone())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            policies: desired.policies.iter().map(|policy| policy.arn.clone()).collect(),
            ipv6,
            profile: settings
                .iam_arn(&format!("instance-profile{}{}", settings.iam_path, desired.instance_profile.name)),
            queue: desired.queue.arn.clone(),
            rules: desired.rules.iter().map(|rule| settings.rule_arn(&rule.name)).collect(),
            cluster: settings.cluster_arn(),
            entries: eks("access-entry", "/*"),
            associations: eks("podidentityassociation", "/*"),
            spot_role: spot_role(settings),
        }
    }

    fn look(&self, settings: &Settings) -> Vec<Statement> {
        let mut roles = self.roles.clone();
        roles.push(self.spot_role.clone());
        roles.extend(settings.existing_node_role.clone());
        let provider: Vec<String> = settings.oidc_provider_arn().into_iter().collect();
        let addons = self.cluster.replacen(":cluster/", ":addon/", 1) + "/*";
        vec![
            Statement::allow(
                "LookAtRoles",
                &["iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies", "iam:ListRolePolicies"],
                roles,
            ),
            // Policies written by AWS are no secret, and the controller's role may have them.
            Statement::allow(
                "LookAtPoliciesOfAws",
                &["iam:GetPolicy", "iam:GetPolicyVersion"],
                vec![format!("arn:{}:iam::aws:policy/*", settings.partition)],
            ),
            Statement::allow("LookAtPolicyOfIpv6", &["iam:GetPolicy"], self.ipv6.clone()),
            Statement::allow(
                "LookAtPolicies",
                &["iam:GetPolicy", "iam:GetPolicyVersion", "iam:ListPolicyVersions"],
                self.policies.clone(),
            ),
            Statement::allow("LookAtProfile", &["iam:GetInstanceProfile"], vec![self.profile.clone()]),
            Statement::allow("LookAtIdentityProvider", &["iam:GetOpenIDConnectProvider"], provider),
            Statement::allow(
                "LookAtQueue",
                &["sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ListQueueTags"],
                vec![self.queue.clone()],
            ),
            Statement::allow(
                "LookAtRules",
                &["events:DescribeRule", "events:ListTagsForResource", "events:ListTargetsByRule"],
                self.rules.clone(),
            ),
            Statement::allow("LookForRules", &["events:ListRuleNamesByTarget"], vec!["*".to_owned()]),
            Statement::allow(
                "LookAtCluster",
                &["eks:DescribeAddon", "eks:DescribeCluster", "eks:ListPodIdentityAssociations"],
                vec![self.cluster.clone(), addons],
            ),
            Statement::allow(
                "LookAtMembers",
                &["eks:DescribeAccessEntry", "eks:DescribePodIdentityAssociation"],
                vec![self.cluster.clone(), self.entries.clone(), self.associations.clone()],
            ),
            Statement::allow(
                "LookAtNetwork",
                &["ec2:DescribeRouteTables", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets"],
                vec!["*".to_owned()],
            ),
        ]
    }

    fn apply(&self, settings: &Settings) -> Vec<Statement> {
        // EKS hands the controller's role to its service account, EC2 gets the node role through the profile.
        let mut passed = self.roles.clone();
        passed.extend(settings.existing_node_role.clone());
        vec![
            Statement::allow(
                "MakeRoles",
                &["iam:DetachRolePolicy", "iam:TagRole", "iam:UpdateAssumeRolePolicy"],
                self.roles.clone(),
            ),
            bounded(settings, Statement::allow("CreateRoles", &["iam:CreateRole"], self.roles.clone())),
            bounded(
                settings,
                Statement::allow("AttachPolicies", &["iam:AttachRolePolicy"], self.roles.clone()).when(
                    "ArnEquals",
                    "iam:PolicyARN",
                    self.attached.clone(),
                ),
            ),
            self.boundary(settings),
            Statement::allow(
                "MakePolicies",
                &[
                    "iam:CreatePolicy",
                    "iam:CreatePolicyVersion",
                    "iam:DeletePolicy",
                    "iam:DeletePolicyVersion",
                    "iam:TagPolicy",
                ],
                self.policies.clone(),
            ),
            Statement::allow(
                "MakeProfile",
                &[
                    "iam:AddRoleToInstanceProfile",
                    "iam:CreateInstanceProfile",
                    "iam:RemoveRoleFromInstanceProfile",
                    "iam:TagInstanceProfile",
                ],
                vec![self.profile.clone()],
            ),
            Statement::allow("PassRoles", &["iam:PassRole"], passed).when(
                "StringEquals",
                "iam:PassedToService",
                ["ec2.amazonaws.com", "ec2.amazonaws.com.cn", "pods.eks.amazonaws.com"],
            ),
            Statement::allow("MakeSpotRole", &["iam:CreateServiceLinkedRole"], vec![self.spot_role.clone()])
                .when("StringEquals", "iam:AWSServiceName", ["spot.amazonaws.com"]),
            Statement::allow(
                "MakeQueue",
                &["sqs:CreateQueue", "sqs:SetQueueAttributes", "sqs:TagQueue"],
                vec![self.queue.clone()],
            ),
            Statement::allow(
                "MakeRules",
                &["events:PutRule", "events:PutTargets", "events:TagResource"],
                self.rules.clone(),
            ),
            Statement::allow(
                "MakeMembers",
                &[
                    "eks:CreateAccessEntry",
                    "eks:CreatePodIdentityAssociation",
                    "eks:DeleteAccessEntry",
                    "eks:TagResource",
                    "eks:UpdatePodIdentityAssociation",
                ],
                vec![self.cluster.clone(), self.entries.clone(), self.associations.clone()],
            ),
            discovery("MakeDiscoveryTags", "ec2:CreateTags", settings),
        ]
    }

    fn destroy(&self, settings: &Settings) -> Vec<Statement> {
        vec![
            Statement::allow(
                "DeleteRoles",
                &["iam:DeleteRole", "iam:DeleteRolePolicy", "iam:DetachRolePolicy"],
                self.roles.clone(),
            ),
            Statement::allow(
                "DeletePolicies",
                &["iam:DeletePolicy", "iam:DeletePolicyVersion"],
                self.policies.clone(),
            ),
            Statement::allow(
                "DeleteProfile",
                &["iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"],
                vec![
                    self.profile.clone(),
                    settings.iam_arn(&format!("instance-profile{}*", profile_path(settings))),
                ],
            ),
            Statement::allow(
                "DeleteLaunchTemplates",
                &["ec2:DeleteLaunchTemplate"],
                vec![format!(
                    "arn:{}:ec2:{}:{}:launch-template/*",
                    settings.partition, settings.region, settings.account
                )],
            )
            .when(
                "StringEquals",
                &format!("aws:ResourceTag/{CLUSTER_TAG}"),
                [settings.cluster.as_str()],
            ),
            Statement::allow("DeleteQueue", &["sqs:DeleteQueue"], vec![self.queue.clone()]),
            Statement::allow(
                "DeleteRules",
                &["events:DeleteRule", "events:RemoveTargets"],
                self.rules.clone(),
            ),
            Statement::allow(
                "DeleteMembers",
                &["eks:DeleteAccessEntry", "eks:DeletePodIdentityAssociation"],
                vec![self.cluster.clone(), self.entries.clone(), self.associations.clone()],
            ),
            discovery("DeleteDiscoveryTags", "ec2:DeleteTags", settings),
        ]
    }
}

impl Scope {
    /// Returns rights to look for what the controller may have left behind, and for other holders of our roles.
    fn look_for_leftovers(&self) -> Vec<Statement> {
        vec![
            Statement::allow(
                "LookForLeftovers",
                &["ec2:DescribeInstances", "ec2:DescribeLaunchTemplates", "iam:ListInstanceProfiles"],
                vec!["*".to_owned()],
            ),
            Statement::allow("LookAtHolders", &["iam:ListInstanceProfilesForRole"], self.roles.clone()),
        ]
    }

    /// Sets the boundary that settings name, and no other; takes one off only if that is asked for. No statement, which
    /// one without resources is, when neither is.
    fn boundary(&self, settings: &Settings) -> Statement {
        if settings.permissions_boundary.is_some() {
            let put =
                Statement::allow("SetBoundary", &["iam:PutRolePermissionsBoundary"], self.roles.clone());
            return bounded(settings, put);
        }
        let asked = settings.take_off.contains(&Removable::PermissionsBoundary);
        let roles = if asked { self.roles.clone() } else { Vec::new() };
        Statement::allow("TakeOffBoundary", &["iam:DeleteRolePermissionsBoundary"], roles)
    }

    /// Returns rights for the calls of `CloudFormation`'s handlers that `statements` do not grant. Those have the conditions
    /// under which a call is granted, which is why nothing is granted twice.
    fn handlers(&self, action: Action, statements: &[Statement]) -> Vec<Statement> {
        let mut missing: BTreeMap<Subject, BTreeSet<&str>> = BTreeMap::new();
        for (call, subject) in handlers::ALL.iter().flat_map(|row| row.calls(action)) {
            let is_granted = |resource: &String| {
                statements.iter().any(|statement| {
                    statement.actions.iter().any(|action| action == call)
                        && statement.resources.contains(resource)
                })
            };
            if !self.resources(subject).iter().all(is_granted) {
                missing.entry(subject).or_default().insert(call);
            }
        }
        let statement = |(subject, calls): (Subject, BTreeSet<&str>)| {
            let calls: Vec<&str> = calls.into_iter().collect();
            Statement::allow(&format!("LetStackHandle{subject:?}"), &calls, self.resources(subject))
        };
        missing.into_iter().map(statement).collect()
    }

    fn resources(&self, subject: Subject) -> Vec<String> {
        match subject {
            Subject::AccessEntries => vec![self.cluster.clone(), self.entries.clone()],
            Subject::Associations => vec![self.cluster.clone(), self.associations.clone()],
            Subject::Policies => self.policies.clone(),
            Subject::Profile => vec![self.profile.clone()],
            Subject::Queue => vec![self.queue.clone()],
            Subject::Roles => self.roles.clone(),
            Subject::Rules => self.rules.clone(),
            Subject::SpotRole => vec![self.spot_role.clone()],
        }
    }
}

fn spot_role(settings: &Settings) -> String {
    settings.iam_arn(&format!("role/aws-service-role/spot.amazonaws.com/{SPOT_ROLE}"))
}

/// Limits a statement to roles that have the boundary which settings name.
fn bounded(settings: &Settings, statement: Statement) -> Statement {
    match &settings.permissions_boundary {
        Some(boundary) => statement.when("StringEquals", "iam:PermissionsBoundary", [boundary.as_str()]),
        None => statement,
    }
}

/// Our two tags, and no others, on subnets and security groups. `ForAllValues` also holds of a request that names no key,
/// and a deletion of tags without keys takes off all of them: hence the second condition.
fn discovery(sid: &str, action: &str, settings: &Settings) -> Statement {
    Statement::allow(sid, &[action], network(settings))
        .when("ForAllValues:StringEquals", "aws:TagKeys", [DISCOVERY_TAG, OWNER_TAG])
        .when("Null", "aws:TagKeys", ["false"])
}

/// Subnets may belong to another account that shares its VPC.
fn network(settings: &Settings) -> Vec<String> {
    let arn = |kind: &str| format!("arn:{}:ec2:{}:*:{kind}/*", settings.partition, settings.region);
    vec![arn("security-group"), arn("subnet")]
}
