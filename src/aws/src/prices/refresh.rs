//! Asking AWS for prices: the price list for on-demand, the spot history for spot.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_aws_client::ec2::SpotPriceQuery;
use karpenter_aws_client::pricing::ProductQuery;
use karpenter_aws_client::{Error, Result};
use karpenter_model::{InstanceTypeName, Price, Zone};

use super::{Prices, Source};

const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/// What a refresh did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// New prices are in the book.
    Refreshed,
    /// There is no price list to ask in this region or network; nothing changed.
    Skipped,
}

impl Prices {
    /// Refreshes on-demand prices: shared tenancy for virtual machines, dedicated for bare metal.
    ///
    /// # Errors
    /// When a query fails or answers nothing; the old prices stay.
    pub async fn refresh_on_demand(&self) -> Result<Outcome> {
        let region = self.clients.region.as_str();
        if self.isolated || region.starts_with("us-gov") {
            return Ok(Outcome::Skipped);
        }
        let (virtual_machines, bare_metal) = futures::try_join!(
            self.products("Shared", "Compute Instance"),
            self.products("Dedicated", "Compute Instance (bare metal)")
        )?;
        let now = self.clock.now();
        self.change(|book| {
            let mut prices = BTreeMap::clone(&book.on_demand);
            prices.extend(virtual_machines);
            prices.extend(bare_metal);
            book.on_demand = Arc::new(prices);
            book.on_demand_source = Source::Aws(now);
            true
        });
        Ok(Outcome::Refreshed)
    }

    async fn products(&self, tenancy: &str, family: &str) -> Result<BTreeMap<InstanceTypeName, Price>> {
        let region = self.clients.region.as_str();
        let currency = if region.starts_with("cn-") { "CNY" } else { "USD" };
        let attributes = [
            ("regionCode", region),
            ("serviceCode", "AmazonEC2"),
            ("preInstalledSw", "NA"),
            ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", family),
        ];
        let attributes =
            attributes.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let listing = self.clients.pricing.get_products(&ProductQuery { attributes }).await?;
        let priced = |product: &karpenter_aws_client::pricing::Product| {
            let price = product.prices.get(currency)?.parse::<Price>().ok()?;
            (price > Price::ZERO).then(|| (product.instance_type.as_str().into(), price))
        };
        let prices: BTreeMap<_, _> = listing.items.iter().filter_map(priced).collect();
        if prices.is_empty() {
            return Err(Error::invalid(
                "GetProducts",
                family,
                "the price list has no prices for this region",
            ));
        }
        Ok(prices)
    }

    /// Refreshes spot prices of all zones.
    ///
    /// # Errors
    /// When the query fails or answers nothing; the old prices stay.
    pub async fn refresh_spot(&self) -> Result<Outcome> {
        let now = self.clock.now();
        let products = SPOT_PRODUCTS.map(str::to_owned).to_vec();
        let query = SpotPriceQuery { start: now, products, types: Vec::new() };
        let listing = self.clients.ec2.describe_spot_price_history(&query).await?;
        let mut newest: BTreeMap<(InstanceTypeName, Zone), (jiff::Timestamp, Price)> = BTreeMap::new();
        for record in &listing.items {
            let Some(price) = record.price.parse::<Price>().ok().filter(|price| *price > Price::ZERO) else {
                continue;
            };
            let key = (record.instance_type.as_str().into(), record.zone.as_str().into());
            let known = newest.entry(key).or_insert((record.since, price));
            if record.since >= known.0 {
                *known = (record.since, price);
            }
        }
        if newest.is_empty() {
            return Err(Error::invalid("DescribeSpotPriceHistory", "all types", "the answer has no prices"));
        }
        self.change(|book| {
            let mut prices = BTreeMap::clone(&book.spot);
            for ((instance_type, zone), (_, price)) in newest {
                prices.entry(instance_type).or_default().insert(zone, price);
            }
            book.spot = Arc::new(prices);
            book.spot_source = Source::Aws(now);
            true
        });
        Ok(Outcome::Refreshed)
    }
}
