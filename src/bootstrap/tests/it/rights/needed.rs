//! Permissions that the controller needs, with the tags it really sends; and a boundary that forbids one is blamed.

use std::collections::BTreeSet;

use karpenter_iam::{Decision, Denial, Policies, Policy, Request};

use super::{Account, EKS_CLUSTER, asked};

const USED: [&str; 6] =
    ["image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group"];
const MADE: [&str; 4] = ["instance", "volume", "network-interface", "spot-instances-request"];

/// Every action of spec aws-operations 1.2 on every kind of resource it touches.
fn needed(account: &Account) -> Vec<Request> {
    let mut all = launching(account);
    all.extend(looking_after(account));
    all.extend(reading(account));
    all
}

fn launching(account: &Account) -> Vec<Request> {
    let mut all = vec![
        account.making("ec2:CreateFleet", "fleet"),
        account.making("ec2:CreateLaunchTemplate", "launch-template"),
    ];
    for launch in ["ec2:RunInstances", "ec2:CreateFleet"] {
        all.extend(USED.map(|kind| account.at(launch, &account.ec2(kind, "1"))));
        all.extend(MADE.map(|kind| account.making(launch, kind)));
        all.push(account.on_own(launch, &account.ec2("launch-template", "lt-1")));
    }
    for (creation, kinds) in [
        ("RunInstances", &MADE[..]),
        ("CreateFleet", &["fleet", "instance", "volume"]),
        ("CreateLaunchTemplate", &["launch-template"]),
    ] {
        let tagging = |kind: &&str| account.making("ec2:CreateTags", kind).with("ec2:CreateAction", creation);
        all.extend(kinds.iter().map(tagging));
    }
    for service in ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"] {
        let pass = |role: String| Request::new("iam:PassRole", &role).with("iam:PassedToService", service);
        all.push(pass(account.settings.node_role_arn()));
        if account.settings.windows {
            all.push(pass(account.settings.windows_node_role_arn()));
        }
        all.extend(account.settings.extra_node_roles.iter().map(|role| pass(role.arn.clone())));
    }
    all
}

fn looking_after(account: &Account) -> Vec<Request> {
    let instance = account.ec2("instance", "i-1");
    let naming = |keys: &[&str]| {
        account
            .on_own("ec2:CreateTags", &instance)
            .with_all("aws:TagKeys", keys.iter().map(ToString::to_string))
    };
    vec![
        naming(&["Name"]),
        naming(&["Name", "karpenter.sh/nodeclaim"]),
        naming(&[EKS_CLUSTER]).with(&asked(EKS_CLUSTER), &account.settings.cluster),
        account.on_own("ec2:TerminateInstances", &instance),
        account.on_own("ec2:RebootInstances", &instance),
        account.on_own("ec2:DeleteLaunchTemplate", &account.ec2("launch-template", "lt-1")),
        account.making_profile("iam:CreateInstanceProfile"),
        super::as_owned_profile(account, account.making_profile("iam:TagInstanceProfile")),
        account.on_own_profile("iam:AddRoleToInstanceProfile"),
        account.on_own_profile("iam:RemoveRoleFromInstanceProfile"),
        account.on_own_profile("iam:DeleteInstanceProfile"),
        account.at("iam:GetInstanceProfile", &account.profile()),
        account.at("iam:ListInstanceProfiles", &account.settings.iam_arn("instance-profile/")),
    ]
}

fn reading(account: &Account) -> Vec<Request> {
    let settings = &account.settings;
    let mut all: Vec<Request> = [
        "CapacityReservations",
        "Images",
        "Instances",
        "InstanceStatus",
        "InstanceTypeOfferings",
        "InstanceTypes",
        "LaunchTemplates",
        "PlacementGroups",
        "SecurityGroups",
        "SpotPriceHistory",
        "Subnets",
    ]
    .into_iter()
    .map(|list| account.at(&format!("ec2:Describe{list}"), "*"))
    .collect();
    let image = "aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let parameter = format!("arn:{}:ssm:{}::parameter/{image}", settings.partition, settings.region);
    all.extend([
        account.at("ssm:GetParameter", &parameter),
        account.at("pricing:GetProducts", "*"),
        account.at("eks:DescribeCluster", &settings.cluster_arn()),
        account.at("sqs:GetQueueUrl", &settings.queue_arn()),
        account.at("sqs:ReceiveMessage", &settings.queue_arn()),
        account.at("sqs:DeleteMessage", &settings.queue_arn()),
    ]);
    if settings.zonal_shift {
        let shift = Request::new("arc-zonal-shift:GetManagedResource", &settings.cluster_arn());
        all.push(shift.with("arc-zonal-shift:ResourceIdentifier", &settings.cluster_arn()));
    }
    if let Some(key) = &settings.queue_kms_key {
        all.push(account.at("kms:Decrypt", key));
    }
    all.extend(
        settings
            .extra_ssm_parameters
            .iter()
            .map(|arn| account.at("ssm:GetParameter", &arn.replace('*', "gpu"))),
    );
    all
}

#[test]
fn everything_the_controller_does_is_allowed() {
    for account in Account::kinds() {
        for request in needed(&account) {
            if let Decision::Denied(denial) = account.policies.decide(&request) {
                panic!("{}: {} on {}: {denial}", account.name, request.action, request.resource);
            }
        }
    }
}

/// The other direction: no statement, action or resource is there for nothing.
#[test]
fn everything_that_is_allowed_is_needed() {
    for account in Account::kinds() {
        let requests = needed(&account);
        let used: BTreeSet<_> = account
            .policies
            .attached
            .iter()
            .flat_map(|policy| requests.iter().flat_map(|request| policy.used_by(request)))
            .collect();
        let granted: BTreeSet<_> = account.policies.attached.iter().flat_map(Policy::grants).collect();
        let idle: Vec<_> = granted.difference(&used).collect();
        assert!(idle.is_empty(), "{}: granted and not needed: {idle:?}", account.name);
    }
}

/// Spec aws-operations 1.14, P-4: a boundary must allow what the controller does at run time, too.
#[test]
fn a_boundary_that_forgets_the_controller_is_to_blame() {
    let account = Account::kinds().remove(0);
    let boundary = r#"{"Version":"2012-10-17","Statement":
        [{"Sid":"NoIdentity","Effect":"Allow","NotAction":"iam:*","Resource":"*"}]}"#;
    let limited = Policies {
        attached: account.policies.attached.clone(),
        boundary: Some(Policy::of_identity(boundary).unwrap()),
    };
    for request in needed(&account) {
        let decision = limited.decide(&request);
        if request.action.starts_with("iam:") {
            let blamed = matches!(decision, Decision::Denied(Denial::OutsideBoundary { .. }));
            assert!(blamed, "{}: {decision:?}", request.action);
        } else {
            assert!(matches!(decision, Decision::Allowed(_)), "{}: {decision:?}", request.action);
        }
    }
}
