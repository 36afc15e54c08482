//! EC2 takes a spot machine back. Its warning travels the whole way: event bus, rule and queue, all of them made by
//! `karpenter bootstrap apply`; the node is tainted and drained, another one takes its pod, and its instance ends,
//! although the account would leave it running for ever.

use anyhow::{Context, Result, ensure};
use karpenter_model::names::label;
use kube::ResourceExt;
use serde_json::json;

use crate::account::control::Notice;
use crate::scenario::corner::{Corner, needs, requiring, told_once};
use crate::scenario::{facts, watch};
use crate::wait;
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let corner = Corner::open(world, "interruption").await?;
    let spot = requiring(json!([
        needs(label::CAPACITY_TYPE, &["spot"]),
        needs(label::ARCH, &["amd64"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
    ]));
    corner.ready_pool("interruption", spot).await?;
    corner.pods("worker", 1, json!({})).await?;
    let node = corner.running("worker", 1).await?.remove(0);
    let name = node.name_any();
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    let id = id.context("the node has no provider id")?;
    let instance = id.rsplit('/').next().unwrap_or_default();
    let farewell = watch::Farewell::begin(world, &node).await?;
    world.control()?.notify(Notice::SpotInterruption, &world.environment.region, instance, None).await?;

    ensure!(farewell.was_tainted().await?, "pods could have come to the node until it was gone");
    wait::until("the interrupted instance to be gone", || async {
        let left = facts::instances(world).await?.iter().any(|other| other.id.as_str() == instance);
        Ok(if left { Err("it is there".to_owned()) } else { Ok(()) })
    })
    .await?;
    told_once(world, "default", &name, "SpotInterrupted", "Spot interruption warning").await?;
    told_once(world, "interruption", "worker-", "Evicted", "").await?;
    let now = corner.running("worker", 1).await?;
    ensure!(now.iter().all(|other| other.uid() != node.uid()), "the pod runs on the interrupted node");
    Ok(())
}
