//! Prices are read in the background, each kind by itself, and it shows where they come from.

use std::time::Duration;

use karpenter_aws_sim::{Fault, OfferingSelector};
use serde_json::json;

use crate::workload::{one_per_node, pool_of};
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn spot_prices_are_not_read_again_because_the_price_list_does_not_answer() {
    let world = World::new().await;
    world.account.inject(Fault::fail("GetProducts", "InternalError"));
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(world.account.calls().count("GetProducts") > 5, "it is asked again");
    assert_eq!(world.account.calls().count("DescribeSpotPriceHistory"), 1);
}

#[tokio::test(start_paused = true)]
async fn metrics_say_where_prices_come_from_and_how_old_they_are() {
    let world = World::new().await;
    world.account.inject(Fault::fail("GetProducts", "InternalError").times(40));
    world.class("default", &json!({}));
    world.until_ready("default").await;
    let value = |line: &str| {
        let lines = world.metrics.render();
        let line = lines.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(' ').map(str::to_owned));
        line.map(|number| number.parse::<f64>().unwrap())
    };
    let priced = |kind: &str, source: &str| {
        let name = "karpenter_cloudprovider_instance_types_priced";
        value(&format!("{name}{{capacity_type=\"{kind}\",source=\"{source}\"}}"))
    };
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(priced("on-demand", "estimate") > Some(0.0) && priced("on-demand", "aws") == Some(0.0));
    assert!(priced("spot", "aws") > Some(0.0) && priced("spot", "estimate") == Some(0.0));
    tokio::time::sleep(Duration::from_hours(3)).await;
    assert!(priced("on-demand", "aws") > Some(0.0) && priced("on-demand", "estimate") == Some(0.0));
    let age = |kind: &str| {
        let name = "karpenter_cloudprovider_price_age_seconds";
        value(&format!("{name}{{capacity_type=\"{kind}\",source=\"aws\"}}"))
    };
    let (on_demand, spot) = (age("on-demand").unwrap(), age("spot").unwrap());
    assert!(on_demand < spot && spot > 10_000.0 && spot < 12_000.0, "{on_demand} {spot}");
}

#[tokio::test(start_paused = true)]
async fn price_and_availability_of_each_offering_are_exported() {
    let world = World::new().await;
    let sold_out = OfferingSelector { instance_type: Some("c5.large".into()), ..Default::default() };
    world.account.limit_capacity(sold_out, 0);
    world.class("default", &json!({}));
    world.until_ready("default").await;
    pool_of(&world, "web", "c5.large");
    one_per_node(&world, "web", 1, "web");
    pool_of(&world, "other", "m5.large");
    let of = |family: &str, instance_type: &str, way: &str, zone: &str| {
        let labels = format!("capacity_type=\"{way}\",instance_type=\"{instance_type}\",zone=\"{zone}\"");
        let name = format!("karpenter_cloudprovider_instance_type_offering_{family}{{{labels}}} ");
        let text = world.metrics.render();
        text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<f64>().ok())
    };
    world
        .until("c5.large is known to be sold out", async || {
            of("available", "c5.large", "on-demand", "us-west-2a") == Some(0.0)
        })
        .await;
    for zone in ["us-west-2a", "us-west-2b"] {
        for way in ["on-demand", "spot"] {
            assert_eq!(of("available", "m5.large", way, zone), Some(1.0), "{way} {zone}");
        }
        assert_eq!(of("price_estimate", "m5.large", "on-demand", zone), Some(0.096));
        let nanos = world.account.spot_price("m5.large", zone).unwrap();
        let spot = format!("{nanos}e-9").parse::<f64>().unwrap();
        assert_eq!(of("price_estimate", "m5.large", "spot", zone), Some(spot));
        assert!(of("price_estimate", "c5.large", "on-demand", zone) > Some(0.0), "sold out is not free");
    }
}
