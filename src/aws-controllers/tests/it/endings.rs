//! Many machines that end at once, and what that costs in calls (spec aws-provider 5.8).

use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::NodeClaim;
use karpenter_aws_sim::{CallRecord, Options};
use karpenter_model::names::annotation;
use karpenter_testkit::objects::{node_claim, one_of};
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::workload::{claims, one_per_node, pool_of};
use crate::world::World;

const MINUTE: Duration = Duration::from_mins(1);
/// Period of the looks at all objects where the second counts.
const SOON: Duration = Duration::from_secs(1);
/// Period of the looks at all objects where the second does not count: reading six hundred objects takes longer than all
/// else here.
const LATER: Duration = Duration::from_secs(20);
/// Time that EC2 takes to end a machine here, so that there are minutes in which all that happens is waiting.
const SHUTDOWN: Duration = Duration::from_mins(4);

/// Most calls of an operation within any minute that begins at `from` or later.
fn most_in_a_minute(calls: &[CallRecord], operation: &str, from: Timestamp) -> usize {
    let at: Vec<Timestamp> = calls
        .iter()
        .filter(|call| call.operation == operation && call.at >= from)
        .map(|call| call.at)
        .collect();
    let within = |start: &Timestamp| at.iter().filter(|at| *start <= **at && **at < *start + MINUTE).count();
    at.iter().map(within).max().unwrap_or_default()
}

/// A claim as the planner makes it. There are no pods on its node: how long those take to go is not of interest here.
fn claim(name: &str, pool: &str, instance_type: &str) -> Value {
    let requirements = [
        one_of("karpenter.sh/capacity-type", &["on-demand"]),
        one_of("node.kubernetes.io/instance-type", &[instance_type]),
    ];
    let labels = json!({"karpenter.sh/nodepool": pool});
    let change = json!({"metadata": {"labels": labels}, "spec": {"resources": {"requests": {"cpu": "1"}}}});
    node_claim(name, &requirements, &change)
}

fn launched(world: &World, pool: &str, count: usize) -> bool {
    let of_pool = |claim: &&NodeClaim| {
        claim.labels().get("karpenter.sh/nodepool").is_some_and(|name| name == pool)
            && claim.status.as_ref().is_some_and(|status| status.provider_id.is_some())
    };
    claims(world).iter().filter(of_pool).count() == count
}

async fn within(limit: Duration, every: Duration, what: &str, reached: impl AsyncFn() -> bool) {
    let started = Instant::now();
    while !reached().await {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(every).await;
    }
}

/// Time until this number of new pods of a pool have a machine each.
async fn launch(world: &World, round: usize, each: usize) -> Duration {
    let started = Instant::now();
    one_per_node(world, &format!("beside-{round}"), each, "beside");
    within(5 * MINUTE, SOON, "machines beside", async || launched(world, "beside", round * each)).await;
    started.elapsed()
}

/// Number of machines that end: few enough for every run; the variable sets another number, with the same bounds.
fn machines() -> usize {
    std::env::var("ENDING_MACHINES").map_or(100, |text| text.parse().expect("`ENDING_MACHINES` is a number"))
}

#[tokio::test(start_paused = true)]
async fn machines_that_end_at_once_cost_few_calls_and_launches_beside_them_do_not_wait() {
    const BESIDE: usize = 20;
    let machines = machines();
    let world = World::large(Options { shutdown_delay: SHUTDOWN, ..World::options() }).await;
    // Limits that an account has to begin with, and no more.
    for (operation, burst, per_second) in
        [("DescribeInstances", 100, 20), ("TerminateInstances", 100, 5), ("CreateTags", 50, 5)]
    {
        world.account.throttle(operation, burst, per_second);
    }
    world.class("default", &json!({}));
    world.until_ready("default").await;
    pool_of(&world, "many", "m5.large");
    pool_of(&world, "beside", "c5.large");
    for number in 0..machines {
        world.load(&claim(&format!("many-{number:03}"), "many", "m5.large"));
    }
    within(10 * MINUTE, LATER, "the machines are there", async || world.nodes() == machines).await;
    let in_peace = launch(&world, 1, BESIDE).await;
    // Everything that follows a launch is over.
    let tagged = |claim: &NodeClaim| claim.annotations().contains_key(annotation::aws::TAGGED);
    within(20 * MINUTE, LATER, "all have names", async || claims(&world).iter().all(tagged)).await;
    world.account.forget_calls();

    let began = world.now();
    for claim in claims(&world) {
        if claim.labels()["karpenter.sh/nodepool"] == "many" {
            world.delete::<NodeClaim>(&claim.name_any()).await;
        }
    }
    let at_the_start = launch(&world, 2, BESIDE).await;
    tokio::time::sleep(MINUTE).await;
    let amid = launch(&world, 3, BESIDE).await;
    within(3 * SHUTDOWN, LATER, "the machines are gone", async || claims(&world).len() == 3 * BESIDE).await;

    let calls = world.account.calls().0;
    let describes = most_in_a_minute(&calls, "DescribeInstances", began);
    let terminations = most_in_a_minute(&calls, "TerminateInstances", began + MINUTE);
    assert!(describes <= 20, "{describes} describe calls in a minute");
    assert!(terminations <= 5, "{terminations} terminate calls in a minute");
    let ending = calls.iter().filter(|call| call.operation == "TerminateInstances").count();
    assert!(ending <= 10, "{ending} terminate calls in all");
    let of_machines = ["DescribeInstances", "TerminateInstances", "CreateFleet", "CreateTags"];
    let refused: Vec<&CallRecord> =
        calls.iter().filter(|call| call.failure.is_some() && of_machines.contains(&call.operation)).collect();
    assert!(refused.is_empty(), "{refused:?}");
    for beside in [at_the_start, amid] {
        assert!(beside <= in_peace + Duration::from_secs(1), "{beside:?} beside, {in_peace:?} in peace");
    }
    let running = world.account.live_instances().len();
    assert_eq!(running, 3 * BESIDE, "ended nothing else");
}
