//! Launches into placement groups, and what registration waits for.

use std::time::Duration;

use karpenter_api::ec2nodeclass::PlacementGroupSelector;
use karpenter_aws::instances::drift;
use karpenter_aws_api::ec2::{PlacementGroup, PlacementStrategy};
use karpenter_aws_api::id::PlacementGroupId;
use karpenter_aws_sim::{Fault, OfferingSelector, Options};
use karpenter_cloud::{HookState, Instance, Kind, Provider, Read};
use karpenter_model::names::label::aws;
use karpenter_model::{CapacityType, LabelValue};

use crate::world::{World, claim_of, one_of, pool, request, request_with};

fn group(id: &str, strategy: PlacementStrategy) -> PlacementGroup {
    PlacementGroup {
        id: id.into(),
        name: "rack".to_owned(),
        strategy,
        state: "available".to_owned(),
        partitions: Some(3),
        tags: Default::default(),
    }
}

/// A world whose node class selects a group of this strategy.
async fn placed(strategy: PlacementStrategy) -> World {
    let mut world = World::with(Options { zones: 2, ..Options::default() }, |spec| {
        spec.placement_group_selector = Some(PlacementGroupSelector { name: Some("rack".into()), id: None });
    })
    .await;
    world.account.put_placement_group(group("pg-1", strategy));
    world.resolve().await;
    world
}

fn label<'a>(instance: &'a Instance, key: &str) -> Option<&'a str> {
    instance.labels.get(key).map(LabelValue::as_str)
}

#[tokio::test(start_paused = true)]
async fn instances_are_in_the_group_and_say_so() {
    for strategy in [PlacementStrategy::Cluster, PlacementStrategy::Spread] {
        let world = placed(strategy.clone()).await;
        let instance = world.provider.launch(&request("web-1")).await.expect("launches");
        assert_eq!(label(&instance, aws::PLACEMENT_GROUP_ID), Some("pg-1"), "{strategy:?}");
        assert_eq!(label(&instance, aws::PLACEMENT_GROUP_PARTITION), None, "{strategy:?}");
        let in_ec2 = world.account.instances().remove(0);
        assert_eq!(in_ec2.placement_group.as_ref().map(PlacementGroupId::as_str), Some("pg-1"));
        let hooks = world.provider.registration_hooks(&claim_of(&instance)).await;
        assert_eq!((hooks[0].name, &hooks[0].state), ("PlacementGroupRegistrationHook", &HookState::Ready));
    }
}

#[tokio::test(start_paused = true)]
async fn registration_waits_for_the_partition_ec2_chose() {
    let world = placed(PlacementStrategy::Partition).await;
    let instance = world.provider.launch(&request("web-1")).await.expect("launches");
    assert_eq!(label(&instance, aws::PLACEMENT_GROUP_PARTITION), Some(""), "not known yet");
    let mut claim = claim_of(&instance);
    let hooks = world.provider.registration_hooks(&claim).await;
    let partition = hooks[0].labels.get(aws::PLACEMENT_GROUP_PARTITION).map(LabelValue::as_str);
    assert_eq!((&hooks[0].state, partition), (&HookState::Ready, Some("1")));
    let read = world.provider.instance(&instance.provider_id, Read::Consistent).await.expect("is read");
    assert_eq!(label(&read, aws::PLACEMENT_GROUP_PARTITION), Some("1"));
    world.account.inject(Fault::fail("DescribeInstances", "InternalError"));
    let hooks = world.provider.registration_hooks(&claim).await;
    assert!(matches!(hooks[0].state, HookState::Failed(_)), "{:?}", hooks[0].state);
    claim.provider_id = None;
    let hooks = world.provider.registration_hooks(&claim).await;
    assert!(matches!(hooks[0].state, HookState::Pending(Some(_))), "{:?}", hooks[0].state);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_rules_partitions_out_gets_the_lowest_of_the_others() {
    let world = placed(PlacementStrategy::Partition).await;
    let wanted = request_with("web-1", one_of(aws::PLACEMENT_GROUP_PARTITION, &["3", "2"]));
    let instance = world.provider.launch(&wanted).await.expect("launches");
    assert_eq!(label(&instance, aws::PLACEMENT_GROUP_PARTITION), Some("2"));
    assert_eq!(world.account.instances().remove(0).partition, Some(2));
    let hooks = world.provider.registration_hooks(&claim_of(&instance)).await;
    assert_eq!(hooks[0].state, HookState::Ready);
    assert!(hooks[0].labels.is_empty(), "nothing was left open");
    let outside = request_with("web-2", one_of(aws::PLACEMENT_GROUP_PARTITION, &["4"]));
    let failed = world.provider.launch(&outside).await.expect_err("there is no such partition");
    assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
}

#[tokio::test(start_paused = true)]
async fn lack_of_capacity_in_one_partition_says_nothing_about_the_others() {
    let world = placed(PlacementStrategy::Partition).await;
    world.account.limit_capacity(OfferingSelector::default(), 0);
    let second = |claim: &str| request_with(claim, one_of(aws::PLACEMENT_GROUP_PARTITION, &["2"]));
    world.provider.launch(&second("web-1")).await.expect_err("no capacity");
    world.provider.launch(&second("web-2")).await.expect_err("no capacity");
    world.provider.launch(&second("web-3")).await.expect_err("not even tried");
    let asked = world.account.calls().count("CreateFleet");
    assert_eq!(asked, 2, "spot, then on-demand");
    let third = request_with("web-4", one_of(aws::PLACEMENT_GROUP_PARTITION, &["3"]));
    world.provider.launch(&third).await.expect_err("no capacity");
    assert_eq!(world.account.calls().count("CreateFleet"), asked + 1, "the third partition is tried");
}

#[tokio::test(start_paused = true)]
async fn the_partition_is_one_that_has_what_the_launch_buys() {
    let world = placed(PlacementStrategy::Partition).await;
    let spot = OfferingSelector { spot: Some(true), ..Default::default() };
    world.account.limit_capacity(spot.clone(), 0);
    let first = request_with("web-1", one_of(aws::PLACEMENT_GROUP_PARTITION, &["1"]));
    world.provider.launch(&first).await.expect_err("no spot capacity");
    world.account.unlimit_capacity(&spot);
    let either = request_with("web-2", one_of(aws::PLACEMENT_GROUP_PARTITION, &["1", "2"]));
    let instance = world.provider.launch(&either).await.expect("launches");
    let partition = label(&instance, aws::PLACEMENT_GROUP_PARTITION);
    assert_eq!((instance.capacity_type, partition), (CapacityType::Spot, Some("2")));
}

#[tokio::test(start_paused = true)]
async fn another_group_under_the_same_name_is_drift_and_silence_is_not() {
    let mut world = placed(PlacementStrategy::Spread).await;
    let instance = world.provider.launch(&request("web-1")).await.expect("launches");
    let claim = claim_of(&instance);
    world.settle();
    assert_eq!(world.provider.drift(&claim).await.expect("is known"), None);
    world.clock.advance(Duration::from_mins(1));
    world.account.inject(Fault::fail("DescribePlacementGroups", "InternalError"));
    assert_eq!(world.provider.drift(&claim).await.expect("the last answer counts"), None);
    world.account.heal();
    let old = PlacementGroup { name: "old".to_owned(), ..group("pg-1", PlacementStrategy::Spread) };
    world.account.put_placement_group(old);
    world.account.put_placement_group(group("pg-2", PlacementStrategy::Spread));
    world.resolve().await;
    let drifted = world.provider.drift(&claim).await.expect("is known");
    assert_eq!(drifted, Some(drift::PLACEMENT_GROUP));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_planned_or_launched_while_the_group_is_unknown() {
    let world = placed(PlacementStrategy::Spread).await;
    let again = world.restarted().await;
    assert!(again.instance_types(&pool()).await.is_err(), "types without the group would be wrong ones");
    world.account.inject(Fault::fail("DescribePlacementGroups", "InternalError"));
    let failed = again.launch(&request("web-1")).await.expect_err("no group");
    assert_eq!(failed.kind, Kind::Transient, "{failed}");
    assert!(world.account.instances().is_empty());
    world.account.heal();
    again.cluster.resolve_service_cidr().await.expect("is read");
    again.launch(&request("web-1")).await.expect("launches");
    assert_eq!(world.account.instances().len(), 1);
}
