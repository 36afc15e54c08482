//! Accounts and settings of every kind: applied once, nothing left to do, ready, and taken back.

use std::collections::BTreeSet;

use karpenter_aws_api::iam::OidcProvider;
use karpenter_aws_api::id::Arn;
use karpenter_aws_sim::{Options, examples};
use karpenter_bootstrap::aws_auth::AwsAuth;
use karpenter_bootstrap::check::{Finding, State};
use karpenter_bootstrap::settings::{ExtraNodeRole, Identity, IpFamily, Platform, Removable};

use crate::account::{Fixture, lines};

/// Applies, applies again, checks, and destroys.
async fn live(name: &str, fixture: &Fixture) {
    fixture.apply().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    let plan = fixture.plan().await;
    assert!(plan.is_empty(), "{name}: {:#?} {:#?}", lines(&plan), plan.conflicts);
    let report = fixture.check().await;
    assert!(report.ready, "{name}:\n{}", report.text());
    fixture.destroy().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(fixture.destroy().await.unwrap().steps.is_empty(), "{name}");
}

async fn policy(fixture: &Fixture, name: &str) -> String {
    let spec = examples::policy(name, r#"{"Version":"2012-10-17","Statement":[]}"#);
    fixture.clients.iam.create_policy(&spec).await.unwrap().arn.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_name_of_a_hundred_characters() {
    let options = Options { cluster: "c".repeat(100), ..Options::default() };
    live("long name", &Fixture::with(options).await).await;
}

#[tokio::test(start_paused = true)]
async fn every_partition() {
    for (region, service) in [
        ("cn-north-1", "ec2.amazonaws.com.cn"),
        ("us-gov-west-1", "ec2.amazonaws.com"),
        ("eusc-de-east-1", "ec2.amazonaws.com"),
    ] {
        let fixture = Fixture::with(Options { region: region.to_owned(), ..Options::default() }).await;
        fixture.apply().await.unwrap();
        let role = fixture.clients.iam.get_role("KarpenterNodeRole-demo").await.unwrap();
        assert!(role.trust.contains(&format!("\"{service}\"")), "{region}: {}", role.trust);
        assert!(role.arn.as_str().starts_with(&format!("arn:{}:", fixture.settings.partition)));
        live(region, &fixture).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_path() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.iam_path = "/platform/karpenter/".to_owned();
    live("path", &fixture).await;
}

#[tokio::test(start_paused = true)]
async fn a_customers_key_comes_with_a_note_about_its_policy() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.queue_kms_key = Some("arn:aws:kms:us-west-2:123456789012:key/k".to_owned());
    assert!(fixture.plan().await.notes.iter().any(|note| note.contains("kms:GenerateDataKey")));
    live("key", &fixture).await;
}

#[tokio::test(start_paused = true)]
async fn windows_nodes_get_a_role_and_an_entry_of_their_own() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.windows = true;
    fixture.apply().await.unwrap();
    let role = fixture.clients.iam.get_role("KarpenterWindowsNodeRole-demo").await.unwrap();
    let entry = fixture.clients.eks.describe_access_entry("demo", &role.arn).await.unwrap();
    assert_eq!(entry.kind, "EC2_WINDOWS");
    live("windows", &fixture).await;
}

#[tokio::test(start_paused = true)]
async fn roles_of_others_join_and_stay() {
    let mut fixture = Fixture::fresh().await;
    let nodes = fixture.clients.iam.create_role(&examples::role("nodes")).await.unwrap();
    for policy in karpenter_bootstrap::policy::node::managed_policies(&fixture.settings) {
        fixture.clients.iam.attach_role_policy("nodes", &Arn::from(policy.as_str())).await.unwrap();
    }
    let extra = fixture.clients.iam.create_role(&examples::role("gpu")).await.unwrap();
    fixture.settings.existing_node_role = Some(nodes.arn.to_string());
    fixture.settings.extra_node_roles =
        vec![ExtraNodeRole { arn: extra.arn.to_string(), platform: Platform::Linux }];
    live("roles of others", &fixture).await;
    for role in ["nodes", "gpu"] {
        fixture.clients.iam.get_role(role).await.expect("it is not ours to delete");
    }
    let left = fixture.clients.iam.list_attached_role_policies("nodes").await.unwrap();
    assert_eq!(left.len(), 4, "nothing was detached");
}

#[tokio::test(start_paused = true)]
async fn service_accounts_without_pod_identity() {
    let mut fixture = Fixture::fresh().await;
    let issuer = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE".to_owned();
    fixture.settings.identity = Identity::Irsa { issuer: issuer.clone() };
    let provider = OidcProvider { url: issuer, client_ids: vec!["sts.amazonaws.com".to_owned()] };
    fixture.account.put_oidc_provider(fixture.settings.oidc_provider_arn().unwrap().into(), provider);
    live("irsa", &fixture).await;
}

#[tokio::test(start_paused = true)]
async fn a_permissions_boundary_is_set_changed_left_alone_and_taken_off() {
    let mut fixture = Fixture::fresh().await;
    let (one, two) = (policy(&fixture, "one").await, policy(&fixture, "two").await);
    let off: BTreeSet<_> = [Removable::PermissionsBoundary].into();
    for (given, take_off, wanted) in [
        (Some(one.clone()), BTreeSet::new(), Some(one)),
        (Some(two.clone()), BTreeSet::new(), Some(two.clone())),
        (None, BTreeSet::new(), Some(two)),
        (None, off, None),
    ] {
        fixture.settings.permissions_boundary = given;
        fixture.settings.take_off = take_off;
        fixture.apply().await.unwrap();
        assert!(fixture.plan().await.is_empty());
        for name in ["KarpenterNodeRole-demo", "demo-karpenter"] {
            let role = fixture.clients.iam.get_role(name).await.unwrap();
            assert_eq!(role.permissions_boundary.map(|arn| arn.to_string()), wanted, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_access_entry_of_ours_with_the_wrong_type_is_made_anew() {
    let fixture = Fixture::prepared().await;
    let role = fixture.clients.iam.get_role("KarpenterNodeRole-demo").await.unwrap().arn;
    let eks = &fixture.clients.eks;
    let mut entry = eks.describe_access_entry("demo", &role).await.unwrap();
    eks.delete_access_entry("demo", &role).await.unwrap();
    let spec = karpenter_aws_api::eks::AccessEntrySpec {
        principal: role.clone(),
        kind: "STANDARD".to_owned(),
        tags: std::mem::take(&mut entry.tags),
    };
    eks.create_access_entry("demo", &spec).await.unwrap();
    assert_eq!(lines(&fixture.plan().await), [format!("change access entry `{role}` (type EC2_LINUX)")]);
    fixture.apply().await.unwrap();
    assert_eq!(eks.describe_access_entry("demo", &role).await.unwrap().kind, "EC2_LINUX");
}

#[tokio::test(start_paused = true)]
async fn a_queue_keeps_its_key_and_the_controller_its_use_until_that_is_taken_off() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.queue_kms_key = Some("arn:aws:kms:us-west-2:123456789012:key/k".to_owned());
    fixture.apply().await.unwrap();
    fixture.settings.queue_kms_key = None;
    assert!(fixture.plan().await.is_empty(), "{:#?}", lines(&fixture.plan().await));

    let url = fixture.clients.sqs.get_queue_url("demo").await.unwrap();
    for (spelled, note) in [("k", false), ("alias/queues", true)] {
        let key = [("KmsMasterKeyId".to_owned(), spelled.to_owned())].into();
        fixture.clients.sqs.set_queue_attributes(&url, &key).await.unwrap();
        let plan = fixture.plan().await;
        assert!(!lines(&plan).iter().any(|line| line.contains("queue `demo`")), "{:#?}", lines(&plan));
        assert_eq!(plan.notes.iter().any(|note| note.contains("--queue-kms-key")), note, "{:?}", plan.notes);
    }
    fixture.settings.take_off = [Removable::QueueKmsKey].into();
    assert!(lines(&fixture.plan().await).iter().any(|line| line.starts_with("change queue `demo`")));
    live("key taken off", &fixture).await;
}

const IPV6: &str = "AmazonEKS_CNI_IPv6_Policy";

/// A cluster whose pods have IPv6 addresses, as EKS describes it.
async fn of_ipv6() -> Fixture {
    let fixture = Fixture::fresh().await;
    let mut cluster = fixture.clients.eks.describe_cluster("demo").await.unwrap();
    cluster.ip_family = Some("ipv6".to_owned());
    cluster.service_ipv6_cidr = Some("fd00:1234::/108".to_owned());
    cluster.service_ipv4_cidr = None;
    fixture.account.put_cluster(cluster);
    fixture
}

async fn node_role(fixture: &Fixture) -> Finding {
    let report = fixture.check_with(&AwsAuth::Unread(String::new())).await;
    report.findings.into_iter().find(|finding| finding.check == "node-role").unwrap()
}

/// The policy of AWS lacks `ec2:AssignIpv6Addresses`, and there is none that has it.
#[tokio::test(start_paused = true)]
async fn nodes_of_an_ipv6_cluster_get_the_accounts_own_policy() {
    let mut fixture = of_ipv6().await;
    fixture.settings.windows = true;
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    for word in [IPV6, "aws iam create-policy", "ec2:AssignIpv6Addresses", "--ip-family ipv4"] {
        assert!(conflicts[0].contains(word), "no {word} in {}", conflicts[0]);
    }
    let arn = policy(&fixture, IPV6).await;
    fixture.apply().await.unwrap();
    for role in ["KarpenterNodeRole-demo", "KarpenterWindowsNodeRole-demo"] {
        let attached = fixture.clients.iam.list_attached_role_policies(role).await.unwrap();
        let attached: Vec<_> = attached.iter().map(|policy| policy.arn.as_str()).collect();
        assert!(attached.contains(&arn.as_str()), "{role}: {attached:?}");
        assert!(!attached.iter().any(|arn| arn.ends_with("/AmazonEKS_CNI_Policy")), "{role}: {attached:?}");
    }
    assert_eq!(node_role(&fixture).await.state, State::Ready);
    live("ipv6", &fixture).await;
    fixture.clients.iam.get_policy(&Arn::from(arn.as_str())).await.expect("it is the account's");
}

#[tokio::test(start_paused = true)]
async fn check_of_an_ipv6_cluster_misses_the_policy_and_what_the_operator_says_wins() {
    let mut fixture = of_ipv6().await;
    fixture.settings.ip_family = Some(IpFamily::V4);
    fixture.apply().await.unwrap();
    assert_eq!(node_role(&fixture).await.state, State::Ready);
    fixture.settings.ip_family = None;
    let found = node_role(&fixture).await;
    assert!(found.state == State::Warning && found.evidence.contains(IPV6), "{found:?}");
}

/// The network's policy alone may be missing without harm.
#[tokio::test(start_paused = true)]
async fn the_policy_for_ipv6_stands_for_no_other() {
    let fixture = of_ipv6().await;
    policy(&fixture, IPV6).await;
    fixture.apply().await.unwrap();
    let worker = Arn::from("arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy");
    fixture.clients.iam.detach_role_policy("KarpenterNodeRole-demo", &worker).await.unwrap();
    assert_eq!(node_role(&fixture).await.state, State::Missing);
}

#[tokio::test(start_paused = true)]
async fn a_node_role_of_others_in_an_ipv6_cluster_is_left_alone() {
    let mut fixture = of_ipv6().await;
    let nodes = fixture.clients.iam.create_role(&examples::role("nodes")).await.unwrap();
    fixture.settings.existing_node_role = Some(nodes.arn.to_string());
    let plan = fixture.plan().await;
    assert_eq!(plan.conflicts, Vec::<String>::new());
    assert!(plan.notes.iter().any(|note| note.contains(IPV6)), "{:?}", plan.notes);
}
