//! A class that places its machines in a group of three partitions: every node says in which it is, once EC2 has
//! chosen, and a pod that wants a certain one gets it.

use anyhow::{Result, ensure};
use karpenter_aws_api::id::PlacementGroupId;
use karpenter_model::names::label::aws;
use serde_json::json;

use crate::manifests;
use crate::scenario::facts::{self, label};
use crate::scenario::test_namespace::{TestNamespace, class_like_default, class_says, refers_to};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "partitions").await?;
    let group = world.control()?.partition_group("rack", 3).await?;
    let selector = json!({"placementGroupSelector": {"name": "rack"}});
    manifests::apply_json(&world.client, class_like_default(world, "partitions", selector).await?).await?;
    class_says(world, "partitions", ("Ready", "True", "Ready")).await?;
    test.ready_pool("partitions", refers_to("partitions")).await?;
    test.pods("anywhere", 1, json!({})).await?;
    let second = json!({"spec": {"nodeSelector": {(aws::PLACEMENT_GROUP_PARTITION): "2"}}});
    test.pods("second", 1, second).await?;

    let mut nodes = test.running("anywhere", 1).await?;
    let second = test.running("second", 1).await?.remove(0);
    let partition = label(&second, aws::PLACEMENT_GROUP_PARTITION);
    ensure!(partition == "2", "a pod that wants the second partition is in {partition}");
    nodes.push(second);
    for node in &nodes {
        let instance = facts::instance_behind(world, node).await?;
        let id = &instance.id;
        let found = label(node, aws::PLACEMENT_GROUP_ID);
        ensure!(found == group, "the node of `{id}` has group {found}, expected {group}");
        let placed = instance.placement_group.as_ref().map(PlacementGroupId::as_str);
        ensure!(placed == Some(group.as_str()), "`{id}` is in group {placed:?}, expected {group}");
        let chosen = instance.partition.map(|number| number.to_string()).unwrap_or_default();
        let said = label(node, aws::PLACEMENT_GROUP_PARTITION);
        ensure!(!said.is_empty() && said == chosen, "`{id}` is in partition {chosen}, its node says {said}");
    }
    Ok(())
}
