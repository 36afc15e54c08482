//! Drift of subnets and security groups: what a class does not select any more, and never what an answer of EC2 has left out.

use std::time::Duration;

use karpenter_aws::instances::drift;
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{SecurityGroup, Subnet};
use karpenter_cloud::{DriftReason, Kind, Provider};
use karpenter_model::Claim;
use karpenter_model::names::tag;

use crate::world::{World, claim_of, request};

/// A world with a machine, and what EC2 says of its subnet and of one of its two groups.
async fn with_machine() -> (World, Claim, Subnet, SecurityGroup) {
    let mut world = World::new().await;
    let ec2 = world.account.clients().ec2;
    let first = ec2.describe_security_groups(&Default::default()).await.expect("groups").remove(0);
    let tags = Tags::from([(tag::DISCOVERY.to_owned(), "demo".to_owned())]);
    let group = SecurityGroup { id: "sg-0b0b0b0b0b0b0b0b0".into(), name: "more".to_owned(), tags, ..first };
    world.account.put_security_group(group.clone());
    world.clock.advance(Duration::from_mins(5));
    world.resolve().await;
    let instance = world.provider.launch(&request("web-1")).await.expect("launches");
    let claim = claim_of(&instance);
    world.settle();
    world.provider.instances().await.expect("lists");
    assert_eq!(world.provider.drift(&claim).await.expect("is known"), None);
    let subnet = world.account.live_instances()[0].subnet.clone().expect("it is in a subnet");
    let subnets = ec2.describe_subnets(&Default::default()).await.expect("subnets");
    let subnet = subnets.into_iter().find(|one| one.id == subnet).expect("it is there");
    (world, claim, subnet, group)
}

/// Drift reported after the status of the class was changed by another client.
async fn drift_with(world: &World, claim: &Claim) -> Result<Option<DriftReason>, Kind> {
    world.provider.classes.replace_all([world.class.clone()]);
    world.provider.drift(claim).await.map_err(|error| error.kind)
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_leaves_out_is_not_drift() {
    let (mut world, claim, subnet, group) = with_machine().await;
    let status = world.class.status.get_or_insert_default();
    let complete = status.clone();
    status.subnets.retain(|one| one.id != subnet.id.as_str());
    assert_eq!(drift_with(&world, &claim).await, Err(Kind::Transient), "the subnet is there and selected");

    world.class.status = Some(complete);
    let status = world.class.status.get_or_insert_default();
    status.security_groups.retain(|one| one.id != group.id.as_str());
    assert_eq!(drift_with(&world, &claim).await, Err(Kind::Transient), "the group is there and selected");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_selected_any_more_is() {
    let (mut world, claim, subnet, group) = with_machine().await;
    world.account.put_subnet(Subnet { tags: Tags::new(), ..subnet.clone() });
    world.clock.advance(Duration::from_mins(5));
    world.resolve().await;
    assert_eq!(drift_with(&world, &claim).await, Ok(Some(drift::SUBNET)));

    world.account.put_subnet(subnet);
    world.account.put_security_group(SecurityGroup { tags: Tags::new(), ..group.clone() });
    world.clock.advance(Duration::from_mins(5));
    world.resolve().await;
    assert_eq!(drift_with(&world, &claim).await, Ok(Some(drift::SECURITY_GROUP)), "it has one too many");

    let other = SecurityGroup { id: "sg-0c0c0c0c0c0c0c0c0".into(), ..group.clone() };
    world.account.put_security_group(group);
    world.account.put_security_group(other);
    world.clock.advance(Duration::from_mins(5));
    world.resolve().await;
    assert_eq!(drift_with(&world, &claim).await, Ok(Some(drift::SECURITY_GROUP)), "it lacks one");
}
