//! Placement groups, from the selector of a node class to the label of a Node.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::ConditionStatus::{False, True};
use karpenter_aws_api::ec2::{PlacementGroup, PlacementStrategy};
use karpenter_aws_sim::Fault;
use karpenter_model::names::label::aws;
use karpenter_testkit::objects::replica_set;
use kube::ResourceExt;
use serde_json::json;

use crate::workload;
use crate::world::World;

fn group(state: &str) -> PlacementGroup {
    PlacementGroup {
        id: "pg-1".into(),
        name: "rack".to_owned(),
        strategy: PlacementStrategy::Partition,
        state: state.to_owned(),
        partitions: Some(3),
        tags: Default::default(),
    }
}

const READY: &str = "PlacementGroupReady";

#[tokio::test(start_paused = true)]
async fn a_group_that_is_missing_or_not_available_is_named_and_one_that_comes_heals_it() {
    let world = World::new().await;
    world.class("default", &json!({"placementGroupSelector": {"name": "rack"}}));
    world.until_condition("default", READY, (False, "PlacementGroupResolutionFailed")).await;
    assert!(world.told("PlacementGroupResolutionFailed")[0].contains("rack"));
    world.account.put_placement_group(group("pending"));
    world.until_condition("default", READY, (False, "PlacementGroupNotFound")).await;
    world.account.put_placement_group(group("available"));
    world.until_ready("default").await;
}

#[tokio::test(start_paused = true)]
async fn an_ec2_that_does_not_answer_takes_no_group_away() {
    let world = World::new().await;
    world.account.put_placement_group(group("available"));
    world.class("default", &json!({"placementGroupSelector": {"id": "pg-1"}}));
    world.until_ready("default").await;
    world.account.inject(Fault::fail("DescribePlacementGroups", "InternalError"));
    world.until("it is reported", async || !world.told("PlacementGroupResolutionFailed").is_empty()).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(world.condition("default", READY).await, Some((True, READY.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_registered_with_the_partition_ec2_chose() {
    let world = World::new().await;
    world.account.put_placement_group(group("available"));
    world.class("default", &json!({"placementGroupSelector": {"name": "rack"}}));
    workload::run(&world, &["on-demand"]).await;
    let node = world.all::<Node>().remove(0);
    assert_eq!(node.labels()[aws::PLACEMENT_GROUP_ID], "pg-1");
    assert_eq!(node.labels()[aws::PLACEMENT_GROUP_PARTITION], "1");
    let claim = workload::claims(&world).remove(0);
    assert_eq!(claim.labels()[aws::PLACEMENT_GROUP_PARTITION], "1");
    let registered = claim.status.unwrap().conditions.into_iter().find(|one| one.kind == "Registered");
    assert_eq!(registered.map(|one| one.status), Some(True));
}

#[tokio::test(start_paused = true)]
async fn pods_spread_over_partitions_get_one_each() {
    let world = World::new().await;
    world.account.put_placement_group(group("available"));
    world.class("default", &json!({"placementGroupSelector": {"name": "rack"}}));
    workload::pool(&world, &["on-demand"]);
    let spread = json!([{
        "maxSkew": 1, "topologyKey": aws::PLACEMENT_GROUP_PARTITION, "whenUnsatisfiable": "DoNotSchedule",
        "minDomains": 3, "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    world.load(&replica_set("web", 3, "1", &json!({"topologySpreadConstraints": spread})));
    world.until("three pods run", async || world.nodes() == 3 && workload::runs(&world)).await;
    let partition = |node: &Node| node.labels()[aws::PLACEMENT_GROUP_PARTITION].clone();
    let mut partitions: Vec<String> = world.all::<Node>().iter().map(partition).collect();
    partitions.sort();
    assert_eq!(partitions, ["1", "2", "3"]);
    let mut in_ec2: Vec<_> = world.account.live_instances().iter().map(|one| one.partition).collect();
    in_ec2.sort_unstable();
    assert_eq!(in_ec2, [Some(1), Some(2), Some(3)]);
}
