//! What is in the way is said, and nothing is done about it.

use std::collections::BTreeMap;

use karpenter_aws_client::eks::AccessEntrySpec;
use karpenter_aws_client::iam::{OidcProvider, RoleSpec};
use karpenter_bootstrap::Error;
use karpenter_bootstrap::settings::Identity;

use crate::account::{Fixture, foreign_role};

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
    fixture.clients.iam.create_role(&foreign_role("KarpenterNodeRole-demo")).await.unwrap();
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 1);
    assert!(conflicts[0].starts_with("role `KarpenterNodeRole-demo` exists and does not carry the tag"));
}

#[tokio::test(start_paused = true)]
async fn a_node_role_the_operator_named_is_used_as_it_is() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.node_role_name = Some("team-nodes".to_owned());
    fixture.clients.iam.create_role(&foreign_role("team-nodes")).await.unwrap();
    let plan = fixture.plan().await;
    assert!(plan.conflicts.is_empty());
    assert_eq!(plan.notes.len(), 4, "{:?}", plan.notes);
    fixture.apply().await.unwrap();
    fixture.destroy().await.unwrap();
    fixture.clients.iam.get_role("team-nodes").await.expect("the operator's role is still there");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_access_entries_says_what_to_do() {
    let fixture = Fixture::fresh().await;
    let mut cluster = fixture.clients.eks.describe_cluster("demo").await.unwrap();
    cluster.authentication_mode = Some("CONFIG_MAP".to_owned());
    fixture.account.put_cluster(cluster);
    let conflicts = fixture.plan().await.conflicts;
    assert_eq!(conflicts.len(), 1);
    assert!(conflicts[0].contains("API_AND_CONFIG_MAP") && conflicts[0].contains("--no-access-entry"));
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
    fixture.clients.iam.create_role(&foreign_role("nodes")).await.unwrap();
    let conflicts = fixture.plan().await.conflicts;
    assert!(conflicts[0].contains("is arn:aws:iam::123456789012:role/nodes, not"), "{conflicts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_access_entry_of_the_right_type_will_do_and_of_the_wrong_one_will_not() {
    for (kind, conflicts) in [("EC2_LINUX", 0), ("STANDARD", 1)] {
        let mut fixture = Fixture::fresh().await;
        let role = fixture.clients.iam.create_role(&foreign_role("nodes")).await.unwrap();
        fixture.settings.existing_node_role = Some(role.arn.to_string());
        let spec = AccessEntrySpec { principal: role.arn, kind: kind.to_owned(), tags: BTreeMap::new() };
        fixture.clients.eks.create_access_entry("demo", &spec).await.unwrap();
        assert_eq!(fixture.plan().await.conflicts.len(), conflicts, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_tool_made_for_the_cluster_comes_with_a_hint() {
    let fixture = Fixture::fresh().await;
    let tags = [("eks:eks-cluster-name".to_owned(), "demo".to_owned())].into();
    fixture
        .clients
        .iam
        .create_role(&RoleSpec { tags, ..foreign_role("KarpenterNodeRole-demo") })
        .await
        .unwrap();
    let plan = fixture.plan().await;
    assert_eq!(plan.conflicts.len(), 1);
    let hints = plan.notes.iter().filter(|note| note.contains("karpenter bootstrap check")).count();
    assert_eq!(hints, 1, "{:?} {:?}", plan.notes, plan.conflicts);
}
