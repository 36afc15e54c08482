//! Knowledge of the provider survives an AWS that answers with errors or with nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_aws_api::Kind;
use karpenter_aws_api::iam::RoleSpec;
use karpenter_aws_sim::{Fault, examples};
use karpenter_cloud::Provider;

use crate::world::{World, on_demand, pool};

#[tokio::test(start_paused = true)]
async fn the_catalogue_survives_failed_refreshes() {
    let world = World::new().await;
    let before = world.provider.instance_types(&pool()).await.expect("lists");
    world.account.inject(Fault::fail("DescribeInstanceTypes", "RequestLimitExceeded"));
    assert!(world.provider.refresh_catalogue().await.is_err());
    let after = world.provider.instance_types(&pool()).await.expect("lists");
    assert!(std::sync::Arc::ptr_eq(&before, &after), "nothing is built again either");
}

#[tokio::test(start_paused = true)]
async fn a_throttled_image_parameter_is_an_error_and_not_a_missing_image() {
    let mut world = World::new().await;
    world.class.metadata.generation = Some(2);
    let fresh = world.restarted().await;
    world.account.inject(Fault::fail("GetParameter", "ThrottlingException").times(1));
    let failed = fresh.images.resolve(&world.class, "1.33").await.expect_err("one parameter is not known");
    assert!(failed.to_string().contains("ThrottlingException"), "{failed}");
    let amis = fresh.images.resolve(&world.class, "1.33").await.expect("is asked again");
    assert_eq!(Some(amis), world.class.status.map(|status| status.amis));
}

#[tokio::test(start_paused = true)]
async fn profiles_are_made_once_replaced_on_another_role_and_collected_when_unused() {
    let mut world = World::new().await;
    let first = world.class.status.as_ref().unwrap().instance_profile.clone().unwrap();
    let again = world.restarted().await;
    assert_eq!(again.profiles.ensure(&world.class).await.unwrap().as_ref(), Some(&first));
    assert_eq!(world.account.calls().count("CreateInstanceProfile"), 1);
    world.class.spec.role = Some("/team/other-role".to_owned());
    let failed = world.provider.profiles.ensure(&world.class).await.expect_err("no such role");
    assert_eq!(failed.kind, Kind::NotFound, "{failed}");
    let role = RoleSpec { path: "/team/".into(), ..examples::role("other-role") };
    world.account.clients().iam.create_role(&role).await.unwrap();
    world.clock.advance(std::time::Duration::from_secs(61));
    let second = world.provider.profiles.ensure(&world.class).await.unwrap().unwrap();
    assert_ne!(first, second, "running nodes keep the profile they have");
    let in_use = [second.clone()].into();
    assert_eq!(world.provider.profiles.collect(&in_use).await.unwrap(), 0, "claims may be about to use it");
    world.clock.advance(std::time::Duration::from_hours(1));
    assert_eq!(world.provider.profiles.collect(&in_use).await.unwrap(), 1);
    world.provider.profiles.delete_of_class(&world.class).await.expect("deletes");
    let left = world.account.clients().iam.list_instance_profiles("/karpenter/").await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn types_are_not_joined_again_because_subnets_swap_places() {
    let mut world = World::new().await;
    let before = world.provider.instance_types(&pool()).await.expect("lists");
    world.class.status.as_mut().unwrap().subnets.reverse();
    world.provider.classes.replace_all([world.class.clone()]);
    let after = world.provider.instance_types(&pool()).await.expect("lists");
    assert!(Arc::ptr_eq(&before, &after), "one has more free addresses now");
    world.class.status.as_mut().unwrap().subnets.pop();
    world.provider.classes.replace_all([world.class.clone()]);
    let fewer = world.provider.instance_types(&pool()).await.expect("lists");
    assert!(!Arc::ptr_eq(&after, &fewer), "a zone less");
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_is_shifted_away_keeps_its_name_when_no_node_class_selects_it_any_more() {
    let mut world = World::new().await;
    assert!(world.account.register_for_zonal_shifts("demo"));
    let launched = world.provider.launch(&on_demand("web-1")).await.expect("launches");
    let status = world.class.status.as_mut().unwrap();
    let there = |subnet: &karpenter_api::ec2nodeclass::Subnet| subnet.zone == launched.zone.as_str();
    let id = status.subnets.iter().find(|subnet| there(subnet)).and_then(|subnet| subnet.zone_id.clone());
    world.account.shift_away(&id.unwrap().into(), None);
    status.subnets.retain(|subnet| !there(subnet));
    world.provider.classes.replace_all([world.class.clone()]);
    world.provider.refresh_zonal_shifts().await.expect("is known");
    let away = BTreeSet::from([launched.zone.clone()]);
    assert_eq!(world.provider.zones_away(), away, "its subnet was described before");

    let again = world.restarted().await;
    again.refresh_zonal_shifts().await.expect("is known");
    world.settle();
    again.instances().await.expect("lists");
    assert_eq!(again.zones_away(), away, "its instance is described");
}
