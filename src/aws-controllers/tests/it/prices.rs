//! Prices are read in the background, each kind by itself, and it shows where they come from.

use std::time::Duration;

use karpenter_aws_sim::Fault;
use serde_json::json;

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
