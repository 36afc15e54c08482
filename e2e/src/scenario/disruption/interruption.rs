//! EC2 takes a spot machine back, an instance fails its status checks, or a person stops one. Messages travel the whole way:
//! event bus, rule and queue, all of them made by `karpenter bootstrap apply`. The node of a spot machine is tainted and
//! drained, another one takes its pod, and its instance ends, although the account would leave it running for ever.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use karpenter_model::names::label;
use kube::ResourceExt;
use serde_json::json;

use crate::account::control::Notice;
use crate::scenario::test_namespace::{TestNamespace, needs, requiring, told_once};
use crate::scenario::worker::Worker;
use crate::scenario::{facts, watch};
use crate::wait;
use crate::world::World;

/// Longest time an instance may be stopped before its claim is deleted: a message waits for the queue's next long poll.
const NOTICED_WITHIN: Duration = Duration::from_mins(1);
/// Time for which checks must have failed to count (spec aws-provider 14.2).
const IMPAIRED: SignedDuration = SignedDuration::from_mins(2);
/// From then on: no message tells of checks, they are asked for once a minute. A controller that is killed again and again,
/// for two minutes here, may lead for the first time after that, when the Lease of the one before has run out.
const ASKED_WITHIN: Duration = Duration::from_mins(4);

/// By a spot interruption.
pub(super) async fn of_spot(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "interruption").await?;
    let spot = requiring(json!([
        needs(label::CAPACITY_TYPE, &["spot"]),
        needs(label::ARCH, &["amd64"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
    ]));
    test.ready_pool("interruption", spot).await?;
    test.pods("worker", 1, json!({})).await?;
    let node = test.running("worker", 1).await?.remove(0);
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
    let now = test.running("worker", 1).await?;
    ensure!(now.iter().all(|other| other.uid() != node.uid()), "the pod runs on the interrupted node");
    Ok(())
}

/// A person stops an instance.
pub(super) async fn by_a_person(world: &World) -> Result<()> {
    let worker = Worker::start(world, "stopped").await?;
    let stopped = Instant::now();
    world.control()?.stop_instance(&world.environment.region, worker.instance()?).await?;
    worker.is_replaced(stopped, NOTICED_WITHIN).await
}

/// The machine under an instance has been broken for as long as counts.
pub(super) async fn by_status_checks(world: &World) -> Result<()> {
    let worker = Worker::start(world, "impaired").await?;
    let impaired = Instant::now();
    world.control()?.impair(worker.instance()?, &["system"], Timestamp::now() - IMPAIRED).await?;
    worker.is_replaced(impaired, ASKED_WITHIN).await
}
