//! Calls forbidden to the controller and to an attacker who has taken it over. Each row has a name.

use karpenter_iam::{Decision, Request};

use super::{Account, EKS_CLUSTER, NODE_CLASS, POOL, REGION_LABEL, asked, existing};

type Row = (&'static str, Request);

#[test]
fn foreign_machines_and_templates_are_out_of_reach() {
    refused(|account| {
        let instance = account.ec2("instance", "i-1");
        let template = account.ec2("launch-template", "lt-1");
        let owner = existing(&account.owner_key());
        let elsewhere = instance.replace(&account.settings.region, "ap-south-1");
        let mut rows = Vec::new();
        for (action, resource) in [
            ("ec2:TerminateInstances", &instance),
            ("ec2:RebootInstances", &instance),
            ("ec2:DeleteLaunchTemplate", &template),
            ("ec2:RunInstances", &template),
            ("ec2:CreateFleet", &template),
        ] {
            let own = account.on_own(action, resource);
            rows.extend([
                ("without any tag", account.at(action, resource)),
                ("of a node group of the same cluster", own.clone().without(&existing(POOL))),
                ("shared with the cluster, not owned by it", own.clone().with(&owner, "shared")),
                (
                    "of another cluster",
                    own.without(&owner).with(&existing("kubernetes.io/cluster/other"), "owned"),
                ),
            ]);
        }
        rows.push((
            "an own instance, in another region",
            account.on_own("ec2:TerminateInstances", &elsewhere),
        ));
        rows
    });
}

#[test]
fn nothing_is_made_without_the_tags_of_the_cluster() {
    refused(|account| {
        let mut rows = Vec::new();
        for (action, kinds) in [
            ("ec2:RunInstances", &["instance", "volume", "network-interface", "spot-instances-request"][..]),
            ("ec2:CreateFleet", &["fleet", "instance", "volume"]),
            ("ec2:CreateLaunchTemplate", &["launch-template"]),
        ] {
            for kind in kinds {
                let made = account.making(action, kind);
                rows.extend([
                    ("no tag at all", account.at(action, &account.ec2(kind, "*"))),
                    ("no owner", made.clone().without(&asked(&account.owner_key()))),
                    ("no pool", made.clone().without(&asked(POOL))),
                    ("no cluster", made.clone().without(&asked(EKS_CLUSTER))),
                    ("the name of another cluster", made.with(&asked(EKS_CLUSTER), "other")),
                ]);
            }
        }
        rows
    });
}

/// Spec aws-operations 1.2, threat model: a caller that may tag can make the controller adopt or end an
/// instance.
#[test]
fn tags_are_given_on_creation_or_to_own_instances_and_only_three_of_them() {
    refused(|account| {
        let instance = account.ec2("instance", "i-1");
        let keys = |request: Request, keys: &[&str]| {
            request.with_all("aws:TagKeys", keys.iter().map(ToString::to_string))
        };
        let naming =
            |kind: &str| keys(account.on_own("ec2:CreateTags", &account.ec2(kind, "x-1")), &["Name"]);
        let own = account.on_own("ec2:CreateTags", &instance);
        let untagged = account.at("ec2:CreateTags", &instance);
        vec![
            ("name a foreign instance", keys(untagged.clone(), &["Name"])),
            ("make a foreign instance one's own", account.making("ec2:CreateTags", "instance")),
            ("the same with the instance's id", {
                let adopt = keys(untagged, &[POOL, EKS_CLUSTER]).with(&asked(&account.owner_key()), "owned");
                adopt.with(&asked(POOL), "default").with(&asked(EKS_CLUSTER), &account.settings.cluster)
            }),
            ("another creation's tags", {
                account.making("ec2:CreateTags", "instance").with("ec2:CreateAction", "CreateVolume")
            }),
            ("creation without the owner", {
                let made =
                    account.making("ec2:CreateTags", "instance").with("ec2:CreateAction", "RunInstances");
                made.without(&asked(&account.owner_key()))
            }),
            ("move an own instance to another pool", keys(own.clone(), &[POOL])),
            ("one key too many", keys(own.clone(), &["Name", "team"])),
            ("give an own instance to another cluster", {
                keys(own, &[EKS_CLUSTER]).with(&asked(EKS_CLUSTER), "other")
            }),
            ("tag a volume afterwards", naming("volume")),
            ("tag a subnet", naming("subnet")),
            ("tag a security group", naming("security-group")),
            ("tag an image", naming("image")),
            ("take tags off", account.on_own("ec2:DeleteTags", &instance)),
        ]
    });
}

#[test]
fn no_other_role_is_handed_on() {
    refused(|account| {
        let pass = |role: &str, service: &str| {
            Request::new("iam:PassRole", role).with("iam:PassedToService", service)
        };
        let node = account.settings.node_role_arn();
        vec![
            ("a powerful role, to an instance", pass(&account.role("admin"), "ec2.amazonaws.com")),
            (
                "its own role, to an instance",
                pass(&account.settings.controller_role_arn(), "ec2.amazonaws.com"),
            ),
            (
                "a role whose name begins like the node role's",
                pass(&format!("{node}-admin"), "ec2.amazonaws.com"),
            ),
            (
                "a role of that name under another path",
                pass(&node.replace("role/", "role/x/"), "ec2.amazonaws.com"),
            ),
            (
                "the node role of another account",
                pass(&node.replace(super::ACCOUNT, "210987654321"), "ec2.amazonaws.com"),
            ),
            ("the node role, to a function", pass(&node, "lambda.amazonaws.com")),
            ("the node role, to a task", pass(&node, "ecs-tasks.amazonaws.com")),
            ("the node role, to a pod", pass(&node, "pods.eks.amazonaws.com")),
            ("the node role, to no service in particular", Request::new("iam:PassRole", &node)),
        ]
    });
}

/// Spec aws-operations 1.10: profiles carry cluster, region and class, or they belong to another owner.
#[test]
fn foreign_profiles_are_neither_made_nor_touched() {
    refused(|account| {
        let made = account.making_profile("iam:CreateInstanceProfile");
        let mut rows = vec![
            ("make one without tags", account.at("iam:CreateInstanceProfile", &account.profile())),
            ("make one without an owner", made.clone().without(&asked(&account.owner_key()))),
            ("make one for another cluster", made.clone().with(&asked(EKS_CLUSTER), "other")),
            ("make one for another region", made.clone().with(&asked(REGION_LABEL), "ap-south-1")),
            ("make one for no class", made.without(&asked(NODE_CLASS))),
            ("make a foreign one its own", account.making_profile("iam:TagInstanceProfile")),
            ("give its own away", {
                let own = super::as_owned_profile(account, account.making_profile("iam:TagInstanceProfile"));
                own.with(&asked(EKS_CLUSTER), "other")
            }),
            ("take tags off", account.on_own_profile("iam:UntagInstanceProfile")),
        ];
        for action in
            ["iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"]
        {
            let own = account.on_own_profile(action);
            rows.extend([
                ("one without tags", account.at(action, &account.profile())),
                ("one of another region", own.clone().with(&existing(REGION_LABEL), "ap-south-1")),
                ("one without a class", own.clone().without(&existing(NODE_CLASS))),
                ("one of another cluster", own.without(&existing(&account.owner_key()))),
            ]);
        }
        rows
    });
}

/// The ways up that are known of IAM and EC2: none is granted, not even on the cluster's own resources.
#[test]
fn no_way_leads_to_more_rights() {
    refused(|account| {
        let role = account.settings.controller_role_arn();
        let policy = account.settings.iam_arn("policy/KarpenterIntegration-prod");
        let mut rows: Vec<Row> = [
            "iam:AttachRolePolicy",
            "iam:CreateAccessKey",
            "iam:CreateRole",
            "iam:DeleteRolePermissionsBoundary",
            "iam:PutRolePermissionsBoundary",
            "iam:PutRolePolicy",
            "iam:UpdateAssumeRolePolicy",
            "sts:AssumeRole",
        ]
        .map(|action| ("on its own role", account.at(action, &role)))
        .into();
        rows.extend(
            ["iam:CreatePolicyVersion", "iam:SetDefaultPolicyVersion", "iam:DeletePolicyVersion"]
                .map(|action| ("on its own policy", account.at(action, &policy))),
        );
        rows.extend(
            [
                "ec2:AssociateIamInstanceProfile",
                "ec2:CreateLaunchTemplateVersion",
                "ec2:ModifyInstanceAttribute",
                "ec2:ModifyInstanceMetadataOptions",
                "ec2:ModifyLaunchTemplate",
                "ec2:ReplaceIamInstanceProfileAssociation",
                "ec2:SendDiagnosticInterrupt",
                "ec2:StopInstances",
                "ec2-instance-connect:SendSSHPublicKey",
                "ssm:SendCommand",
                "ssm:StartSession",
            ]
            .map(|action| ("on its own instance", account.on_own(action, &account.ec2("instance", "i-1")))),
        );
        rows.extend(
            [
                "eks:AssociateAccessPolicy",
                "eks:CreateAccessEntry",
                "eks:CreatePodIdentityAssociation",
                "eks:UpdateClusterConfig",
            ]
            .map(|action| ("on its own cluster", account.at(action, &account.settings.cluster_arn()))),
        );
        rows.extend(
            [
                "ec2:AuthorizeSecurityGroupIngress",
                "ec2:DeleteSecurityGroup",
                "ec2:ModifySubnetAttribute",
                "ec2:CreateKeyPair",
            ]
            .map(|action| ("on the network", account.on_own(action, &account.ec2("security-group", "sg-1")))),
        );
        let spot = account.role("aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot");
        rows.push(("make the spot role", account.at("iam:CreateServiceLinkedRole", &spot)));
        rows
    });
}

#[test]
fn secrets_and_foreign_data_are_not_read() {
    refused(|account| {
        let settings = &account.settings;
        let arn = |service: &str, rest: &str| {
            format!("arn:{}:{service}:{}:{}:{rest}", settings.partition, settings.region, settings.account)
        };
        let own = |name: &str| arn("ssm", &format!("parameter/{name}"));
        let public = format!("arn:{}:ssm:{}::parameter/aws", settings.partition, settings.region);
        vec![
            ("a parameter of the account", account.at("ssm:GetParameter", &own("database/password"))),
            ("a parameter that looks public", account.at("ssm:GetParameter", &own("aws/service/x"))),
            (
                "a public parameter that is no image",
                account.at("ssm:GetParameter", &format!("{public}/reference/x")),
            ),
            ("many parameters", account.at("ssm:GetParameters", &own("a"))),
            ("a tree of parameters", account.at("ssm:GetParametersByPath", &own("a"))),
            ("a secret", account.at("secretsmanager:GetSecretValue", &arn("secretsmanager", "secret:a"))),
            ("a foreign key", account.at("kms:Decrypt", &arn("kms", "key/2"))),
            ("a foreign bucket", account.at("s3:GetObject", &format!("arn:{}:s3:::a/b", settings.partition))),
            (
                "the console of an own instance",
                account.on_own("ec2:GetConsoleOutput", &account.ec2("instance", "i-1")),
            ),
            ("user data", account.on_own("ec2:DescribeInstanceAttribute", &account.ec2("instance", "i-1"))),
            ("data of templates", account.on_own("ec2:DescribeLaunchTemplateVersions", "*")),
            ("instances of another region", {
                Request::new("ec2:DescribeInstances", "*").with("aws:RequestedRegion", "ap-south-1")
            }),
            ("instances of no region", Request::new("ec2:DescribeInstances", "*")),
            ("another cluster", account.at("eks:DescribeCluster", &arn("eks", "cluster/other"))),
            ("the messages of another cluster", account.at("sqs:ReceiveMessage", &arn("sqs", "other"))),
            ("roles", account.at("iam:GetRole", &settings.controller_role_arn())),
        ]
    });
}

#[test]
fn the_queue_and_the_shift_stay_as_they_are() {
    refused(|account| {
        let cluster = account.settings.cluster_arn();
        let other = format!("{cluster}-2");
        let shift =
            |action: &str, of: &str| Request::new(action, of).with("arc-zonal-shift:ResourceIdentifier", of);
        let mut rows: Vec<Row> =
            ["AddPermission", "DeleteQueue", "PurgeQueue", "SendMessage", "SetQueueAttributes"]
                .map(|action| {
                    ("its own queue", account.at(&format!("sqs:{action}"), &account.settings.queue_arn()))
                })
                .into();
        rows.extend([
            ("shift traffic", shift("arc-zonal-shift:StartZonalShift", &cluster)),
            ("look at the shift of another cluster", shift("arc-zonal-shift:GetManagedResource", &other)),
            (
                "turn rules off",
                account
                    .at("events:DisableRule", &account.settings.rule_arn("Karpenter-prod-SpotInterruption")),
            ),
        ]);
        rows
    });
}

/// Every row is denied in every kind of account.
fn refused(rows: impl Fn(&Account) -> Vec<Row>) {
    for account in Account::kinds() {
        for (name, request) in rows(&account) {
            if let Decision::Allowed(by) = account.policies.decide(&request) {
                panic!(
                    "{}: {name}: {} on {} is allowed by {by:?}",
                    account.name, request.action, request.resource
                );
            }
        }
    }
}
