//! Destroy takes back what apply made, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{SecurityGroupQuery, SubnetQuery};
use karpenter_aws_sim::{Fault, Options};
use karpenter_bootstrap::apply::{Progress, apply};
use karpenter_bootstrap::desired::DISCOVERY_TAG;
use karpenter_bootstrap::settings::Identity;
use karpenter_model::ManualClock;

use crate::account::Fixture;

/// Tags of everything that can be discovered, by id.
async fn tags(fixture: &Fixture) -> Vec<(String, Tags)> {
    let ec2 = &fixture.clients.ec2;
    let subnets = ec2.describe_subnets(&SubnetQuery::default()).await.unwrap();
    let groups = ec2.describe_security_groups(&SecurityGroupQuery::default()).await.unwrap();
    let mut found: Vec<_> = subnets.into_iter().map(|subnet| (subnet.id.to_string(), subnet.tags)).collect();
    found.extend(groups.into_iter().map(|group| (group.id.to_string(), group.tags)));
    found
}

#[tokio::test(start_paused = true)]
async fn the_account_is_as_before_but_for_the_spot_role() {
    let fixture = Fixture::fresh().await;
    let before = tags(&fixture).await;
    fixture.apply().await.unwrap();
    assert_ne!(tags(&fixture).await, before);
    fixture.destroy().await.unwrap();
    assert_eq!(tags(&fixture).await, before);
    let iam = &fixture.clients.iam;
    assert!(iam.get_role("KarpenterNodeRole-demo").await.is_err());
    assert!(iam.get_role("demo-karpenter").await.is_err());
    assert!(fixture.clients.sqs.get_queue_url("demo").await.is_err());
    assert!(fixture.clients.events.list_rules("Karpenter-").await.unwrap().is_empty());
    iam.get_role("AWSServiceRoleForEC2Spot").await.expect("the spot role belongs to the account");
}

#[tokio::test(start_paused = true)]
async fn a_discovery_tag_that_was_there_before_stays() {
    let fixture = Fixture::fresh().await;
    let subnet = fixture.clients.ec2.describe_subnets(&SubnetQuery::default()).await.unwrap().remove(0);
    let tag = Tags::from([(DISCOVERY_TAG.to_owned(), "demo".to_owned())]);
    fixture.clients.ec2.create_tags(&[subnet.id.to_string()], &tag).await.unwrap();
    let before = tags(&fixture).await;
    fixture.apply().await.unwrap();
    fixture.destroy().await.unwrap();
    assert_eq!(tags(&fixture).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_second_destroy_has_nothing_to_do() {
    let fixture = Fixture::prepared().await;
    fixture.destroy().await.unwrap();
    assert!(fixture.destroy().await.unwrap().steps.is_empty());
}

/// `destroy` without a single flag of `apply`.
#[tokio::test(start_paused = true)]
async fn what_flags_added_is_found_without_them() {
    let mut fixture = Fixture::fresh().await;
    let before = tags(&fixture).await;
    let plain = fixture.settings.clone();
    let ec2 = &fixture.clients.ec2;
    let all = ec2.describe_subnets(&SubnetQuery::default()).await.unwrap();
    fixture.settings.subnets = all.iter().map(|subnet| subnet.id.to_string()).collect();
    fixture.settings.windows = true;
    fixture.apply().await.unwrap();
    fixture.settings = plain;
    fixture.settings.identity = Identity::None;
    fixture.settings.access_entry = false;
    fixture.destroy().await.unwrap();
    assert_eq!(tags(&fixture).await, before);
    for role in ["KarpenterNodeRole-demo", "KarpenterWindowsNodeRole-demo", "demo-karpenter"] {
        assert!(fixture.clients.iam.get_role(role).await.is_err(), "{role}");
    }
    assert!(fixture.clients.eks.list_access_entries("demo").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_works_once_the_cluster_is_gone() {
    let fixture = Fixture::fresh().await;
    let before = tags(&fixture).await;
    fixture.apply().await.unwrap();
    for call in ["DescribeCluster", "DescribeAddon", "DescribeAccessEntry", "ListPodIdentityAssociations"] {
        fixture.account.inject(
            Fault::fail(call, "ResourceNotFoundException").saying("No cluster found for name: demo."),
        );
    }
    let plan = fixture.destroy().await.unwrap();
    assert!(!plan.steps.is_empty());
    assert_eq!(tags(&fixture).await, before);
    assert!(fixture.clients.iam.get_role("demo-karpenter").await.is_err());
    assert!(fixture.clients.sqs.get_queue_url("demo").await.is_err());
    assert!(fixture.destroy().await.unwrap().steps.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_discovery_tag_that_names_another_cluster_by_now_stays() {
    let fixture = Fixture::prepared().await;
    let ec2 = &fixture.clients.ec2;
    let subnet = ec2.describe_subnets(&SubnetQuery::default()).await.unwrap().remove(0).id;
    let tag = Tags::from([(DISCOVERY_TAG.to_owned(), "other".to_owned())]);
    ec2.create_tags(&[subnet.to_string()], &tag).await.unwrap();
    fixture.destroy().await.unwrap();
    let query = SubnetQuery { ids: vec![subnet], filters: Vec::new() };
    let left = ec2.describe_subnets(&query).await.unwrap().remove(0).tags;
    assert_eq!(left.get(DISCOVERY_TAG).map(String::as_str), Some("other"));
    assert!(!left.contains_key("karpenter.sh/bootstrap"), "{left:?}");
}

/// SQS refuses the name of a deleted queue for a minute.
#[tokio::test(start_paused = true)]
async fn what_was_destroyed_is_made_again_at_once() {
    let clock = Arc::new(ManualClock::default());
    let fixture = Fixture::with_clock(Options::default(), Arc::clone(&clock) as _).await;
    fixture.apply().await.unwrap();
    fixture.destroy().await.unwrap();
    let passing = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.advance(Duration::from_secs(1));
        }
    };
    let plan = fixture.plan().await;
    let mut waits = Vec::new();
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Waiting(what) = progress {
            waits.push(what.to_owned());
        }
    };
    tokio::select! {
        outcome = apply(&fixture.clients, "demo", &plan, &mut tell) => outcome.unwrap(),
        () = passing => {}
    }
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert!(waits[0].contains("60 s"), "{waits:?}");
    assert!(fixture.plan().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_name_that_stays_refused_fails_after_seventy_seconds_and_other_refusals_at_once() {
    for (code, seconds) in [("AWS.SimpleQueueService.QueueDeletedRecently", 70), ("AccessDenied", 0)] {
        let fixture = Fixture::fresh().await;
        fixture.account.inject(Fault::fail("CreateQueue", code));
        let started = tokio::time::Instant::now();
        let error = fixture.apply().await.unwrap_err();
        assert!(error.to_string().contains("create queue `demo`"), "{error}");
        assert_eq!(started.elapsed().as_secs(), seconds, "{code}");
    }
}
