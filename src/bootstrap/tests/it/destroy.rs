//! Destroy takes back what apply made, and nothing else.

use karpenter_aws_client::Tags;
use karpenter_aws_client::ec2::{SecurityGroupQuery, SubnetQuery};
use karpenter_bootstrap::desired::DISCOVERY_TAG;

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
