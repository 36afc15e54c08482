//! Permissions of the controller in the account: least privilege, statement by statement.
//!
//! Source: spec aws-operations 1.2 (the statements and their sids) and spec aws-provider 2.5 (the calls really
//! made). A test compares the actions granted here with the calls the AWS client can make.

use karpenter_model::names::{label, tag};

use super::Statement;
use crate::settings::Settings;

/// The controller's two policies: what each is called and what it grants.
///
/// Two, because one does not hold the longest cluster names, which stand in condition keys, and every further
/// one uses up the role's quota of ten (spec aws-operations 1.14, P-2 and P-3).
pub fn policies(settings: &Settings) -> [(&'static str, Vec<Statement>); 2] {
    let mut integration = iam_integration(settings);
    integration.extend(resource_discovery(settings));
    integration.push(eks_integration(settings));
    integration.push(interruption(settings));
    if settings.zonal_shift {
        integration.push(zonal_shift(settings));
    }
    if let Some(key) = &settings.queue_kms_key {
        integration.push(queue_key(key));
    }
    [("KarpenterNodeLifecycle-", node_lifecycle(settings)), ("KarpenterIntegration-", integration)]
}

/// Every statement of the controller's policies.
pub fn statements(settings: &Settings) -> Vec<Statement> {
    policies(settings).into_iter().flat_map(|(_, statements)| statements).collect()
}

/// Launching, tagging and terminating instances, always scoped by the cluster's tags.
fn node_lifecycle(settings: &Settings) -> Vec<Statement> {
    let arns = |kinds: &[&str]| -> Vec<String> { kinds.iter().map(|kind| ec2_arn(settings, kind)).collect() };
    let created = arns(&[
        "fleet",
        "instance",
        "volume",
        "network-interface",
        "launch-template",
        "spot-instances-request",
    ]);
    let launch = ["ec2:RunInstances", "ec2:CreateFleet"];
    vec![
        Statement::allow(
            "AllowScopedEC2InstanceAccessActions",
            &launch,
            arns(&[
                "image",
                "snapshot",
                "security-group",
                "subnet",
                "capacity-reservation",
                "placement-group",
            ]),
        ),
        owned(
            settings,
            Statement::allow(
                "AllowScopedEC2LaunchTemplateAccessActions",
                &launch,
                arns(&["launch-template"]),
            ),
        ),
        requested(
            settings,
            Statement::allow(
                "AllowScopedEC2InstanceActionsWithTags",
                &["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
                created.clone(),
            ),
        ),
        requested(
            settings,
            Statement::allow("AllowScopedResourceCreationTagging", &["ec2:CreateTags"], created),
        )
        .when(
            "StringEquals",
            "ec2:CreateAction",
            ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
        ),
        owned(
            settings,
            Statement::allow("AllowScopedResourceTagging", &["ec2:CreateTags"], arns(&["instance"])),
        )
        .when("StringEqualsIfExists", &request_tag(tag::CLUSTER_NAME), [settings.cluster.as_str()])
        .when(
            "ForAllValues:StringEquals",
            "aws:TagKeys",
            [tag::CLUSTER_NAME, tag::NODE_CLAIM, "Name"],
        ),
        owned(
            settings,
            Statement::allow(
                "AllowScopedDeletion",
                &["ec2:TerminateInstances", "ec2:RebootInstances", "ec2:DeleteLaunchTemplate"],
                arns(&["instance", "launch-template"]),
            ),
        ),
    ]
}

/// Handing the node role to EC2 and looking after instance profiles. China passes the role under either
/// spelling of EC2's name, depending on the API, so both are always listed (spec aws-operations 1.14, P-6).
fn iam_integration(settings: &Settings) -> Vec<Statement> {
    let profiles = || vec![settings.iam_arn("instance-profile/*")];
    let cluster = settings.cluster.as_str();
    let region = settings.region.as_str();
    let mut passable = vec![settings.node_role_arn()];
    if settings.windows {
        passable.push(settings.windows_node_role_arn());
    }
    passable.extend(settings.extra_node_roles.iter().map(|role| role.arn.clone()));
    let on_existing = |statement: Statement| {
        statement
            .when("StringEquals", &resource_tag(&settings.cluster_tag_key()), ["owned"])
            .when("StringEquals", &resource_tag(label::REGION), [region])
            .when("StringLike", &resource_tag(label::aws::EC2_NODE_CLASS), ["*"])
    };
    let on_request = |statement: Statement| {
        statement
            .when("StringEquals", &request_tag(&settings.cluster_tag_key()), ["owned"])
            .when("StringEquals", &request_tag(tag::CLUSTER_NAME), [cluster])
            .when("StringEquals", &request_tag(label::REGION), [region])
            .when("StringLike", &request_tag(label::aws::EC2_NODE_CLASS), ["*"])
    };
    vec![
        Statement::allow("AllowPassingInstanceRole", &["iam:PassRole"], passable).when(
            "StringEquals",
            "iam:PassedToService",
            ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"],
        ),
        on_request(Statement::allow(
            "AllowScopedInstanceProfileCreationActions",
            &["iam:CreateInstanceProfile"],
            profiles(),
        )),
        on_request(on_existing(Statement::allow(
            "AllowScopedInstanceProfileTagActions",
            &["iam:TagInstanceProfile"],
            profiles(),
        ))),
        on_existing(Statement::allow(
            "AllowScopedInstanceProfileActions",
            &[
                "iam:AddRoleToInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:DeleteInstanceProfile",
            ],
            profiles(),
        )),
    ]
}

/// Read-only look-ups.
fn resource_discovery(settings: &Settings) -> Vec<Statement> {
    let everything = || vec!["*".to_owned()];
    let mut parameters =
        vec![format!("arn:{}:ssm:{}::parameter/aws/service/*", settings.partition, settings.region)];
    parameters.extend(settings.extra_ssm_parameters.iter().cloned());
    vec![
        Statement::allow(
            "AllowRegionalReadActions",
            &[
                "ec2:DescribeCapacityReservations",
                "ec2:DescribeImages",
                "ec2:DescribeInstances",
                "ec2:DescribeInstanceStatus",
                "ec2:DescribeInstanceTypeOfferings",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplates",
                "ec2:DescribePlacementGroups",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSpotPriceHistory",
                "ec2:DescribeSubnets",
            ],
            everything(),
        )
        .when("StringEquals", "aws:RequestedRegion", [settings.region.as_str()]),
        Statement::allow("AllowSSMReadActions", &["ssm:GetParameter"], parameters),
        Statement::allow("AllowPricingReadActions", &["pricing:GetProducts"], everything()),
        Statement::allow(
            "AllowUnscopedInstanceProfileListAction",
            &["iam:ListInstanceProfiles"],
            everything(),
        ),
        Statement::allow(
            "AllowInstanceProfileReadActions",
            &["iam:GetInstanceProfile"],
            vec![settings.iam_arn("instance-profile/*")],
        ),
    ]
}

fn eks_integration(settings: &Settings) -> Statement {
    Statement::allow(
        "AllowAPIServerEndpointDiscovery",
        &["eks:DescribeCluster"],
        vec![settings.cluster_arn()],
    )
}

fn interruption(settings: &Settings) -> Statement {
    Statement::allow(
        "AllowInterruptionQueueActions",
        &["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
        vec![settings.queue_arn()],
    )
}

/// Allows use of the key of the queue; needed only when that is a customer managed key.
pub(crate) fn queue_key(key: &str) -> Statement {
    Statement::allow("AllowQueueKeyUse", &["kms:Decrypt"], vec![key.to_owned()])
}

/// Allows to ask about zonal shifts; needed only when zonal shift is on.
pub(crate) fn zonal_shift(settings: &Settings) -> Statement {
    Statement::allow(
        "AllowZonalShiftStatusReadOnly",
        &["arc-zonal-shift:GetManagedResource"],
        vec!["*".to_owned()],
    )
    .when("StringEquals", "arc-zonal-shift:ResourceIdentifier", [settings.cluster_arn()])
}

/// Narrows a statement to resources that already carry the cluster's tags.
fn owned(settings: &Settings, statement: Statement) -> Statement {
    statement.when("StringEquals", &resource_tag(&settings.cluster_tag_key()), ["owned"]).when(
        "StringLike",
        &resource_tag(label::NODE_POOL),
        ["*"],
    )
}

/// Narrows a statement to requests that put the cluster's tags on what they create.
fn requested(settings: &Settings, statement: Statement) -> Statement {
    statement
        .when("StringEquals", &request_tag(&settings.cluster_tag_key()), ["owned"])
        .when("StringEquals", &request_tag(tag::CLUSTER_NAME), [settings.cluster.as_str()])
        .when("StringLike", &request_tag(label::NODE_POOL), ["*"])
}

fn request_tag(key: &str) -> String {
    format!("aws:RequestTag/{key}")
}

fn resource_tag(key: &str) -> String {
    format!("aws:ResourceTag/{key}")
}

/// Images and snapshots belong to no account in IAM's eyes; everything else is matched in any account,
/// because a reservation or a subnet may be shared by another one.
fn ec2_arn(settings: &Settings, kind: &str) -> String {
    let account = if matches!(kind, "image" | "snapshot") { "" } else { "*" };
    format!("arn:{}:ec2:{}:{account}:{kind}/*", settings.partition, settings.region)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::policy::Document;
    use crate::policy::split::MANAGED_POLICY_MAX;
    use crate::settings::tests::{settings, settings_for_cluster};

    /// Spec aws-operations 1.2, "API calls the controller can make", less the harness-only ones.
    const CALLS: &[&str] = &[
        "arc-zonal-shift:GetManagedResource",
        "ec2:CreateFleet",
        "ec2:CreateLaunchTemplate",
        "ec2:CreateTags",
        "ec2:DeleteLaunchTemplate",
        "ec2:DescribeCapacityReservations",
        "ec2:DescribeImages",
        "ec2:DescribeInstanceStatus",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeInstances",
        "ec2:DescribeLaunchTemplates",
        "ec2:DescribePlacementGroups",
        "ec2:DescribeSecurityGroups",
        "ec2:DescribeSpotPriceHistory",
        "ec2:DescribeSubnets",
        // Granted ahead of its use, so that opening the gate RebootForRepair needs no other policy.
        "ec2:RebootInstances",
        "ec2:RunInstances",
        "ec2:TerminateInstances",
        "eks:DescribeCluster",
        "iam:AddRoleToInstanceProfile",
        "iam:CreateInstanceProfile",
        "iam:DeleteInstanceProfile",
        "iam:GetInstanceProfile",
        "iam:ListInstanceProfiles",
        "iam:PassRole",
        "iam:RemoveRoleFromInstanceProfile",
        "iam:TagInstanceProfile",
        "pricing:GetProducts",
        "sqs:DeleteMessage",
        "sqs:GetQueueUrl",
        "sqs:ReceiveMessage",
        "ssm:GetParameter",
    ];

    #[test]
    fn grants_exactly_the_calls_the_controller_makes() {
        let mut with_shift = settings();
        with_shift.zonal_shift = true;
        let granted: BTreeSet<_> = statements(&with_shift).into_iter().flat_map(|s| s.actions).collect();
        let needed: BTreeSet<_> = CALLS.iter().map(|call| (*call).to_owned()).collect();
        assert_eq!(granted, needed);
    }

    #[test]
    fn every_sid_is_unique() {
        let all = statements(&settings());
        let sids: BTreeSet<_> = all.iter().map(|statement| &statement.sid).collect();
        assert_eq!(sids.len(), all.len());
    }

    #[test]
    fn no_write_is_granted_without_a_tag_condition() {
        let launch_on_shared_inputs = "AllowScopedEC2InstanceAccessActions";
        for statement in statements(&settings()) {
            let writes = statement.actions.iter().any(|action| {
                let (service, verb) = action.split_once(':').unwrap();
                matches!(service, "ec2" | "iam")
                    && !["Describe", "Get", "List", "PassRole"].iter().any(|read| verb.starts_with(read))
            });
            if writes && statement.sid != launch_on_shared_inputs {
                let keys: Vec<_> = statement.conditions.values().flat_map(|keys| keys.keys()).collect();
                assert!(
                    keys.iter().any(|key| key.contains("Tag/kubernetes.io/cluster/")),
                    "{}",
                    statement.sid
                );
            }
        }
    }

    #[test]
    fn the_two_policies_hold_the_longest_cluster_name_with_every_option() {
        let mut longest = settings_for_cluster(&"c".repeat(100));
        longest.region = "ap-southeast-99".to_owned();
        longest.iam_path = "/platform/karpenter/".to_owned();
        longest.zonal_shift = true;
        longest.windows = true;
        longest.queue_kms_key =
            Some(format!("arn:aws:kms:{}:123456789012:key/{}", longest.region, "k".repeat(36)));
        for (name, statements) in policies(&longest) {
            let size = Document::of(statements).measured_size();
            assert!(size <= MANAGED_POLICY_MAX, "{name} has {size} characters");
        }
    }

    #[test]
    fn china_passes_the_role_to_both_spellings_of_ec2() {
        let mut china = settings();
        china.partition = "aws-cn".to_owned();
        let pass = statements(&china).into_iter().find(|s| s.sid == "AllowPassingInstanceRole").unwrap();
        assert_eq!(
            pass.conditions["StringEquals"]["iam:PassedToService"],
            ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]
        );
    }
}
