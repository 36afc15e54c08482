//! What goes wrong around the controller: an account that throttles and fails, an API server and an etcd that stand still,
//! a controller that itself stands still beyond its Lease. Pods get their nodes afterwards, and no node is bought twice.
//!
//! Each fault is one of the whole world, so the behaviours follow one another. Those of processes need the cluster
//! `local`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::FutureExt;
use karpenter_aws_api::Filter;
use karpenter_aws_api::ec2::InstanceQuery;
use karpenter_model::names;
use serde_json::json;

use super::behaviour::{self, Behaviour, Only, clear_away};
use super::corner::{Corner, a_node_each};
use crate::account::control::Fault;
use crate::wait;
use crate::world::World;

/// Pods of each behaviour, none of which share a node.
const PODS: usize = 4;
/// Twice what the controller gives a request before it gives it up.
const STANDSTILL: Duration = Duration::from_secs(40);

/// The names of the behaviours.
pub fn behaviours() -> Vec<&'static str> {
    behaviour::names(TABLES)
}

/// Runs all behaviours in a world in which nothing of ours is installed yet.
pub async fn run(world: &World, only: &Only) -> Result<()> {
    world.install().await?;
    world.install_class().await?;
    behaviour::prove(world, "faults", TABLES, only).await?;
    clear_away(world).await
}

const TABLES: &[&[Behaviour]] = &[
    &[Behaviour {
        name: "calls that EC2 throttles are repeated, and buy nothing twice",
        proof: |world| failing(world, "throttled", ("RequestLimitExceeded", 503)).boxed_local(),
    }],
    &[Behaviour {
        name: "calls that EC2 cannot answer are repeated, and buy nothing twice",
        proof: |world| failing(world, "unanswered", ("InternalError", 500)).boxed_local(),
    }],
    &[Behaviour {
        name: "an API server that stands still loses nothing",
        proof: |world| standing_still(world, "slow-server", "kube-apiserver").boxed_local(),
    }],
    &[Behaviour {
        name: "an etcd that stands still loses nothing",
        proof: |world| standing_still(world, "slow-etcd", "etcd").boxed_local(),
    }],
    &[Behaviour {
        name: "a controller that stood still beyond its Lease goes on or gives way",
        proof: |world| standing_still(world, "sleeper", "controller").boxed_local(),
    }],
];

/// Launches and everything that looks at instances fail for a while, more often than one call is tried.
async fn failing(world: &World, name: &'static str, (code, status): (&str, u16)) -> Result<()> {
    const FAILURES: i64 = 12;
    let corner = Corner::open(world, name).await?;
    corner.ready_pool(name, json!({})).await?;
    let control = world.control()?;
    for action in ["CreateFleet", "DescribeInstances", "CreateTags"] {
        let fault = Fault { status, service: Some("ec2".to_owned()), ..Fault::new(action, code, FAILURES) };
        control.fail(&fault).await?;
    }
    corner.pods("worker", PODS, a_node_each("worker")).await?;
    corner.running("worker", PODS).await?;
    let failed = control.calls().await?.log;
    let launches = failed
        .iter()
        .filter(|call| call.action == "CreateFleet" && call.error.as_deref() == Some(code))
        .count();
    control.stop_failing().await?;
    ensure!(launches > 0, "no launch has met `{code}`: nothing was proven");
    bought_once(world, name).await
}

/// A program stops in the middle of launches, as one does whose disk or memory is used up. No other controller leads
/// meanwhile, so all that can happen to ours is that it goes on, or loses its Lease and is started again.
async fn standing_still(world: &World, name: &'static str, program: &str) -> Result<()> {
    let corner = Corner::open(world, name).await?;
    corner.ready_pool(name, json!({})).await?;
    corner.pods("worker", PODS, a_node_each("worker")).await?;
    wait::until("the first claim", || async {
        Ok(if corner.claims().await?.is_empty() { Err("none".to_owned()) } else { Ok(()) })
    })
    .await?;
    world.hold(program, STANDSTILL).await?;
    corner.running("worker", PODS).await?;
    world.check_controller().await?;
    bought_once(world, name).await
}

/// Every instance that a pool ever had, whatever became of it, is one that a pod needed.
async fn bought_once(world: &World, pool: &str) -> Result<()> {
    let of_pool = Filter::tag(names::label::NODE_POOL, pool);
    let query = InstanceQuery { ids: Vec::new(), filters: vec![of_pool] };
    let bought =
        world.aws.ec2.describe_instances(&query).await.context("describe instances of all states")?.len();
    ensure!(bought == PODS, "{bought} instances were bought for {PODS} pods that share no node");
    Ok(())
}
