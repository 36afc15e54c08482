//! Reading prices: the file of people, the price list of AWS for on-demand, its history for spot.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_aws_api::ec2::SpotPriceQuery;
use karpenter_aws_api::pricing::ProductQuery;
use karpenter_aws_api::{Error, Partition, Result};
use karpenter_model::{InstanceTypeName, Price, Zone};

use super::currency_of;
use super::file;
use super::{Dated, Prices};

const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/// Outcome of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The prices read are in the book.
    Refreshed,
    /// There is nothing to ask: no price list in this region or network, no file; nothing changed.
    Skipped,
}

impl Prices {
    /// Reads the price file, if there is one and it has changed.
    ///
    /// # Errors
    /// When anything in it is wrong; the old prices stay.
    pub async fn refresh_file(&self) -> std::result::Result<Outcome, file::Error> {
        let Some(path) = &self.file else { return Ok(Outcome::Skipped) };
        let unreadable = |source| file::Error::Unreadable { path: path.clone(), source };
        let text = tokio::fs::read_to_string(path).await.map_err(unreadable)?;
        let written =
            tokio::fs::metadata(path).await.and_then(|about| about.modified()).map_err(unreadable)?;
        let contents = file::parse(path, &text, &self.clients.region)?;
        let written = jiff::Timestamp::try_from(written).unwrap_or_else(|_| self.clock.now());
        let told = Dated { read: contents.read.unwrap_or(written), prices: Arc::new(contents.prices) };
        self.change(|state| {
            if state.file.as_ref() == Some(&text) {
                return false;
            }
            state.file = Some(text);
            state.book.file = Some(told);
            self.estimate(state);
            true
        });
        Ok(Outcome::Refreshed)
    }

    /// Refreshes on-demand prices: shared tenancy for virtual machines, dedicated for bare metal.
    ///
    /// # Errors
    /// When a query fails or answers nothing; the old prices stay.
    pub async fn refresh_on_demand(&self) -> Result<Outcome> {
        if self.isolated || Partition::pricing_region(&self.clients.region).is_none() {
            return Ok(Outcome::Skipped);
        }
        let (virtual_machines, bare_metal) = futures::try_join!(
            self.products("Shared", "Compute Instance"),
            self.products("Dedicated", "Compute Instance (bare metal)")
        )?;
        let read = self.clock.now();
        self.change(|state| {
            let known = state.book.list.as_ref();
            let mut prices = known.map(|known| BTreeMap::clone(&known.prices)).unwrap_or_default();
            // A type that the answer leaves out keeps the price it had.
            prices.extend(virtual_machines);
            prices.extend(bare_metal);
            replace(&mut state.book.list, prices, read)
        });
        Ok(Outcome::Refreshed)
    }

    async fn products(&self, tenancy: &str, family: &str) -> Result<BTreeMap<InstanceTypeName, Price>> {
        let region = self.clients.region.as_str();
        let currency = currency_of(region);
        let attributes = [
            ("regionCode", region),
            ("serviceCode", "AmazonEC2"),
            // Without these the answer has rows of the same type for licences and for capacity that is
            // reserved and not used.
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
        let priced = |product: &karpenter_aws_api::pricing::Product| {
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
        // With a start of now EC2 answers with the last change before it, the price in effect (API reference,
        // DescribeSpotPriceHistory).
        let query = SpotPriceQuery { start: now, products, types: Vec::new() };
        let listing = self.clients.ec2.describe_spot_price_history(&query).await?;
        let mut newest: BTreeMap<(InstanceTypeName, Zone), (jiff::Timestamp, Price)> = BTreeMap::new();
        // The history of two products may have a type and zone twice: the newest price counts.
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
        self.change(|state| {
            let known = state.book.spot.as_ref();
            let mut prices = known.map(|known| BTreeMap::clone(&known.prices)).unwrap_or_default();
            for ((instance_type, zone), (_, price)) in newest {
                prices.entry(instance_type).or_default().insert(zone, price);
            }
            replace(&mut state.book.spot, prices, now)
        });
        Ok(Outcome::Refreshed)
    }
}

/// Records that `prices` were read at `read`; returns whether they differ from those before.
fn replace<T: PartialEq>(known: &mut Option<Dated<T>>, prices: T, read: jiff::Timestamp) -> bool {
    match known {
        Some(known) if *known.prices == prices => {
            known.read = read;
            false
        }
        _ => {
            *known = Some(Dated { read, prices: Arc::new(prices) });
            true
        }
    }
}
