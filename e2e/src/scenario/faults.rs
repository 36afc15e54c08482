//! Faults around the controller: an account that throttles, fails and does not yet return what it has sold, machines that die
//! while they boot, hundreds of notices at once, an API server and an etcd that stand still or die, a controller that itself
//! stands still beyond its Lease. Pods get their nodes afterwards, and no node is bought twice.
//!
//! Each fault is one of the whole world, so the behaviours follow one another. Those of processes need the cluster
//! `local`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::FutureExt;
use karpenter_api::NodeClaim;
use karpenter_aws_api::Filter;
use karpenter_aws_api::ec2::InstanceQuery;
use karpenter_aws_api::id::InstanceId;
use karpenter_model::names;
use serde_json::json;

use super::behaviour::{self, Behaviour, Only, clear_away};
use super::facts;
use super::test_namespace::{TestNamespace, a_node_each};
use super::worker::Worker;
use crate::account::control::{Fault, Notice};
use crate::wait;
use crate::world::World;

/// Pods of each behaviour, none of which share a node.
const PODS: usize = 4;
/// Time for which it stands still: twice what the controller gives a request before it gives it up.
const STANDSTILL: Duration = Duration::from_secs(40);
/// Time for which a program of the control plane is away.
const DEAD: Duration = Duration::from_secs(10);
/// Calls of an action that fail.
const FAILURES: i64 = 12;
/// Part of the two minutes that EC2 gives a spot machine in which the controller has to act.
const NOTICED_WITHIN: Duration = Duration::from_mins(1);

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
        proof: |world| failing(world, "throttled", LAUNCHES, ("RequestLimitExceeded", 503)).boxed_local(),
    }],
    &[Behaviour {
        name: "calls that EC2 cannot answer are repeated, and buy nothing twice",
        proof: |world| failing(world, "unanswered", LAUNCHES, ("InternalError", 500)).boxed_local(),
    }],
    &[Behaviour {
        name: "an instance that EC2 does not find yet is not bought again",
        proof: |world| failing(world, "unseen", LOOKS, ("InvalidInstanceID.NotFound", 400)).boxed_local(),
    }],
    &[Behaviour {
        name: "machines that die while they boot are replaced, each once",
        proof: |world| doomed(world).boxed_local(),
    }],
    &[Behaviour {
        name: "five hundred notices at once do not hide the one that counts",
        proof: |world| flooded(world).boxed_local(),
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
        name: "an API server that dies and comes back loses nothing",
        proof: |world| dying(world, "dead-server", "kube-apiserver").boxed_local(),
    }],
    &[Behaviour {
        name: "a controller that stood still beyond its Lease goes on or gives way",
        proof: |world| standing_still(world, "sleeper", "controller").boxed_local(),
    }],
];

/// Launches, and everything that looks at instances.
const LAUNCHES: &[&str] = &["CreateFleet", "DescribeInstances", "CreateTags"];
/// Operations that look at instances. EC2 is eventually consistent: for a while calls about an instance that it has sold say
/// that there is none. <https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html>
const LOOKS: &[&str] = &["DescribeInstances", "CreateTags"];

/// Actions of EC2 fail for a while, more often than one call is tried; the first of them is met for certain.
async fn failing(
    world: &World,
    name: &'static str,
    actions: &[&str],
    (code, status): (&str, u16),
) -> Result<()> {
    let test = TestNamespace::open(world, name).await?;
    test.ready_pool(name, json!({})).await?;
    let control = world.control()?;
    for action in actions {
        let fault = Fault { status, service: Some("ec2".to_owned()), ..Fault::new(action, code, FAILURES) };
        control.fail(&fault).await?;
    }
    test.pods("worker", PODS, a_node_each("worker")).await?;
    test.running("worker", PODS).await?;
    let log = control.calls().await?.log;
    control.stop_failing().await?;
    let action = actions[0];
    let struck = log.iter().any(|call| call.action == action && call.error.as_deref() == Some(code));
    ensure!(struck, "no `{action}` has met `{code}`: nothing was proven");
    bought(world, name, PODS).await
}

/// Two of the machines end as soon as they are claimed, as those do whose image or volume EC2 cannot read.
async fn doomed(world: &World) -> Result<()> {
    const DOOMED: usize = 2;
    let test = launching(world, "doomed").await?;
    let instances = wait::until("two claims with an instance", || async {
        let claims = test.claims().await?;
        let ids = claims.iter().filter_map(|claim| claim.status.as_ref()?.provider_id.clone());
        let ids: Vec<String> = ids.take(DOOMED).collect();
        Ok(if ids.len() == DOOMED { Ok(ids) } else { Err(format!("{} have one", ids.len())) })
    })
    .await?;
    for id in &instances {
        let id = InstanceId::from(facts::instance_of(id));
        world.aws.ec2.terminate_instances(&[id]).await.context("end a machine that boots")?;
    }
    test.running("worker", PODS).await?;
    wait::until("the claims of machines that are gone to be gone", || async {
        let claims = test.claims().await?;
        let of_doomed = |claim: &&NodeClaim| {
            let id = claim.status.as_ref().and_then(|status| status.provider_id.as_ref());
            id.is_some_and(|id| instances.contains(id))
        };
        let left = claims.iter().filter(of_doomed).count();
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} are left")) })
    })
    .await?;
    bought(world, "doomed", PODS + DOOMED).await
}

/// An outage of EC2 in which notices about others' machines come in hundreds: those are dropped, and the one about a machine
/// of ours, which comes last, is acted on in time.
async fn flooded(world: &World) -> Result<()> {
    const NOTICES: usize = 500;
    let worker = Worker::start(world, "flooded").await?;
    let (control, region) = (world.control()?, &world.environment.region);
    for number in 0..NOTICES {
        let foreign = format!("i-{number:017x}");
        control.notify(Notice::SpotInterruption, region, &foreign, None).await?;
    }
    control.notify(Notice::SpotInterruption, region, worker.instance()?, None).await?;
    worker.is_replaced(Instant::now(), NOTICED_WITHIN).await?;
    bought(world, "flooded", 2).await
}

/// A program stops in the middle of launches, as one does whose disk or memory is used up. No other controller leads
/// meanwhile, so all that can happen to ours is that it goes on, or loses its Lease and is started again.
async fn standing_still(world: &World, name: &'static str, program: &str) -> Result<()> {
    let test = launching(world, name).await?;
    world.hold(program, STANDSTILL).await?;
    go_on(&test).await
}

/// A program of the control plane dies in the middle of launches and comes back: every watch is cut, and begins with a new
/// list.
async fn dying(world: &World, name: &'static str, program: &str) -> Result<()> {
    let test = launching(world, name).await?;
    world.restart(program, DEAD).await?;
    go_on(&test).await
}

/// A namespace in which pods wait and the first claim is made.
async fn launching<'a>(world: &'a World, name: &'static str) -> Result<TestNamespace<'a>> {
    let test = TestNamespace::open(world, name).await?;
    test.ready_pool(name, json!({})).await?;
    test.pods("worker", PODS, a_node_each("worker")).await?;
    wait::until("the first claim", || async {
        Ok(if test.claims().await?.is_empty() { Err("none".to_owned()) } else { Ok(()) })
    })
    .await?;
    Ok(test)
}

/// The pods get their nodes all the same, one each.
async fn go_on(test: &TestNamespace<'_>) -> Result<()> {
    test.running("worker", PODS).await?;
    test.world.check_controller().await?;
    bought(test.world, test.name, PODS).await
}

/// Checks that a pool has had `needed` instances, including those that are gone: one for each need of a pod.
async fn bought(world: &World, pool: &str, needed: usize) -> Result<()> {
    let of_pool = Filter::tag(names::label::NODE_POOL, pool);
    let query = InstanceQuery { ids: Vec::new(), filters: vec![of_pool] };
    let bought =
        world.aws.ec2.describe_instances(&query).await.context("describe instances of all states")?.len();
    ensure!(bought == needed, "{bought} instances were bought where {needed} were needed");
    Ok(())
}
