//! Incidents of other autoscalers, replayed on AWS (`docs/reference/edge-cases-incidents.md`).

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_api::{ConditionStatus, NodeClaim};
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{Image, ImageQuery, ImageState, SecurityGroup, Subnet};
use karpenter_aws_sim::{Fault, OfferingSelector};
use karpenter_kube_sim::apiserver::{Fault as ApiFault, Rule};
use kube::ResourceExt;
use serde_json::json;
use tokio::time::Instant;

use crate::interruption::{left, listen, send, spot_warning};
use crate::workload::{self, claims, one_per_node, pool_of, runs};
use crate::world::World;

const MINUTE: Duration = Duration::from_mins(1);

async fn running(nodes: usize) -> World {
    let world = World::ready().await;
    pool_of(&world, "web", "m5.large");
    one_per_node(&world, "web", nodes, "web");
    world.until("all pods run", async || runs(&world) && claims(&world).len() == nodes).await;
    world
}

fn is_drifted(claim: &NodeClaim) -> bool {
    let conditions = claim.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|one| one.kind == "Drifted" && one.status == ConditionStatus::True)
}

fn names(world: &World) -> BTreeSet<String> {
    claims(world).iter().map(ResourceExt::name_any).collect()
}

/// Hides everything the node class selects, subnets, security groups and images, or shows it again.
async fn show(world: &World, shown: bool) {
    let ec2 = world.account.clients().ec2;
    let tags =
        if shown { Tags::from([("karpenter.sh/discovery".into(), "demo".into())]) } else { Tags::new() };
    for subnet in ec2.describe_subnets(&Default::default()).await.unwrap() {
        world.account.put_subnet(Subnet { tags: tags.clone(), ..subnet });
    }
    for group in ec2.describe_security_groups(&Default::default()).await.unwrap() {
        world.account.put_security_group(SecurityGroup { tags: tags.clone(), ..group });
    }
    let state = ImageState::from(if shown { "available" } else { "disabled" });
    let all = ImageQuery { include_deprecated: true, ..ImageQuery::default() };
    for image in ec2.describe_images(&all).await.unwrap().items {
        world.account.put_image(Image { state: state.clone(), ..image });
    }
}

#[tokio::test(start_paused = true)]
async fn answers_without_images_subnets_groups_and_types_make_no_node_drift() {
    let world = running(3).await;
    let (before, instances) = (names(&world), world.account.live_instances().len());
    show(&world, false).await;
    world.account.inject(Fault::fail("DescribeInstanceTypes", "InternalError"));
    world.account.inject(Fault::fail("DescribeInstanceTypeOfferings", "InternalError"));
    let not_found = (ConditionStatus::False, "SubnetsNotFound");
    world.until_condition("default", "SubnetsReady", not_found).await;
    world
        .until_condition("default", "SecurityGroupsReady", (ConditionStatus::False, "SecurityGroupsNotFound"))
        .await;
    world.until_condition("default", "AMIsReady", (ConditionStatus::False, "AMINotFound")).await;
    let unharmed = async || {
        assert!(!claims(&world).iter().any(is_drifted));
        assert_eq!(names(&world), before);
        assert_eq!(world.account.live_instances().len(), instances);
    };
    for _ in 0..60 {
        tokio::time::sleep(MINUTE).await;
        unharmed().await;
    }
    world.account.heal();
    show(&world, true).await;
    world.until_ready("default").await;
    for _ in 0..30 {
        tokio::time::sleep(MINUTE).await;
        unharmed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_capacity_for_one_pool_costs_few_calls_and_the_other_pools_nothing() {
    let world = World::new().await;
    world.class("default", &json!({}));
    pool_of(&world, "sold-out", "m5.large");
    pool_of(&world, "fine", "c5.large");
    let sold_out = OfferingSelector { instance_type: Some("m5.large".into()), ..Default::default() };
    world.account.limit_capacity(sold_out.clone(), 0);
    world.until_ready("default").await;
    one_per_node(&world, "storm", 20, "sold-out");
    let live = || world.account.live_instances().len();
    for round in 1..=6 {
        one_per_node(&world, &format!("web-{round}"), 1, "fine");
        let started = Instant::now();
        world.until("the other pool launches", async || live() == round).await;
        assert!(started.elapsed() < MINUTE, "{:?}", started.elapsed());
        tokio::time::sleep_until(started + 10 * MINUTE).await;
    }
    let created = world.metrics.nodeclaims.created_total.value(["provisioned", "sold-out", "false"]);
    let fleets = world.account.calls().count("CreateFleet");
    // Nothing else would do for these pods, so a round comes every three minutes, in which spot and on-demand are tried
    // by twenty claims: between two rounds nothing is asked for.
    assert!((20..=850).contains(&created), "{created} claims in an hour");
    assert!(fleets <= 860, "{fleets} fleets in an hour");
    world.account.unlimit_capacity(&sold_out);
    let started = Instant::now();
    world.until("capacity is used when it is back", async || live() == 26).await;
    assert!(started.elapsed() < 4 * MINUTE, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_minute_of_throttling_is_met_with_few_calls_and_is_over_when_it_is_over() {
    const CLAIMS: usize = 100;
    let world = World::new().await;
    world.class("default", &json!({}));
    pool_of(&world, "web", "m5.large");
    world.until_ready("default").await;
    let over = world.now() + MINUTE;
    for operation in ["CreateFleet", "CreateLaunchTemplate", "DescribeLaunchTemplates", "DescribeInstances"] {
        world.account.inject(Fault::fail(operation, "RequestLimitExceeded").until(over));
    }
    world.account.forget_calls();
    one_per_node(&world, "web", CLAIMS, "web");
    tokio::time::sleep(MINUTE).await;
    let counts = world.account.calls().counts();
    let launching = |operation: &str| counts.get(operation).copied().unwrap_or_default();
    let calls: usize =
        ["CreateFleet", "CreateLaunchTemplate", "DescribeLaunchTemplates"].into_iter().map(launching).sum();
    assert!(calls <= 10 * CLAIMS, "{counts:?}");
    let live = || world.account.live_instances().len();
    assert_eq!(live(), 0);
    let started = Instant::now();
    world.until("everything is launched", async || live() == CLAIMS).await;
    assert!(started.elapsed() <= MINUTE, "{:?}", started.elapsed());
    assert_eq!(claims(&world).len(), CLAIMS, "no claim was given up");
    workload::until_running(&world).await;
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_interruptions_at_once_are_acted_on_within_seconds() {
    const NODES: u32 = 200;
    let world = World::new().await;
    listen(&world).await;
    world.class("default", &json!({}));
    world.until_ready("default").await;
    pool_of(&world, "web", "m5.large");
    let count = usize::try_from(NODES).unwrap();
    one_per_node(&world, "web", count, "web");
    world.until("all pods run", async || runs(&world) && claims(&world).len() == count).await;
    // Duration of a call on a real day.
    world
        .server
        .faults()
        .inject(Rule::on("delete").resource("nodeclaims"), ApiFault::Delay(Duration::from_millis(50)));
    for operation in ["ReceiveMessage", "DeleteMessage"] {
        world.account.inject(Fault::delay(operation, Duration::from_millis(20)));
    }
    world.account.forget_calls();
    for instance in world.account.live_instances() {
        send(&world, &spot_warning(instance.id.as_str())).await;
    }
    let started = Instant::now();
    let acted = async || {
        let going = claims(&world);
        going.iter().filter(|claim| claim.metadata.deletion_timestamp.is_some()).count() >= count
            || world.disrupted(["spot_interrupted", "web", "spot", "", "graceful"]) >= u64::from(NODES)
    };
    while !acted().await {
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let polls = world.account.calls().count("ReceiveMessage");
    assert!(polls <= count / 10 + 25, "{polls} polls");
    world.until("the queue is empty", async || left(&world).await == "0").await;
}

#[tokio::test(start_paused = true)]
async fn many_instances_that_are_scheduled_to_end_are_all_replaced() {
    const NODES: usize = 30;
    let world = World::new().await;
    listen(&world).await;
    world.class("default", &json!({}));
    world.until_ready("default").await;
    pool_of(&world, "web", "m5.large");
    one_per_node(&world, "web", NODES, "web");
    world.until("all pods run", async || runs(&world) && claims(&world).len() == NODES).await;
    let old: BTreeSet<_> = world.account.live_instances().into_iter().map(|one| one.id).collect();
    for id in &old {
        world.account.schedule_event(id, "instance-retirement", world.now()).unwrap();
    }
    let started = Instant::now();
    world
        .until("every pod runs on another instance", async || {
            let live = world.account.live_instances();
            live.len() == NODES && live.iter().all(|one| !old.contains(&one.id)) && runs(&world)
        })
        .await;
    assert!(started.elapsed() <= 30 * MINUTE, "{:?}", started.elapsed());
    assert_eq!(left(&world).await, "0");
}
