//! Offerings of the emulated account in a scenario, and their prices: the types, list prices and images of the account in
//! memory, as `karpenter test` plays the file with. What is expected of costs is expected of these prices, and a controller
//! that may choose among the same offerings should choose the same.
//!
//! Types of the account in memory that the emulator does not have are not on sale. The figures of a type, as its memory, are
//! those of the emulator.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use karpenter_aws_api::ec2::{ImageQuery, Instance};
use karpenter_aws_api::id::InstanceType;
use karpenter_aws_sim::{Account, Options, Range};
use karpenter_model::Price;
use karpenter_sim::scenario::format::PriceChange;
use karpenter_sim::scenario::price;

use super::counterpart::release_date;
use crate::account::Control;
use crate::account::control::{Settings, SpotPrice};
use crate::command_line::AwsEnvironment;
use crate::world::KUBERNETES;

/// The first version of Bottlerocket of those that a scenario releases; scenarios name the version of EKS's images alone.
const BOTTLEROCKET: u32 = 60;

/// The market of one account.
pub(super) struct Market {
    control: Control,
    /// Has the prices and sells nothing.
    list: Account,
    types: Vec<InstanceType>,
    zones: Vec<String>,
    released: u32,
}

impl Market {
    /// Makes the emulated account sell what the account in memory sells.
    pub(super) async fn open(
        control: &Control,
        environment: &AwsEnvironment,
        instance_types: Range,
    ) -> Result<Self> {
        let AwsEnvironment { cluster, region, .. } = environment;
        let list = Account::new(Options {
            cluster: cluster.clone(),
            region: region.clone(),
            kubernetes_version: KUBERNETES.to_owned(),
            zones: 3,
            instance_types,
            ..Options::default()
        });
        let clients = list.clients();
        let types = clients.ec2.describe_instance_types(&Default::default()).await?.items;
        let types: Vec<InstanceType> = types.into_iter().map(|info| info.name).collect();
        let zones = ["a", "b", "c"].map(|letter| format!("{region}{letter}")).to_vec();
        let market = Self { control: control.clone(), list, types, zones, released: 0 };
        let sold = market.types.iter().map(ToString::to_string).collect();
        let settings = Settings { instance_types: Some(sold), ..Settings::default() };
        market.control.configure(&settings).await.context("sell the types of the account in memory")?;
        market.tell_prices().await?;
        let images = clients.ec2.describe_images(&ImageQuery::default()).await?.items;
        let names: Vec<&str> = images.iter().map(|image| image.name.as_str()).collect();
        for (date, bottlerocket) in releases(&names) {
            market.publish(&date, &bottlerocket).await?;
        }
        Ok(market)
    }

    /// Dollars an hour of an instance.
    pub(super) fn price(&self, instance: &Instance) -> Price {
        price(&self.list, instance)
    }

    /// Changes prices, from now on and for new launches as for what runs.
    pub(super) async fn change(&self, change: &PriceChange) -> Result<()> {
        self.list.scale_prices(&change.offerings(), change.percent);
        self.tell_prices().await
    }

    /// Publishes the release of images that is called `version`, after its date.
    pub(super) async fn release(&mut self, version: &str) -> Result<()> {
        let date = release_date(version)
            .with_context(|| format!("`{version}` is no release of images; write it as vYYYYMMDD"))?;
        self.released += 1;
        self.publish(&date.to_string(), &format!("1.{}.0", BOTTLEROCKET + self.released)).await
    }

    async fn publish(&self, date: &str, bottlerocket: &str) -> Result<()> {
        let minor = KUBERNETES.rsplit_once('.').map_or(KUBERNETES, |(_, minor)| minor).parse()?;
        let published = self.control.publish_images(minor, date, bottlerocket).await;
        published.with_context(|| format!("publish the release of images of {date}"))
    }

    /// Gives the emulated account the price of everything.
    async fn tell_prices(&self) -> Result<()> {
        let on_demand: BTreeMap<String, String> = self
            .types
            .iter()
            .filter_map(|name| Some((name.to_string(), dollars(self.list.on_demand_price(name.as_str())?))))
            .collect();
        self.control.set_on_demand_prices(&on_demand).await.context("set the prices on demand")?;
        let spot: Vec<SpotPrice> = self
            .types
            .iter()
            .flat_map(|name| self.zones.iter().map(move |zone| (name, zone)))
            .filter_map(|(name, zone)| {
                let price = dollars(self.list.spot_price(name.as_str(), zone)?);
                Some(SpotPrice { instance_type: name.to_string(), zone: zone.clone(), price })
            })
            .collect();
        self.control.set_spot_prices(&spot).await.context("set the spot prices")
    }
}

/// Billionths of a dollar as decimal text.
fn dollars(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// Dates of the releases that these images are of, the oldest first, with the version of Bottlerocket of each.
fn releases(names: &[&str]) -> Vec<(String, String)> {
    let version = |name: &&str| name.rsplit_once("-v").map(|(_, version)| version.to_owned());
    let eks = names.iter().filter(|name| name.contains("-al2023-")).filter_map(version);
    let dates: BTreeSet<String> =
        eks.filter_map(|version| Some(release_date(&format!("v{version}"))?.to_string())).collect();
    let bottlerocket = names.iter().filter(|name| name.starts_with("bottlerocket-")).filter_map(version);
    let versions: BTreeSet<String> = bottlerocket.collect();
    dates.into_iter().zip(versions).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_written_as_decimals() {
        assert_eq!(dollars(96_000_000), "0.096000000");
        assert_eq!(dollars(32_772_600_001), "32.772600001");
    }

    #[tokio::test]
    async fn the_account_in_memory_has_two_releases_of_images() {
        let clients = Account::new(Options::default()).clients();
        let images = clients.ec2.describe_images(&ImageQuery::default()).await.unwrap().items;
        let names: Vec<&str> = images.iter().map(|image| image.name.as_str()).collect();
        let found = releases(&names);
        let dates: Vec<&str> = found.iter().map(|(date, _)| date.as_str()).collect();
        assert_eq!(dates, ["2025-11-03", "2025-12-09"], "{names:?}");
    }
}
