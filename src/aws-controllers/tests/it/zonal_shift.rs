//! Zones the cluster is shifted away from get nothing and lose nothing (spec aws-provider 11).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::ToSpan;
use karpenter_aws_api::id::ZoneId;
use karpenter_aws_sim::Fault as AwsFault;
use karpenter_kube_sim::apiserver::{Fault, Rule};
use karpenter_testkit::objects::{on_port_80, replica_set, with};
use serde_json::json;
use tokio::time::Instant;

use crate::workload::pool;
use crate::world::World;

const MINUTE: Duration = Duration::from_mins(1);

/// A cluster with one pool, and the ids of its zones by name.
async fn cluster(registered: bool) -> (World, BTreeMap<String, ZoneId>) {
    let world = World::new().await;
    if registered {
        assert!(world.account.register_for_zonal_shifts("demo"));
    }
    world.class("default", &json!({}));
    world.until_ready("default").await;
    pool(&world, &["on-demand"]);
    let subnets = world.account.clients().ec2.describe_subnets(&Default::default()).await.unwrap();
    let ids = subnets.into_iter().map(|subnet| (subnet.zone.to_string(), subnet.zone_id.unwrap()));
    (world, ids.collect())
}

/// A pod that comes back when it is evicted, in a zone or wherever there is room on a node without another like it.
fn workload(world: &World, name: &str, zone: Option<&str>) {
    let selector = json!({"nodeSelector": zone.map(|zone| json!({"topology.kubernetes.io/zone": zone}))});
    world.load(&replica_set(name, 1, "1", &with(on_port_80("1"), &selector)));
}

/// Ids of the running instances, by zone.
fn instances(world: &World) -> BTreeMap<String, Vec<String>> {
    let mut zones = BTreeMap::<String, Vec<String>>::new();
    for instance in world.account.live_instances() {
        zones.entry(instance.zone.to_string()).or_default().push(instance.id.to_string());
    }
    zones
}

#[tokio::test(start_paused = true)]
async fn a_zone_the_cluster_is_shifted_away_from_gets_nothing_and_loses_nothing_until_it_is_over() {
    let (world, ids) = cluster(true).await;
    let zones: Vec<&str> = ids.keys().map(String::as_str).collect();
    let (near, far) = (zones[0], zones[1]);
    workload(&world, "near", Some(near));
    workload(&world, "far", Some(far));
    world.until("both zones have a node", async || instances(&world).len() == 2).await;
    let before = instances(&world);

    world.account.shift_away(&ids[far], Some(world.now() + 1.hour()));
    world.until("the shift is reported", async || world.told("ZonalShiftActive").len() == 1).await;
    assert!(world.told("ZonalShiftActive")[0].contains(far), "{:?}", world.told("ZonalShiftActive"));
    world.class_tag("default", "team", "web").await;
    workload(&world, "anywhere", None);
    workload(&world, "only-far", Some(far));
    let replaced =
        async || instances(&world)[near].len() == 2 && instances(&world)[near][0] != before[near][0];
    world.until("the other zone launches and is replaced", replaced).await;
    tokio::time::sleep(20 * MINUTE).await;
    assert_eq!(instances(&world)[far], before[far], "nothing goes, nothing comes");

    world.until("its end is reported", async || world.told("ZonalShiftCleared").len() == 1).await;
    let over = async || {
        let there = instances(&world);
        there[far].len() == 2 && !there[far].contains(&before[far][0])
    };
    world.until("what waited is launched, what drifted is replaced", over).await;
    assert_eq!(world.told("ZonalShiftActive").len(), 1, "once for each change");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_registered_works_as_any_other_until_it_is() {
    let (world, ids) = cluster(false).await;
    let far = ids.keys().next_back().unwrap().as_str();
    world.account.shift_away(&ids[far], None);
    workload(&world, "far", Some(far));
    world.until("it is launched", async || instances(&world).contains_key(far)).await;
    let asked = world.account.calls().count("GetManagedResource");
    tokio::time::sleep(60 * MINUTE).await;
    let asked = world.account.calls().count("GetManagedResource") - asked;
    assert!((1..=13).contains(&asked), "{asked} calls in an hour");
    assert_eq!(world.told("ZonalShiftActive").len(), 0);
    world.account.register_for_zonal_shifts("demo");
    world.until("it is followed", async || world.told("ZonalShiftActive").len() == 1).await;
    world.account.cancel_shift(&ids[far]);
    world.until("it is over", async || world.told("ZonalShiftCleared").len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_shift_is_known_before_the_cluster_is_and_told_when_everybody_can_be() {
    // Nothing has run yet: the controllers begin with the first wait.
    let world = World::without_role();
    assert!(world.account.register_for_zonal_shifts("demo"));
    world.account.inject(AwsFault::fail("GetManagedResource", "InternalServerException").times(2));
    for verb in ["list", "watch"] {
        world.server.faults().inject(Rule::on(verb).resource("nodes"), Fault::InternalError);
    }
    let subnets = world.account.clients().ec2.describe_subnets(&Default::default()).await.unwrap();
    world.account.shift_away(subnets[0].zone_id.as_ref().unwrap(), None);
    world.class("default", &json!({}));
    pool(&world, &["on-demand"]);
    let started = Instant::now();
    world.until("it is known", async || !world.aws.zonal_shifts.away().is_empty()).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    tokio::time::sleep(10 * MINUTE).await;
    assert!(!world.view.unlisted().is_empty());
    assert_eq!(world.told("ZonalShiftActive").len(), 0, "the cluster is not known");
    let asked = world.account.calls().count("GetManagedResource");
    assert!(asked <= 30, "{asked} calls in ten minutes");

    world.server.faults().clear();
    world.until("the shift is reported", async || !world.told("ZonalShiftActive").is_empty()).await;
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(world.told("ZonalShiftActive").len(), 1);
}
