//! Offerings of pools, for plans outside a controller: read from the AWS account, or from the account in memory.
//!
//! Only reads: nothing is launched, written or tagged. What does not answer leaves what follows from it unknown, and says
//! so.

mod drafted;

use std::sync::Arc;

use anyhow::{Context, Result};
#[cfg(feature = "demo")]
use jiff::tz::TimeZone;
use karpenter_api::EC2NodeClass;
use karpenter_api::manifest::admitted;
use karpenter_aws::calls::observer::Silent;
use karpenter_aws::image::unresolved;
use karpenter_aws::launch::filter::names_dedicated;
#[cfg(feature = "demo")]
use karpenter_aws::market::prices::table;
use karpenter_aws::market::reservations::status::to_status;
use karpenter_aws::{AwsProvider, Settings};
use karpenter_aws_api::Clients;
use karpenter_cloud::Provider;
use karpenter_model::Clock;
use karpenter_plan::Offerings;

/// Regions of AWS's partitions that accounts of the public can use, as of 2026-01.
#[cfg(feature = "demo")]
pub const REGIONS: [&str; 38] = [
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "cn-north-1",
    "cn-northwest-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-gov-east-1",
    "us-gov-west-1",
    "us-west-1",
    "us-west-2",
];

/// Reads what pools can launch, from a provider that launches nothing.
pub struct OfferingsReader {
    provider: AwsProvider,
    /// Data that could not be read, in sentences.
    pub notes: Vec<String>,
}

impl OfferingsReader {
    /// Reads instance types and prices of an account.
    ///
    /// # Errors
    /// EC2 does not name its instance types, without which nothing can be planned.
    pub async fn new(clients: Clients, settings: Settings, clock: Arc<dyn Clock>) -> Result<Self> {
        let provider = AwsProvider::new(clients, settings, clock, Arc::new(Silent));
        provider.prices.refresh_file().await.context("cannot plan with the price file; correct it")?;
        provider.refresh_catalogue().await.context("cannot read the instance types that EC2 offers")?;
        let mut notes = Vec::new();
        if let Err(error) = provider.prices.refresh_on_demand().await {
            notes.push(format!("on-demand prices are estimates: {error}"));
        }
        if let Err(error) = provider.prices.refresh_spot().await {
            notes.push(format!("spot prices are estimates: {error}"));
        }
        if provider.settings.zonal_shift
            && let Err(error) = provider.refresh_zonal_shifts().await
        {
            notes.push(format!("zonal shifts of the cluster are not known: {error}"));
        }
        Ok(Self { provider, notes })
    }

    /// Returns the offerings of these pools with these node classes.
    pub async fn offerings(
        &mut self,
        pools: &[karpenter_model::Pool],
        classes: &[serde_json::Value],
    ) -> Offerings {
        let mut read = Vec::new();
        for written in classes {
            // A class of a file has no defaults yet; one that is refused is read as it is, so that the error names its field.
            let defaulted = admitted(written).unwrap_or_else(|_| written.clone());
            match <EC2NodeClass as serde::Deserialize>::deserialize(defaulted) {
                Ok(mut class) => {
                    self.count_reservations(&mut class, &written["status"]["capacityReservations"], pools)
                        .await;
                    // The images of an alias are known by kind: Windows and AL2 have none for some machines.
                    if let Some(status) = &mut class.status
                        && status.amis.is_empty()
                    {
                        status.amis = unresolved(&class.spec);
                    }
                    read.push(class);
                }
                Err(error) => {
                    let name = written["metadata"]["name"].as_str().unwrap_or_default();
                    self.notes.push(format!("cannot read EC2NodeClass `{name}`: {error}; correct it"));
                }
            }
        }
        for class in &read {
            if let Err(error) = self.provider.placement_groups.resolve(class).await {
                self.notes.push(format!("cannot look up a placement group: {error}"));
            }
        }
        self.provider.classes.replace_all(read);
        let mut offerings = Offerings { zones_away: self.provider.zones_away(), ..Offerings::default() };
        for pool in pools {
            match self.provider.instance_types(pool).await {
                Ok(types) => drop(offerings.types.insert(pool.name.clone(), types)),
                Err(error) => drop(offerings.problems.insert(pool.name.clone(), error.to_string())),
            }
        }
        offerings
    }

    /// Learns how many instances the reservations of `class` have left, without which pools of reserved capacity offer
    /// nothing: from EC2, and for those it does not name from the status as it is `written`. A class without reservations in
    /// its status gets those that EC2 names, as its controller would write them.
    async fn count_reservations(
        &mut self,
        class: &mut EC2NodeClass,
        written: &serde_json::Value,
        pools: &[karpenter_model::Pool],
    ) {
        if class.spec.capacity_reservation_selector_terms.iter().flatten().next().is_none() {
            return;
        }
        let name = class.metadata.name.clone().unwrap_or_default();
        let found = match self.provider.reservations.select(class).await {
            Ok(found) => found,
            Err(error) => {
                self.notes.push(format!(
                    "cannot look up the capacity reservations of EC2NodeClass `{name}`: {error}"
                ));
                Vec::new()
            }
        };
        let own = pools.iter().filter(|pool| pool.template.node_class.name.as_str() == name);
        let dedicated = own.map(|pool| &pool.template.requirements).any(names_dedicated);
        let entries = to_status(&found, class, dedicated, self.provider.now());
        let Some(status) = &mut class.status else { return };
        if status.capacity_reservations.is_empty() {
            status.capacity_reservations = entries;
        }
        let stated = |id: &str| {
            let mut all = written.as_array().into_iter().flatten();
            let entry = all.find(|entry| entry["id"] == id)?;
            u32::try_from(entry["availableInstanceCount"].as_u64()?).ok()
        };
        let unknown = status.capacity_reservations.iter().map(|entry| entry.id.as_str());
        for id in unknown.filter(|id| found.iter().all(|one| one.id.as_str() != *id)) {
            match stated(id) {
                Some(left) => self.provider.reservations.availability().counted(id, left, left),
                None => self.notes.push(format!(
                    "how many instances capacity reservation `{id}` has left is not known, so it is taken for used up; ask \
                     the account with --offerings aws, or write `availableInstanceCount` into the status of EC2NodeClass `{name}`"
                )),
            }
        }
        if status.capacity_reservations.is_empty() {
            self.notes.push(format!(
                "no capacity reservation of EC2NodeClass `{name}` is known, so none is planned with; ask the account with \
                 --offerings aws, or write them into its status"
            ));
        }
    }
}

/// The account in memory as clients, for plans of files without AWS, and a sentence about where its figures come from.
#[cfg(feature = "demo")]
pub fn in_memory(region: &str, clock: Arc<dyn Clock>) -> (Clients, String) {
    let (instance_types, source) = every_type(region);
    let options = karpenter_aws_sim::Options {
        region: region.to_owned(),
        zones: 6,
        instance_types,
        ..karpenter_aws_sim::Options::default()
    };
    let source = format!("{source}: no account was asked; --offerings aws asks yours in {region}");
    (karpenter_aws_sim::Account::with_clock(options, clock).clients(), source)
}

/// Every instance type of the largest region for an account in memory in `region`, at the prices of the public list that are
/// built in, and a sentence about where the figures come from.
#[cfg(feature = "demo")]
pub fn every_type(region: &str) -> (karpenter_aws_sim::Range, String) {
    let listed = if table::of(region).is_some() { region } else { table::like(region) };
    let list = table::of(listed).expect("invariant: the table has the region that others are like");
    let date = list.read.to_zoned(TimeZone::UTC).date();
    let prices = list.prices.into_iter();
    let prices =
        prices.filter_map(|(name, price)| Some((name.to_string(), u64::try_from(price.nanos()).ok()?)));
    let source = format!(
        "instance types are those of us-east-1 in every zone, on-demand prices those of {listed} on {date}, spot prices 30 to 40 % \
         of them"
    );
    (karpenter_aws_sim::Range::Published { on_demand: prices.collect() }, source)
}
