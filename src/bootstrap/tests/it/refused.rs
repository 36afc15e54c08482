//! Obstacles are reported, and nothing is done about them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_aws_api::ec2::{SecurityGroup, SecurityGroupQuery, SubnetQuery};
use karpenter_aws_api::eks::{AccessEntrySpec, PodIdentitySpec};
use karpenter_aws_api::iam::{OidcProvider, RoleSpec};
use karpenter_aws_sim::{Options, examples};
use karpenter_bootstrap::Error;
use karpenter_bootstrap::aws_auth::{AwsAuth, Mapping};
use karpenter_bootstrap::check::State;
use karpenter_bootstrap::plan::Plan;
use karpenter_bootstrap::settings::{Identity, Selection};
use karpenter_bootstrap::step::Step;
use karpenter_model::ManualClock;

use crate::account::Fixture;

#[tokio::test(start_paused = true)]
async fn a_foreign_queue_of_our_name_stops_the_run_before_the_first_write() {
    let fixture = Fixture::fresh().await;
    fixture.clients.sqs.create_queue("demo", &BTreeMap::new(), &BTreeMap::new()).await.unwrap();
    let error = fixture.apply().await.unwrap_err();
    assert!(matches!(&error, Error::Conflicts(conflicts) if conflicts.len() == 1), "{error}");
    assert!(error.to_string().contains("two clusters must not share a queue"), "{error}");
    assert_eq!(fixture.account.calls().count("CreateRole"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_role_under_a_computed_name_is_a_conflict() {
    let fixture = Fixture::fresh().await;
    fixture.clients.iam.create_role(&examples::role("KarpenterNodeRole-demo")).await.unwrap();
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 1);
    assert!(conflicts[0].starts_with("role `KarpenterNodeRole-demo` exists and does not carry the tag"));
}

#[tokio::test(start_paused = true)]
async fn a_node_role_the_operator_named_is_used_as_it_is() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.node_role_name = Some("team-nodes".to_owned());
    fixture.clients.iam.create_role(&examples::role("team-nodes")).await.unwrap();
    let plan = fixture.plan().await;
    assert!(plan.conflicts.is_empty());
    assert_eq!(plan.notes.len(), 4, "{:?}", plan.notes);
    fixture.apply().await.unwrap();
    fixture.destroy().await.unwrap();
    fixture.clients.iam.get_role("team-nodes").await.expect("the operator's role is still there");
}

/// EKS refuses every call about access entries of such a cluster, reading included.
async fn without_access_entries() -> Fixture {
    let fixture = Fixture::fresh().await;
    let mut cluster = fixture.clients.eks.describe_cluster("demo").await.unwrap();
    cluster.authentication_mode = Some("CONFIG_MAP".to_owned());
    fixture.account.put_cluster(cluster);
    fixture
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_access_entries_says_what_to_do() {
    let fixture = without_access_entries().await;
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 1);
    assert!(conflicts[0].contains("API_AND_CONFIG_MAP") && conflicts[0].contains("--no-access-entry"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_access_entries_is_made_ready_checked_and_destroyed() {
    let mut fixture = without_access_entries().await;
    fixture.settings.access_entry = false;
    fixture.apply().await.unwrap();
    fixture.settings.access_entry = true;
    let groups = ["system:bootstrappers", "system:nodes"].map(str::to_owned).into();
    let node = fixture.settings.node_role_arn();
    let mapped = Mapping { role: node, username: "system:node:{{EC2PrivateDNSName}}".to_owned(), groups };
    let report = fixture.check_with(&AwsAuth::Read(vec![mapped])).await;
    assert!(report.ready, "{}", report.text());
    fixture.destroy().await.unwrap();
    assert!(fixture.clients.iam.get_role("demo-karpenter").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_missing_cluster_is_an_error_that_names_it() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.cluster = "nowhere".to_owned();
    let error = fixture.apply().await.unwrap_err();
    assert!(error.to_string().contains("cluster `nowhere`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_identity_provider_that_is_not_there_is_a_conflict_with_the_command_that_makes_it() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.identity = Identity::Irsa { issuer: "oidc.example/id/A".to_owned() };
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 1);
    assert!(conflicts[0].contains("create-open-id-connect-provider --url https://oidc.example/id/A"));
    let provider = OidcProvider { url: "oidc.example/id/A".to_owned(), client_ids: vec!["other".to_owned()] };
    fixture.account.put_oidc_provider(fixture.settings.oidc_provider_arn().unwrap().into(), provider);
    let conflicts = fixture.plan().await.conflicts;
    assert!(conflicts[0].contains("does not take the audience sts.amazonaws.com"), "{conflicts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_role_named_by_arn_has_to_be_there_under_that_arn() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.existing_node_role = Some("arn:aws:iam::123456789012:role/team/nodes".to_owned());
    assert!(fixture.plan().await.conflicts[0].contains("does not exist"));
    fixture.clients.iam.create_role(&examples::role("nodes")).await.unwrap();
    let conflicts = fixture.plan().await.conflicts;
    assert!(conflicts[0].contains("is arn:aws:iam::123456789012:role/nodes, not"), "{conflicts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_access_entry_of_the_right_type_will_do_and_of_the_wrong_one_will_not() {
    for (kind, conflicts) in [("EC2_LINUX", 0), ("STANDARD", 1)] {
        let mut fixture = Fixture::fresh().await;
        let role = fixture.clients.iam.create_role(&examples::role("nodes")).await.unwrap();
        fixture.settings.existing_node_role = Some(role.arn.to_string());
        let spec = AccessEntrySpec { principal: role.arn, kind: kind.to_owned(), tags: BTreeMap::new() };
        fixture.clients.eks.create_access_entry("demo", &spec).await.unwrap();
        assert_eq!(fixture.plan().await.conflicts.len(), conflicts, "{kind}");
    }
}

/// <https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3329>
#[tokio::test(start_paused = true)]
async fn an_access_entry_older_than_its_role_is_replaced_and_said_by_check() {
    let clock = Arc::new(ManualClock::default());
    let fixture = Fixture::with_clock(Options::default(), Arc::clone(&clock) as _).await;
    fixture.apply().await.unwrap();
    let iam = &fixture.clients.iam;
    let role = iam.get_role("KarpenterNodeRole-demo").await.unwrap();
    let before = fixture.clients.eks.describe_access_entry("demo", &role.arn).await.unwrap();
    clock.advance(Duration::from_hours(1));
    for policy in iam.list_attached_role_policies(&role.name).await.unwrap() {
        iam.detach_role_policy(&role.name, &policy.arn).await.unwrap();
    }
    iam.remove_role_from_instance_profile("KarpenterNodeInstanceProfile-demo", &role.name).await.unwrap();
    iam.delete_role(&role.name).await.unwrap();
    assert!(fixture.plan().await.conflicts.is_empty());
    let replaces =
        |plan: &Plan| plan.steps.iter().filter(|step| matches!(step, Step::ReplaceAccessEntry(_))).count();
    assert_eq!(replaces(&fixture.plan().await), 1, "the role is made again by this plan");
    let again = RoleSpec { tags: role.tags.clone(), ..examples::role(&role.name) };
    iam.create_role(&again).await.unwrap();
    assert_eq!(replaces(&fixture.plan().await), 1, "the role was made again by another tool");
    let report = fixture.check_with(&AwsAuth::Read(Vec::new())).await;
    let found = report.findings.iter().find(|finding| finding.check == "access-entry").unwrap();
    assert!(found.state == State::Missing && found.evidence.contains("older than the role"), "{found:?}");
    fixture.apply().await.unwrap();
    let after = fixture.clients.eks.describe_access_entry("demo", &role.arn).await.unwrap();
    assert!(after.created_at > before.created_at, "{before:?} {after:?}");
    assert_eq!(replaces(&fixture.plan().await), 0);
}

#[tokio::test(start_paused = true)]
async fn what_another_tool_made_for_the_cluster_comes_with_a_hint() {
    let fixture = Fixture::fresh().await;
    let tags = [("eks:eks-cluster-name".to_owned(), "demo".to_owned())].into();
    fixture
        .clients
        .iam
        .create_role(&RoleSpec { tags, ..examples::role("KarpenterNodeRole-demo") })
        .await
        .unwrap();
    let plan = fixture.plan().await;
    assert_eq!(plan.conflicts.len(), 1);
    let hints = plan.notes.iter().filter(|note| note.contains("karpenter bootstrap check")).count();
    assert_eq!(hints, 1, "{:?} {:?}", plan.notes, plan.conflicts);
}

#[tokio::test(start_paused = true)]
async fn subnets_and_groups_of_another_cluster_are_not_taken_over() {
    for (key, others) in [("karpenter.sh/discovery", "other"), ("karpenter.sh/bootstrap", "other")] {
        let mut fixture = Fixture::fresh().await;
        let ec2 = fixture.clients.ec2.clone();
        let subnet = ec2.describe_subnets(&SubnetQuery::default()).await.unwrap().remove(0).id.to_string();
        let cluster = fixture.clients.eks.describe_cluster("demo").await.unwrap();
        let group = cluster.cluster_security_group.unwrap().to_string();
        let tags = [(key.to_owned(), others.to_owned())].into();
        ec2.create_tags(&[subnet.clone(), group.clone()], &tags).await.unwrap();
        let conflicts = fixture.plan().await.conflicts;
        assert_eq!(conflicts.len(), 2, "{conflicts:?}");
        for (conflict, id, flag) in
            [(&conflicts[0], &subnet, "--subnet"), (&conflicts[1], &group, "--security-group")]
        {
            let parts = [&format!("`{id}` is tagged for cluster `other`"), flag, "--no-discovery-tags"];
            assert!(parts.iter().all(|part| conflict.contains(*part)), "{conflict}");
        }
        assert!(fixture.apply().await.is_err());

        fixture.settings.selection = Selection::ByOthers;
        fixture.apply().await.unwrap();
        assert!(fixture.plan().await.is_empty());
        fixture.destroy().await.unwrap();
        assert_eq!(ec2.describe_subnets(&SubnetQuery::default()).await.unwrap().remove(0).tags[key], "other");
    }
}

#[tokio::test(start_paused = true)]
async fn a_security_group_besides_the_one_that_is_tagged_is_refused() {
    let mut fixture = Fixture::prepared().await;
    let ec2 = &fixture.clients.ec2;
    let groups = ec2.describe_security_groups(&SecurityGroupQuery::default()).await.unwrap();
    let tagged = groups.iter().find(|group| group.tags.contains_key("karpenter.sh/discovery")).unwrap();
    let second = SecurityGroup { id: "sg-second".into(), tags: BTreeMap::new(), ..tagged.clone() };
    fixture.account.put_security_group(second);
    fixture.settings.security_group = Some("sg-second".to_owned());
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert!(
        conflicts[0].contains(tagged.id.as_str())
            && conflicts[0].contains("`sg-second` would be one too many")
    );
    fixture.settings.security_group = Some(tagged.id.to_string());
    assert!(fixture.plan().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_service_account_that_somebody_tied_to_another_role_is_left_alone() {
    let fixture = Fixture::fresh().await;
    let role = fixture.clients.iam.create_role(&examples::role("theirs")).await.unwrap().arn;
    let spec = PodIdentitySpec {
        namespace: "kube-system".to_owned(),
        service_account: "karpenter".to_owned(),
        role: role.clone(),
        tags: BTreeMap::new(),
    };
    let eks = &fixture.clients.eks;
    eks.create_pod_identity_association("demo", &spec).await.unwrap();
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert!(
        conflicts[0].contains(role.as_str()) && conflicts[0].contains("--service-account"),
        "{conflicts:?}"
    );
    assert!(fixture.apply().await.is_err());
    let found = eks.find_pod_identity_associations("demo", "kube-system", "karpenter").await.unwrap();
    assert_eq!(found[0].role, role);
}

#[tokio::test(start_paused = true)]
async fn a_role_at_another_path_than_its_arn_would_say_is_a_conflict_with_the_flag_that_helps() {
    let mut fixture = Fixture::fresh().await;
    let role = RoleSpec { path: "/team/".to_owned(), ..examples::role("nodes") };
    fixture.clients.iam.create_role(&role).await.unwrap();
    fixture.settings.node_role_name = Some("nodes".to_owned());
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert!(conflicts[0].contains("role/team/nodes, not as") && conflicts[0].contains("--node-role-arn"));

    let mut fixture = Fixture::prepared().await;
    fixture.settings.iam_path = "/platform/".to_owned();
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(
        conflicts.iter().filter(|conflict| conflict.contains("--iam-path")).count(),
        2,
        "{conflicts:?}"
    );
}
