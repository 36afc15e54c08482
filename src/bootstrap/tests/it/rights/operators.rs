//! Rights of a user with the printed policies of `bootstrap apply` and `destroy`, and their limits.

use karpenter_bootstrap::Settings;
use karpenter_bootstrap::desired::{Purpose, desired};
use karpenter_bootstrap::permissions::{Action, required};
use karpenter_bootstrap::policy::Document;
use karpenter_iam::{Policies, Policy, Request};

use super::Account;

fn printed(settings: &Settings, action: Action) -> Policies {
    let policy = |document: &Document| Policy::of_identity(&document.to_json()).unwrap();
    Policies::of(required(settings, action).iter().map(policy).collect())
}

fn holds(account: &Account, policies: &Policies, rows: Vec<(&str, Request, bool)>) {
    for (row, request, wanted) in rows {
        let decision = policies.decide(&request);
        assert_eq!(policies.allow(&request), wanted, "{}: {row}: {decision:?}", account.name);
    }
}

/// Attaching AWS's policy for administrators to a role of ours would be a way to everything.
#[test]
fn only_what_bootstrap_attaches_may_be_attached() {
    for account in Account::kinds() {
        let policies = printed(&account.settings, Action::Apply);
        let boundary = account.settings.permissions_boundary.clone().unwrap_or_default();
        for role in desired(&account.settings).roles {
            let arn = account.settings.iam_arn(&format!("role{}{}", role.path, role.name));
            let attach = |policy: &str| {
                Request::new("iam:AttachRolePolicy", &arn)
                    .with("iam:PolicyARN", policy)
                    .with("iam:PermissionsBoundary", &boundary)
            };
            let all = format!("arn:{}:iam::aws:policy/AdministratorAccess", account.settings.partition);
            let mut rows: Vec<_> =
                role.attached.iter().map(|policy| ("ours", attach(policy), true)).collect();
            if role.purpose != Purpose::Controller {
                // The address family, if no flag gives it, is read from the cluster, after the rights are given.
                let ipv6 = account.settings.iam_arn("policy/AmazonEKS_CNI_IPv6_Policy");
                rows.push(("the network's of IPv6", attach(&ipv6), true));
            }
            rows.push(("AWS's for administrators", attach(&all), false));
            rows.push(("one of the account", attach(&account.settings.iam_arn("policy/admin")), false));
            rows.push(("one that is not named", attach(&all).without("iam:PolicyARN"), false));
            holds(&account, &policies, rows);
        }
    }
}

#[test]
fn roles_are_handed_to_machines_and_pods_alone() {
    for account in Account::kinds() {
        let policies = printed(&account.settings, Action::Apply);
        let pass = |service: &str| {
            Request::new("iam:PassRole", &account.settings.controller_role_arn())
                .with("iam:PassedToService", service)
        };
        holds(
            &account,
            &policies,
            vec![
                ("EC2", pass("ec2.amazonaws.com"), true),
                ("pods", pass("pods.eks.amazonaws.com"), true),
                ("a function", pass("lambda.amazonaws.com"), false),
                ("a stack", pass("cloudformation.amazonaws.com"), false),
            ],
        );
    }
}

/// Rights to make roles are no way past a boundary.
#[test]
fn with_a_boundary_no_role_is_made_or_given_policies_without_it() {
    for account in Account::kinds() {
        let Some(boundary) = account.settings.permissions_boundary.clone() else { continue };
        let policies = printed(&account.settings, Action::Apply);
        let role = account.settings.controller_role_arn();
        let ours = desired(&account.settings).policies[0].arn.clone();
        for action in ["iam:CreateRole", "iam:PutRolePermissionsBoundary", "iam:AttachRolePolicy"] {
            let request = Request::new(action, &role).with("iam:PolicyARN", &ours);
            let other = account.settings.iam_arn("policy/wide");
            holds(
                &account,
                &policies,
                vec![
                    (action, request.clone().with("iam:PermissionsBoundary", &boundary), true),
                    ("another boundary", request.clone().with("iam:PermissionsBoundary", &other), false),
                    ("no boundary", request, false),
                ],
            );
        }
        let off = Request::new("iam:DeleteRolePermissionsBoundary", &role);
        holds(&account, &policies, vec![("taking it off", off, false)]);
    }
}

#[test]
fn of_the_network_only_our_two_tags() {
    for account in Account::kinds() {
        for (action, verb) in [(Action::Apply, "ec2:CreateTags"), (Action::Destroy, "ec2:DeleteTags")] {
            let policies = printed(&account.settings, action);
            let tagging = |keys: &[&str]| {
                let keys = keys.iter().map(|key| (*key).to_owned());
                Request::new(verb, &account.ec2("security-group", "sg-1")).with_all("aws:TagKeys", keys)
            };
            holds(
                &account,
                &policies,
                vec![
                    ("ours", tagging(&["karpenter.sh/discovery", "karpenter.sh/bootstrap"]), true),
                    ("the cluster's", tagging(&["kubernetes.io/cluster/prod"]), false),
                    ("ours and another", tagging(&["karpenter.sh/discovery", "team"]), false),
                    // A deletion that names no key takes off every tag.
                    ("no key", tagging(&[]).without("aws:TagKeys"), false),
                ],
            );
        }
    }
}

#[test]
fn of_what_the_controller_left_only_this_clusters() {
    for account in Account::kinds() {
        let policies = printed(&account.settings, Action::Destroy);
        let template = |cluster: &str| {
            Request::new("ec2:DeleteLaunchTemplate", &account.ec2("launch-template", "lt-1"))
                .with("aws:ResourceTag/eks:eks-cluster-name", cluster)
        };
        let delete = |arn: &str| Request::new("iam:DeleteInstanceProfile", arn);
        let other = account.profile().replace("instance-profile/karpenter/", "instance-profile/team/");
        holds(
            &account,
            &policies,
            vec![
                ("its template", template(&account.settings.cluster), true),
                ("another cluster's template", template("other"), false),
                ("a profile of its classes", delete(&account.profile()), true),
                ("a profile of others", delete(&other), false),
                ("a machine", Request::new("ec2:TerminateInstances", &account.ec2("instance", "i-1")), false),
            ],
        );
    }
}
