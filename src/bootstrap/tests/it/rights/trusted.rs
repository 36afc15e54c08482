//! Principals that may take the roles on, and those that may write to the queue.

use karpenter_bootstrap::desired::{Purpose, desired};
use karpenter_bootstrap::settings::{Identity, PodIdentityTrust};
use karpenter_iam::{Policies, Policy, Request};

use super::Account;

const PODS: &str = "pods.eks.amazonaws.com";

fn trust(account: &Account, purpose: Purpose) -> Policies {
    let roles = desired(&account.settings).roles;
    let role = roles.iter().find(|role| role.purpose == purpose).expect("there is such a role");
    Policies::of(vec![Policy::of_resource(&role.trust.to_json()).unwrap()])
}

fn table(name: &str, policies: &Policies, rows: Vec<(&str, Request, bool)>) {
    for (row, request, wanted) in rows {
        assert_eq!(policies.allow(&request), wanted, "{name}: {row}: {:?}", policies.decide(&request));
    }
}

#[test]
fn the_controllers_role_is_for_pods_of_this_cluster() {
    for account in Account::kinds() {
        let settings = &account.settings;
        let policies = trust(&account, Purpose::Controller);
        let asked = |action: &str| {
            Request::new(action, &settings.controller_role_arn())
                .by("Service", PODS)
                .with("aws:SourceAccount", &settings.account)
                .with("aws:SourceArn", &settings.cluster_arn())
        };
        let assume = asked("sts:AssumeRole");
        let other = format!("{}-2", settings.cluster_arn());
        table(
            account.name,
            &policies,
            vec![
                ("pods of the cluster", assume.clone(), true),
                ("with the tags of the session", asked("sts:TagSession"), true),
                ("pods of another cluster", assume.clone().with("aws:SourceArn", &other), false),
                ("another account", assume.clone().with("aws:SourceAccount", "210987654321"), false),
                ("pods of no cluster", assume.clone().without("aws:SourceArn"), false),
                ("an instance", assume.clone().by("Service", "ec2.amazonaws.com"), false),
                ("a role of the account", assume.by("AWS", &account.role("admin")), false),
                ("a token", asked("sts:AssumeRoleWithWebIdentity"), false),
            ],
        );
    }
}

#[test]
fn by_session_tags_the_controllers_role_is_for_one_service_account_of_this_cluster() {
    for mut account in Account::kinds() {
        account.settings.pod_identity_trust = PodIdentityTrust::SessionTags;
        let settings = &account.settings;
        let policies = trust(&account, Purpose::Controller);
        let tag = |name: &str| format!("aws:RequestTag/{name}");
        let (cluster, namespace, name) =
            (tag("eks-cluster-arn"), tag("kubernetes-namespace"), tag("kubernetes-service-account"));
        let session = |action: &str| {
            Request::new(action, &settings.controller_role_arn())
                .by("Service", PODS)
                .with(&cluster, &settings.cluster_arn())
                .with(&namespace, "kube-system")
                .with(&name, "karpenter")
        };
        let assume = session("sts:AssumeRole");
        let other = format!("{}-2", settings.cluster_arn());
        table(
            account.name,
            &policies,
            vec![
                ("the controller", assume.clone(), true),
                ("with the tags of the session", session("sts:TagSession"), true),
                ("pods of another cluster", assume.clone().with(&cluster, &other), false),
                ("another service account", assume.clone().with(&name, "default"), false),
                ("its name in another namespace", assume.clone().with(&namespace, "default"), false),
                ("a session without tags", assume.clone().without(&cluster), false),
                ("an instance", assume.by("Service", "ec2.amazonaws.com"), false),
            ],
        );
    }
}

#[test]
fn with_tokens_the_controllers_role_is_for_one_service_account() {
    let issuer = "oidc.eks.eu-west-1.amazonaws.com/id/ABC";
    for mut account in Account::kinds() {
        account.settings.identity = Identity::Irsa { issuer: issuer.to_owned() };
        let settings = &account.settings;
        let policies = trust(&account, Purpose::Controller);
        let (subject, audience) = (format!("{issuer}:sub"), format!("{issuer}:aud"));
        let provider = settings.oidc_provider_arn().unwrap();
        let token = Request::new("sts:AssumeRoleWithWebIdentity", &settings.controller_role_arn())
            .by("Federated", &provider)
            .with(&subject, "system:serviceaccount:kube-system:karpenter")
            .with(&audience, "sts.amazonaws.com");
        table(
            account.name,
            &policies,
            vec![
                ("the controller", token.clone(), true),
                (
                    "another account of its namespace",
                    token.clone().with(&subject, "system:serviceaccount:kube-system:default"),
                    false,
                ),
                (
                    "its name in another namespace",
                    token.clone().with(&subject, "system:serviceaccount:default:karpenter"),
                    false,
                ),
                ("a token for another audience", token.clone().with(&audience, "vault"), false),
                ("a token without subject", token.clone().without(&subject), false),
                ("another provider", token.by("Federated", &provider.replace("/ABC", "/DEF")), false),
            ],
        );
    }
}

#[test]
fn the_node_role_is_for_instances() {
    for account in Account::kinds() {
        let policies = trust(&account, Purpose::Nodes);
        let principal = &account.settings.ec2_principal;
        let assume = Request::new("sts:AssumeRole", &account.settings.node_role_arn());
        table(
            account.name,
            &policies,
            vec![
                ("an instance", assume.clone().by("Service", principal), true),
                ("a pod", assume.clone().by("Service", PODS), false),
                ("a role of the account", assume.by("AWS", &account.role("admin")), false),
            ],
        );
    }
}

#[test]
fn the_queue_takes_messages_of_the_clusters_rules_over_tls() {
    for account in Account::kinds() {
        let desired = desired(&account.settings);
        let policy = Policy::of_resource(&desired.queue.policy.to_json()).unwrap();
        let policies = Policies::of(vec![policy]);
        let rule = account.settings.rule_arn(&desired.rules[0].name);
        let send = Request::new("sqs:SendMessage", &desired.queue.arn)
            .by("Service", "events.amazonaws.com")
            .with("aws:SecureTransport", "true")
            .with("aws:SourceArn", &rule);
        table(
            account.name,
            &policies,
            vec![
                ("a rule of the cluster", send.clone(), true),
                ("in the clear", send.clone().with("aws:SecureTransport", "false"), false),
                (
                    "a foreign rule",
                    send.clone().with("aws:SourceArn", &account.settings.rule_arn("other")),
                    false,
                ),
                ("no rule", send.clone().without("aws:SourceArn"), false),
                ("a topic", send.clone().by("Service", "sns.amazonaws.com"), false),
                ("a role of the account", send.by("AWS", &account.role("admin")), false),
            ],
        );
        let receive = Request::new("sqs:ReceiveMessage", &desired.queue.arn)
            .by("Service", "events.amazonaws.com")
            .with("aws:SourceArn", &rule);
        table(account.name, &policies, vec![("a rule that reads", receive, false)]);
    }
}
