//! Rights of `permissions`: exactly those that the runs use.

use std::collections::BTreeSet;

use karpenter_aws_api::Partition;
use karpenter_aws_api::iam::PolicySpec;
use karpenter_aws_api::id::Arn;
use karpenter_aws_sim::{Fault, examples};
use karpenter_bootstrap::Settings;
use karpenter_bootstrap::permissions::{Action, required, required_for_stack};
use karpenter_bootstrap::settings::{Identity, Removable};

use crate::account::Fixture;
use crate::leftovers::{end, launch_machine, quick_to_end};

const OWN: &str = r#"{"Version":"2012-10-17","Statement":[]}"#;

/// Actions that AWS checks without a call of their own: tags given on creation, roles handed over, and the second
/// of two calls that the client counts as one.
const IMPLIED: &[&str] = &[
    "eks:DescribePodIdentityAssociation",
    "eks:TagResource",
    "events:TagResource",
    "iam:PassRole",
    "iam:TagInstanceProfile",
    "iam:TagPolicy",
    "iam:TagRole",
    "sqs:TagQueue",
];

fn granted(fixture: &Fixture, action: Action) -> BTreeSet<String> {
    let documents = required(&fixture.settings, action);
    let statements = documents.into_iter().flat_map(|document| document.statements);
    statements.flat_map(|statement| statement.actions).collect()
}

/// The IAM action of an operation.
fn action(operation: &str) -> String {
    let service = match operation {
        _ if operation.contains("Queue") => "sqs",
        _ if operation.contains("Rule") || operation.contains("Target") => "events",
        "ListTagsForResource" => "events",
        "CreateTags" | "DeleteTags" | "DescribeInstances" => "ec2",
        _ if ["Subnet", "SecurityGroup", "RouteTable", "LaunchTemplate"]
            .iter()
            .any(|kind| operation.contains(kind)) =>
        {
            "ec2"
        }
        _ if operation.contains("Cluster") || operation.contains("AccessEntry") => "eks",
        _ if operation.contains("PodIdentity") || operation.contains("Addon") => "eks",
        _ => "iam",
    };
    format!("{service}:{operation}")
}

fn recorded(fixture: &Fixture) -> BTreeSet<String> {
    fixture.account.calls().counts().into_keys().map(action).collect()
}

fn same(granted: &BTreeSet<String>, recorded: &BTreeSet<String>) {
    let missing: Vec<_> = recorded.difference(granted).collect();
    assert!(missing.is_empty(), "called but not asked for: {missing:?}");
    let surplus: Vec<_> =
        granted.difference(recorded).filter(|action| !IMPLIED.contains(&action.as_str())).collect();
    assert!(surplus.is_empty(), "asked for but never called: {surplus:?}");
}

#[tokio::test(start_paused = true)]
async fn looking() {
    let mut fixture = Fixture::prepared().await;
    assert!(fixture.account.put_role_policy("demo-karpenter", "own", OWN));
    fixture.account.forget_calls();
    fixture.check().await;
    fixture.settings.identity = Identity::Irsa { issuer: "oidc.example/id/A".to_owned() };
    fixture.plan().await;
    let granted_with_pods = {
        let mut settings = Fixture::fresh().await;
        settings.settings.identity = Identity::PodIdentity;
        granted(&settings, Action::Look)
    };
    let all = granted(&fixture, Action::Look).union(&granted_with_pods).cloned().collect();
    same(&all, &recorded(&fixture));
}

/// Everything `apply` can do: make it, repair it, change it.
#[tokio::test(start_paused = true)]
async fn applying() {
    let mut fixture = Fixture::fresh().await;
    fixture.account.forget_calls();
    fixture.check().await;
    fixture.apply().await.unwrap();
    assert!(fixture.account.put_role_policy("demo-karpenter", "own", OWN));
    let mut asked = granted(&fixture, Action::Apply);
    let clients = fixture.clients.clone();
    let (boundary, node) = ("arn:aws:iam::aws:policy/ReadOnlyAccess".to_owned(), "KarpenterNodeRole-demo");
    let mut before = recorded(&fixture);

    // Damage: none of these calls is one of ours.
    let trust = r#"{"Version":"2012-10-17","Statement":[]}"#;
    clients.iam.update_assume_role_policy(node, trust).await.unwrap();
    let role = clients.iam.get_role(node).await.unwrap().arn;
    let entry = clients.eks.describe_access_entry("demo", &role).await.unwrap();
    clients.eks.delete_access_entry("demo", &role).await.unwrap();
    let wrong_type = karpenter_aws_api::eks::AccessEntrySpec {
        principal: role.clone(),
        kind: "STANDARD".to_owned(),
        tags: entry.tags,
    };
    clients.eks.create_access_entry("demo", &wrong_type).await.unwrap();
    let found = clients.eks.find_pod_identity_associations("demo", "kube-system", "karpenter").await.unwrap();
    clients.eks.update_pod_identity_association("demo", &found[0].id, &role).await.unwrap();
    let profile = "KarpenterNodeInstanceProfile-demo";
    clients.iam.remove_role_from_instance_profile(profile, node).await.unwrap();
    clients.iam.add_role_to_instance_profile(profile, "demo-karpenter").await.unwrap();
    let queue = clients.sqs.get_queue_url("demo").await.unwrap();
    let longer = [("MessageRetentionPeriod".to_owned(), "60".to_owned())].into();
    clients.sqs.set_queue_attributes(&queue, &longer).await.unwrap();
    // A policy of an earlier, larger split, and one with all the versions AWS keeps.
    let integration = Arn::from("arn:aws:iam::123456789012:policy/KarpenterIntegration-demo");
    let owned = clients.iam.get_policy(&integration).await.unwrap();
    let tags = owned.tags.clone();
    let old = PolicySpec { tags, ..examples::policy("KarpenterIntegration-demo-2", trust) };
    let old = clients.iam.create_policy(&old).await.unwrap().arn;
    clients.iam.attach_role_policy("demo-karpenter", &old).await.unwrap();
    for _ in 0..4 {
        clients.iam.create_policy_version(&owned.arn, trust).await.unwrap();
    }

    fixture.account.forget_calls();
    fixture.settings.permissions_boundary = Some(boundary);
    asked.extend(granted(&fixture, Action::Apply));
    fixture.apply().await.unwrap();
    fixture.settings.permissions_boundary = None;
    fixture.settings.take_off = [Removable::PermissionsBoundary].into();
    fixture.apply().await.unwrap();
    before.extend(recorded(&fixture));
    assert!(fixture.plan().await.is_empty());
    asked.extend(granted(&fixture, Action::Apply));
    same(&asked, &before);
}

#[tokio::test(start_paused = true)]
async fn destroying() {
    let mut fixture = quick_to_end().await;
    // A second version, so that there is one to delete.
    fixture.settings.zonal_shift = true;
    fixture.apply().await.unwrap();
    assert!(fixture.account.put_role_policy("demo-karpenter", "own", OWN));
    end(&fixture, launch_machine(&fixture).await).await;
    fixture.account.forget_calls();
    fixture.check().await;
    fixture.destroy().await.unwrap();
    same(&granted(&fixture, Action::Destroy), &recorded(&fixture));
}

/// IAM takes 6,144 characters in a managed policy, white space aside.
#[test]
fn each_printed_document_fits_into_a_managed_policy() {
    for (cluster, region, partition) in [
        ("prod".to_owned(), "ap-southeast-2", Partition::Aws),
        ("c".repeat(100), "ap-southeast-2", Partition::Aws),
        ("c".repeat(100), "us-gov-west-1", Partition::UsGov),
    ] {
        let mut settings = Settings::new(&cluster, region, "123456789012", partition);
        assert_eq!(required(&settings, Action::Look).len(), 1, "{cluster}: what fits is one document");
        settings.windows = true;
        let stack = karpenter_bootstrap::stack::name(&settings);
        for action in [Action::Look, Action::Apply, Action::Destroy] {
            let both = [required(&settings, action), required_for_stack(&settings, &stack, action)];
            for document in both.iter().flatten() {
                let text = document.to_json();
                let size = text.chars().filter(|character| !character.is_whitespace()).count();
                assert!(size <= 6_144, "{cluster}, {region}, {action:?}: {size}");
            }
        }
    }
}

/// The printed policy names our policies only, so a caller without other rights is refused those of others.
#[tokio::test(start_paused = true)]
async fn policies_of_others_on_our_roles_need_no_rights() {
    let mut fixture = Fixture::fresh().await;
    let own = examples::policy("team-logs", r#"{"Version":"2012-10-17","Statement":[]}"#);
    let own = fixture.clients.iam.create_policy(&own).await.unwrap().arn;
    fixture.settings.extra_node_policies = vec![own.to_string()];
    fixture.apply().await.unwrap();
    fixture.clients.iam.attach_role_policy("demo-karpenter", &own).await.unwrap();
    for call in ["GetPolicy", "GetPolicyVersion", "ListPolicyVersions"] {
        fixture.account.inject(Fault::fail(call, "AccessDenied").about("team-logs"));
    }
    assert!(fixture.plan().await.is_empty());
    assert!(fixture.check().await.ready);
    fixture.destroy().await.unwrap();
    fixture.account.heal();
    fixture.clients.iam.get_policy(&own).await.expect("it is not ours to delete");
}

/// The controller's rights may come from a policy of another tool.
#[tokio::test(start_paused = true)]
async fn a_policy_that_may_not_be_read_leaves_the_controllers_rights_open() {
    let fixture = Fixture::prepared().await;
    let ours = Arn::from("arn:aws:iam::123456789012:policy/KarpenterIntegration-demo");
    let iam = &fixture.clients.iam;
    let policy = iam.get_policy(&ours).await.unwrap();
    let document = iam.get_policy_version(&ours, &policy.default_version).await.unwrap();
    let other = iam.create_policy(&examples::policy("other-tool", &document)).await.unwrap().arn;
    iam.detach_role_policy("demo-karpenter", &ours).await.unwrap();
    assert!(!fixture.check().await.ready);
    iam.attach_role_policy("demo-karpenter", &other).await.unwrap();
    assert!(fixture.check().await.ready);
    fixture.account.inject(Fault::fail("GetPolicy", "AccessDenied").about("other-tool"));
    let report = fixture.check().await;
    let text = report.text();
    assert!(
        report.ready && text.contains("iam:GetPolicyVersion on arn:aws:iam::123456789012:policy/other-tool"),
        "{text}"
    );
}
