//! EC2 takes a spot machine back, an instance fails its status checks, or a person stops one. The message travels the whole way: event bus, rule and queue, all of them made by
//! `karpenter bootstrap apply`; the node of a spot machine is tainted and drained, another one takes its pod, and its instance ends,
//! although the account would leave it running for ever.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodeClaim;
use karpenter_model::names::label;
use kube::ResourceExt;
use serde_json::json;

use crate::account::control::Notice;
use crate::scenario::corner::{Corner, needs, requiring, told_once};
use crate::scenario::{facts, watch};
use crate::wait;
use crate::world::World;

/// How long an instance may be stopped before its claim is deleted: a message waits for the queue's next long poll.
const NOTICED_WITHIN: Duration = Duration::from_mins(1);
/// Checks that have failed for so long count (spec aws-provider 14.2).
const IMPAIRED: SignedDuration = SignedDuration::from_mins(2);
/// From then on: no message tells of checks, they are asked for once a minute. A controller that is killed again and again,
/// for two minutes here, may lead for the first time after that, when the Lease of the one before has run out.
const ASKED_WITHIN: Duration = Duration::from_mins(4);

/// By a spot interruption.
pub(super) async fn of_spot(world: &World) -> Result<()> {
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
    let instance = facts::instance_of(&id);
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

/// A person stops an instance.
pub(super) async fn by_a_person(world: &World) -> Result<()> {
    let stop =
        async |instance: &str| world.control()?.stop_instance(&world.environment.region, instance).await;
    replaced_after(world, "stopped", NOTICED_WITHIN, stop).await
}

/// The machine under an instance has been broken for as long as counts.
pub(super) async fn by_status_checks(world: &World) -> Result<()> {
    let impair = async |instance: &str| {
        let since = Timestamp::now() - IMPAIRED;
        world.control()?.impair(instance, &["system"], since).await
    };
    replaced_after(world, "impaired", ASKED_WITHIN, impair).await
}

/// After `trouble` with its instance a claim is deleted in time, and another node takes its pod.
async fn replaced_after(
    world: &World,
    name: &'static str,
    within: Duration,
    trouble: impl AsyncFnOnce(&str) -> Result<()>,
) -> Result<()> {
    let corner = Corner::open(world, name).await?;
    corner.ready_pool(name, json!({})).await?;
    corner.pods("worker", 1, json!({})).await?;
    let node = corner.running("worker", 1).await?.remove(0);
    let claim = corner.claim_of(&node).await?;
    let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
    let instance = id.map(facts::instance_of).context("the claim has no instance")?;
    let begun = Instant::now();
    trouble(instance).await?;

    wait::until("the claim of the instance to be deleted", || async {
        let claims = corner.claims().await?;
        let stays = |now: &NodeClaim| now.uid() == claim.uid() && now.metadata.deletion_timestamp.is_none();
        Ok(if claims.iter().any(stays) { Err("it is not".to_owned()) } else { Ok(()) })
    })
    .await?;
    let took = begun.elapsed();
    ensure!(took <= within, "the trouble with `{instance}` was noticed after {took:?}");
    wait::until("a running pod on another node", || async {
        let pods = corner.pods_of("worker").await?;
        let elsewhere = |pod: &Pod| {
            let place = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            facts::phase(pod) == "Running" && place.is_some_and(|place| place != node.name_any())
        };
        Ok(if pods.iter().any(elsewhere) { Ok(()) } else { Err(format!("{} pods", pods.len())) })
    })
    .await
}
