//! Sources of prices, their order, and the prices when one is missing or wrong.

use karpenter_aws::market::prices::{Book, Known, Outcome, Source};
use karpenter_aws_sim::{Fault, Options};
use karpenter_cloud::Provider;
use karpenter_model::{CapacityType, Price};

use crate::world::{World, pool, request};

fn on_demand(book: &Book, name: &str) -> Option<(String, Source)> {
    book.on_demand(name).map(|Known { price, source }| (price.to_string(), source))
}

fn of(text: &str, source: Source) -> (String, Source) {
    (text.to_owned(), source)
}

async fn in_region(region: &str) -> World {
    let options = Options { zones: 2, region: region.to_owned(), ..Options::default() };
    World::with(options, |_| {}).await
}

#[tokio::test(start_paused = true)]
async fn prices_know_their_source_and_survive_failed_refreshes() {
    let world = World::new().await;
    let prices = &world.provider.prices;
    let before = prices.book();
    let price = before.on_demand("m5.large").expect("is priced");
    assert_eq!(price.source, Source::Aws);
    assert_eq!(before.on_demand("no.such"), None, "unpriced is not free");
    let spot = before.spot("m5.large", "us-west-2a").expect("is priced");
    assert!(spot.price < price.price && spot.source == Source::Aws);
    assert_eq!(before.spot("m5.large", "us-west-2z"), None);
    world.account.inject(Fault::fail("GetProducts", "InternalError"));
    assert!(prices.refresh_on_demand().await.is_err());
    assert_eq!(prices.book().on_demand("m5.large"), Some(price));
    assert_eq!(prices.book().revision, before.revision);
}

#[tokio::test(start_paused = true)]
async fn prices_that_are_told_again_change_nothing() {
    let world = World::new().await;
    let prices = &world.provider.prices;
    let (before, listed) = (prices.book(), world.provider.instance_types(&pool()).await.expect("lists"));
    prices.refresh_on_demand().await.expect("prices are read");
    prices.refresh_spot().await.expect("spot prices are read");
    assert_eq!(prices.book().revision, before.revision);
    let again = world.provider.instance_types(&pool()).await.expect("lists");
    assert!(std::sync::Arc::ptr_eq(&listed, &again), "nothing is joined again");
    world.account.set_on_demand_price("m5.large", 1);
    prices.refresh_on_demand().await.expect("prices are read");
    assert_ne!(prices.book().revision, before.revision);
}

#[tokio::test(start_paused = true)]
async fn a_price_of_zero_is_no_price_and_one_a_hundred_times_too_high_concerns_only_its_offering() {
    let world = World::new().await;
    let prices = &world.provider.prices;
    let before = prices.book();
    let known = before.on_demand("m5.large").expect("is priced");
    world.account.set_on_demand_price("m5.large", 0);
    world.account.set_spot_price("m5.large", "us-west-2a", 0);
    let dear = 100 * world.account.on_demand_price("c5.large").expect("is priced");
    world.account.set_spot_price("c5.large", "us-west-2a", dear);
    prices.refresh_on_demand().await.expect("prices are read");
    prices.refresh_spot().await.expect("spot prices are read");
    let after = prices.book();
    assert_eq!(after.on_demand("m5.large"), Some(known), "the price before stays");
    assert_eq!(after.spot("m5.large", "us-west-2a"), before.spot("m5.large", "us-west-2a"));
    assert_eq!(after.spot("c5.large", "us-west-2b"), before.spot("c5.large", "us-west-2b"));
    let spot = after.spot("c5.large", "us-west-2a").map(|known| known.price);
    assert!(spot > after.on_demand("c5.large").map(|known| known.price));
    for number in 0..3 {
        let launched = world.provider.launch(&request(&format!("web-{number}"))).await.expect("launches");
        let place = (launched.instance_type.as_str(), launched.zone.as_str());
        assert_ne!(place, ("c5.large", "us-west-2a"), "the expensive offering is left alone");
    }
}

#[tokio::test(start_paused = true)]
async fn before_the_first_refresh_prices_are_those_of_the_largest_region_and_say_that_they_are_estimates() {
    let world = World::new().await;
    let fresh = world.unpriced(None).await;
    let book = fresh.prices.book();
    for (name, price) in [("m5.large", "$0.0960"), ("c5.large", "$0.0850"), ("m7g.large", "$0.0816")] {
        assert_eq!(on_demand(&book, name), Some(of(price, Source::Estimate)), "{name}");
    }
    let spot = book.spot("m5.large", "us-west-2a");
    assert_eq!(spot, book.on_demand("m5.large"), "as long as nothing is known it is the same");
    fresh.prices.refresh_spot().await.expect("spot prices are read");
    let listed = fresh.instance_types(&pool()).await.expect("lists");
    let marks = listed.iter().flat_map(|one| &one.offerings).filter(|offering| offering.available);
    let marks = marks.map(|offering| (offering.capacity_type, offering.estimated));
    let marks: std::collections::BTreeSet<_> = marks.collect();
    assert_eq!(marks, [(CapacityType::Spot, false), (CapacityType::OnDemand, true)].into());
}

#[tokio::test(start_paused = true)]
async fn regions_whose_price_list_cannot_be_asked_have_their_own_figures() {
    let world = in_region("us-gov-west-1").await;
    let prices = &world.provider.prices;
    assert_eq!(prices.refresh_on_demand().await.expect("nothing fails"), Outcome::Skipped);
    assert_eq!(world.account.calls().count("GetProducts"), 0);
    let book = prices.book();
    assert_eq!(on_demand(&book, "p3.2xlarge"), Some(of("$3.6720", Source::BuiltIn)));
    assert_eq!(on_demand(&book, "g4dn.4xlarge"), Some(of("$1.5180", Source::BuiltIn)));
    assert_eq!(
        on_demand(&in_region("cn-north-1").await.unpriced(None).await.prices.book(), "c5.large"),
        Some(of("$0.7390", Source::BuiltIn))
    );
    let neighbour = in_region("cn-northwest-1").await.unpriced(None).await;
    assert_eq!(
        on_demand(&neighbour.prices.book(), "c5.large"),
        Some(of("$0.7390", Source::Estimate)),
        "in yuan too"
    );
}

#[tokio::test(start_paused = true)]
async fn a_price_file_counts_before_aws_and_is_read_again_when_it_changes() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.csv");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write("instance_type,price_per_hour\nm5.large,0.192\n");
    let provider = world.unpriced(Some(path.clone())).await;
    let prices = &provider.prices;
    assert_eq!(prices.refresh_file().await.expect("is usable"), Outcome::Refreshed);
    let book = prices.book();
    assert_eq!(on_demand(&book, "m5.large"), Some(of("$0.1920", Source::File)));
    let what = "twice as expensive as in the largest region, like the type that is known";
    assert_eq!(on_demand(&book, "c5.large"), Some(of("$0.1700", Source::Estimate)), "{what}");

    prices.refresh_on_demand().await.expect("prices are read");
    assert_eq!(on_demand(&prices.book(), "m5.large"), Some(of("$0.1920", Source::File)));
    assert_eq!(prices.book().on_demand("c5.large").map(|known| known.source), Some(Source::Aws));

    let before = prices.book().revision;
    prices.refresh_file().await.expect("is usable");
    assert_eq!(prices.book().revision, before, "nothing has changed");
    write("instance_type,price_per_hour\nm5.large,0.2\nc5.large,cheap\n");
    let error = prices.refresh_file().await.expect_err("a line is wrong").to_string();
    assert!(error.contains("line 3, field `price_per_hour`"), "{error}");
    assert_eq!(prices.book().revision, before, "used as a whole or not at all");
    write("instance_type,price_per_hour\nc5.large,0.2\n");
    prices.refresh_file().await.expect("is usable");
    assert_eq!(on_demand(&prices.book(), "c5.large"), Some(of("$0.2000", Source::File)));
    assert_eq!(prices.book().on_demand("m5.large").map(|known| known.source), Some(Source::Aws));

    std::fs::remove_file(&path).unwrap();
    assert!(prices.refresh_file().await.is_err());
    assert_eq!(
        on_demand(&prices.book(), "c5.large"),
        Some(of("$0.2000", Source::File)),
        "the old prices stay"
    );
}

#[tokio::test(start_paused = true)]
async fn the_tally_says_how_many_types_have_their_price_from_where_and_how_old_it_is() {
    let world = World::new().await;
    let fresh = world.unpriced(None).await;
    let types = fresh.catalogue.contents().types.len();
    let tally = |provider: &karpenter_aws::AwsProvider| -> Vec<(CapacityType, Source, usize, bool)> {
        let rows = provider.prices.tally().into_iter().filter(|row| row.types > 0);
        rows.map(|row| (row.capacity_type, row.source, row.types, row.read.is_some())).collect()
    };
    let (on_demand, spot) = (CapacityType::OnDemand, CapacityType::Spot);
    let all = [(on_demand, Source::Estimate, types, false), (spot, Source::Estimate, types, false)];
    assert_eq!(tally(&fresh), all);
    fresh.prices.refresh_on_demand().await.expect("prices are read");
    fresh.prices.refresh_spot().await.expect("spot prices are read");
    let rows = tally(&fresh);
    assert_eq!(rows[0], (on_demand, Source::Aws, types, true));
    assert!(rows[1].0 == spot && rows[1].1 == Source::Aws && rows[1].3, "{rows:?}");
    assert_eq!(rows.len(), 2);
    assert!(fresh.prices.book().on_demand("m5.large").is_some_and(|known| known.price > Price::ZERO));
}
