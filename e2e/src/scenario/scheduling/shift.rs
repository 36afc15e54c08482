//! The cluster is shifted away from a zone: what needs that zone waits, with an event, what is there stays,
//! everything else goes on; what waited is launched when the shift is over.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use karpenter_model::names::label;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::manifests::merged;
use crate::scenario::explained::explained;
use crate::scenario::test_namespace::{TestNamespace, container, told};
use crate::world::{CLUSTER_NAME, World};

/// Longer than the behaviour may take; it ends the shift itself.
const LONG: Duration = Duration::from_hours(1);

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "shift").await?;
    test.ready_pool("shift", json!({})).await?;
    let subnets = world.aws.ec2.describe_subnets(&Default::default()).await?;
    let subnet = subnets.first().context("the account has no subnet")?;
    let (zone, id) = (subnet.zone.as_str(), subnet.zone_id.as_ref().context("a subnet names no zone id")?);
    let cluster = world.aws.eks.describe_cluster(CLUSTER_NAME).await?.arn;
    test.pods("before", 1, alone(Some(zone))).await?;
    let before = test.running("before", 1).await?;

    world.control()?.shift(cluster.as_str(), id.as_str(), LONG).await?;
    told(world, "default", "shift", "ZonalShiftActive", zone).await?;
    test.pods("there", 1, alone(Some(zone))).await?;
    test.pods("anywhere", 1, alone(None)).await?;
    let elsewhere = test.running("anywhere", 1).await?;
    ensure!(zone_of(&elsewhere[0]) != zone, "a node was launched in {zone} during a shift away from it");
    test.pod_told("there", "FailedScheduling", "shift").await?;
    let node = format!("node/{}", before[0].name_any());
    explained(world, &node, &["cluster is shifted away from the zone of the node"]).await?;
    let claims = test.claims().await?.len();
    ensure!(claims == 2, "{claims} claims for two pods that can run during the shift");

    world.control()?.shift(cluster.as_str(), id.as_str(), Duration::ZERO).await?;
    told(world, "default", "shift", "ZonalShiftCleared", zone).await?;
    let there = test.running("there", 1).await?;
    ensure!(zone_of(&there[0]) == zone, "a pod that asks for {zone} runs in {}", zone_of(&there[0]));
    Ok(())
}

/// A pod that shares its node with none of the others, in a zone or anywhere.
fn alone(zone: Option<&str>) -> Value {
    let listening = merged(
        container(json!({"requests": {"cpu": "100m"}})),
        json!({"ports": [{"containerPort": 80, "hostPort": 8080}]}),
    );
    let selector = zone.map_or(json!({}), |zone| json!({label::ZONE: zone}));
    json!({"spec": {"containers": [listening], "nodeSelector": selector}})
}

fn zone_of(node: &k8s_openapi::api::core::v1::Node) -> &str {
    node.labels().get(label::ZONE).map(String::as_str).unwrap_or_default()
}
