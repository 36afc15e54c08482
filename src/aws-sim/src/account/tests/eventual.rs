//! Time: booting, ending, not being seen yet, not being remembered any more, not having propagated.

use std::time::Duration;

use super::support::{ON_DEMAND, World, codes};
use crate::Options;
use karpenter_aws_api::Kind;
use karpenter_aws_api::ec2::{InstanceQuery, InstanceState, LaunchTemplateData, LaunchTemplateSpec};
use karpenter_aws_api::iam::InstanceProfileSpec;
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Result, Tags};

async fn state(world: &World, id: &InstanceId) -> Result<InstanceState> {
    let query = InstanceQuery { ids: vec![id.clone()], filters: Vec::new() };
    Ok(world.clients.ec2.describe_instances(&query).await?[0].state)
}

#[tokio::test]
async fn an_instance_goes_through_its_states_and_is_forgotten_after_an_hour() {
    let world = World::new(Options::default()).await;
    let id = world.launch_one(ON_DEMAND, "m5.large").await;
    assert_eq!(state(&world, &id).await, Ok(InstanceState::Pending));
    world.pass(9);
    assert_eq!(state(&world, &id).await, Ok(InstanceState::Pending));
    world.pass(1);
    assert_eq!(state(&world, &id).await, Ok(InstanceState::Running));
    world.terminate(std::slice::from_ref(&id)).await;
    assert_eq!(state(&world, &id).await, Ok(InstanceState::ShuttingDown));
    world.pass(30);
    assert_eq!(state(&world, &id).await, Ok(InstanceState::Terminated));
    world.pass(3599);
    assert_eq!(state(&world, &id).await, Ok(InstanceState::Terminated));
    world.pass(1);
    assert_eq!(state(&world, &id).await.unwrap_err().kind, Kind::NotFound);
}

#[tokio::test]
async fn a_terminated_instance_has_no_place_in_the_network() {
    let world = World::new(Options::default()).await;
    let id = world.launch_one(ON_DEMAND, "m5.large").await;
    world.terminate(std::slice::from_ref(&id)).await;
    world.pass(30);
    let instance = &world.account.instances()[0];
    assert_eq!((&instance.subnet, instance.security_groups.len()), (&None, 0));
}

#[tokio::test]
async fn a_new_instance_is_invisible_for_a_while_but_can_be_terminated() {
    let options = Options { invisible_for: Duration::from_secs(5), ..Options::default() };
    let world = World::new(options).await;
    let id = world.launch_one(ON_DEMAND, "m5.large").await;
    assert_eq!(state(&world, &id).await.unwrap_err().kind, Kind::NotFound);
    let all = world.clients.ec2.describe_instances(&InstanceQuery::default()).await.unwrap();
    assert!(all.is_empty());
    assert_eq!(world.account.live_instances().len(), 1, "the truth knows it");
    world.pass(5);
    assert_eq!(state(&world, &id).await, Ok(InstanceState::Pending));
}

#[tokio::test]
async fn a_doomed_instance_ends_instead_of_running() {
    let world = World::new(Options::default()).await;
    world.account.doom_next_boots(1);
    let doomed = world.launch_one(ON_DEMAND, "m5.large").await;
    let fine = world.launch_one(ON_DEMAND, "m5.large").await;
    world.pass(10);
    assert_eq!(state(&world, &doomed).await, Ok(InstanceState::ShuttingDown));
    assert_eq!(state(&world, &fine).await, Ok(InstanceState::Running));
    world.pass(30);
    assert_eq!(state(&world, &doomed).await, Ok(InstanceState::Terminated));
}

#[tokio::test]
async fn one_unknown_id_terminates_nothing() {
    let world = World::new(Options::default()).await;
    let id = world.launch_one(ON_DEMAND, "m5.large").await;
    let error = world.clients.ec2.terminate_instances(&[id.clone(), "i-none".into()]).await.unwrap_err();
    assert_eq!(error.code.as_deref(), Some("InvalidInstanceID.NotFound"));
    assert_eq!(state(&world, &id).await, Ok(InstanceState::Pending));
}

#[tokio::test]
async fn a_new_profile_can_be_launched_with_once_it_has_propagated() {
    let options = Options { profile_propagation: Duration::from_secs(10), ..Options::default() };
    let world = World::new(options).await;
    let iam = &world.clients.iam;
    iam.create_role(&crate::examples::role("node")).await.unwrap();
    let profile = InstanceProfileSpec { name: "profile".into(), path: "/".into(), tags: Tags::new() };
    iam.create_instance_profile(&profile).await.unwrap();
    iam.add_role_to_instance_profile("profile", "node").await.unwrap();
    let image = world.account.truth(|state, _| state.compute.templates["template"].data.image.clone());
    let data = LaunchTemplateData {
        image,
        instance_profile: Some("profile".into()),
        ..LaunchTemplateData::default()
    };
    let spec = LaunchTemplateSpec { name: "p".into(), client_token: None, tags: Tags::new(), data };
    world.clients.ec2.create_launch_template(&spec).await.unwrap();
    let mut request = world.request(ON_DEMAND, 1, &[("m5.large", 0)]);
    request.configs[0].launch_template = "p".into();
    let early = world.clients.ec2.create_fleet(&request).await.unwrap();
    assert_eq!(codes(&early), ["InvalidParameterValue"]);
    assert!(early.errors[0].message.contains("iamInstanceProfile.name is invalid"));
    world.pass(10);
    let later = world.clients.ec2.create_fleet(&request).await.unwrap();
    assert!(codes(&later).is_empty());
    let arn = world.account.live_instances()[0].instance_profile.clone();
    assert_eq!(arn.as_deref(), Some("arn:aws:iam::123456789012:instance-profile/profile"));
}
