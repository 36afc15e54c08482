//! Instance types that the account's region sells: some hundred of the common families or all that there are, where they are
//! offered, what they cost.

mod families;
mod images;
mod published;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_api::ec2::{InstanceTypeInfo, UsageClass};
use karpenter_aws_api::id::{InstanceType, Zone};

use crate::options::Range;

pub(super) use images::published as published_images;

/// Types, offerings and prices. Prices are billionths of a dollar per hour.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) types: BTreeMap<InstanceType, InstanceTypeInfo>,
    pub(super) offerings: BTreeSet<(InstanceType, Zone)>,
    pub(super) on_demand: BTreeMap<InstanceType, u64>,
    pub(super) spot: BTreeMap<(InstanceType, Zone), u64>,
}

impl Catalogue {
    /// The instance types of `range` in every zone. The usual ones have a few gaps: GPUs in the first two zones only, Graviton 3
    /// not in the fourth, `t3` not in the third.
    pub(super) fn generate(zones: &[Zone], range: &Range) -> Self {
        let mut catalogue = Self {
            types: BTreeMap::new(),
            offerings: BTreeSet::new(),
            on_demand: BTreeMap::new(),
            spot: BTreeMap::new(),
        };
        let usual = families::all();
        match range {
            Range::Usual => catalogue.sell_usual(usual, zones),
            Range::Count(count) => {
                let generations = (0..).flat_map(|ahead| families::later(&usual, ahead));
                catalogue.sell_usual(generations.take(*count), zones);
            }
            Range::Published { on_demand } => {
                for info in published::all() {
                    let price = on_demand.get(info.name.as_str()).copied();
                    catalogue.sell(info, price, zones.iter().enumerate());
                }
            }
        }
        catalogue
    }

    fn sell_usual(&mut self, types: impl IntoIterator<Item = (InstanceTypeInfo, u64)>, zones: &[Zone]) {
        for (info, price) in types {
            let family = info.name.as_str().split('.').next().unwrap_or_default().to_owned();
            let offered = zones.iter().enumerate().filter(|(position, _)| is_offered(&family, *position));
            self.sell(info, Some(price), offered);
        }
    }

    /// Offers a type in these zones, which come with their positions.
    fn sell<'z>(
        &mut self,
        info: InstanceTypeInfo,
        price: Option<u64>,
        zones: impl Iterator<Item = (usize, &'z Zone)>,
    ) {
        for (position, zone) in zones {
            self.offerings.insert((info.name.clone(), zone.clone()));
            if let Some(price) = price.filter(|_| info.usage_classes.contains(&UsageClass::Spot)) {
                let spot = price * spot_per_mille(&info.name, position) / 1000;
                self.spot.insert((info.name.clone(), zone.clone()), spot);
            }
        }
        if let Some(price) = price {
            self.on_demand.insert(info.name.clone(), price);
        }
        self.types.insert(info.name.clone(), info);
    }
}

fn is_offered(family: &str, zone: usize) -> bool {
    match family {
        "g5" | "g6" => zone < 2,
        "m7g" | "c7g" | "r7g" => zone != 3,
        "t3" => zone != 2,
        _ => true,
    }
}

/// Spot is 30 to 40 % of on-demand, different per type and zone but always the same.
fn spot_per_mille(name: &InstanceType, zone: usize) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name.as_str().bytes().chain(zone.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    300 + hash % 100
}

/// Billionths of a dollar as AWS prints prices, with ten decimals.
pub(super) fn decimal(nanos: u64) -> String {
    format!("{}.{:09}0", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones() -> Vec<Zone> {
        ["a", "b", "c", "d"].into_iter().map(|letter| Zone::from(format!("us-west-2{letter}"))).collect()
    }

    #[test]
    fn a_region_can_sell_as_many_types_as_are_wanted() {
        for count in [5, 117, 1_100] {
            let catalogue = Catalogue::generate(&zones(), &Range::Count(count));
            assert_eq!(catalogue.types.len(), count, "names are distinct");
            assert_eq!(catalogue.on_demand.len(), count, "all are priced");
        }
        let catalogue = Catalogue::generate(&zones(), &Range::Count(1_100));
        assert!(catalogue.types.contains_key("m5.large") && catalogue.types.contains_key("m15.large"));
    }

    #[test]
    fn network_limits_give_the_pod_counts_of_the_real_types() {
        let catalogue = Catalogue::generate(&zones(), &Range::Usual);
        for (name, pods) in [
            ("t3.large", 35),
            ("t3.medium", 17),
            ("m5.large", 29),
            ("m5.xlarge", 58),
            ("c6i.4xlarge", 234),
            ("m7g.16xlarge", 737),
            ("g5.xlarge", 58),
        ] {
            let info = &catalogue.types[name];
            let found = info.maximum_network_interfaces * (info.ipv4_addresses_per_interface - 1) + 2;
            assert_eq!(found, pods, "{name}");
        }
    }

    #[test]
    fn spot_costs_thirty_to_forty_percent() {
        let catalogue = Catalogue::generate(&zones(), &Range::Usual);
        assert!(!catalogue.spot.is_empty());
        for ((name, zone), spot) in &catalogue.spot {
            let on_demand = catalogue.on_demand[name];
            assert!((on_demand * 30 / 100..on_demand * 40 / 100).contains(spot), "{name} in {zone}");
        }
    }

    #[test]
    fn the_catalogue_has_gaps_and_both_architectures() {
        let catalogue = Catalogue::generate(&zones(), &Range::Usual);
        assert!((90..=130).contains(&catalogue.types.len()), "{}", catalogue.types.len());
        assert!(!catalogue.offerings.contains(&("g5.xlarge".into(), "us-west-2c".into())));
        assert!(catalogue.offerings.contains(&("g5.xlarge".into(), "us-west-2a".into())));
        let arm = catalogue.types.values().filter(|info| info.architectures[0].as_str() == "arm64").count();
        assert!(arm > 20, "{arm}");
    }

    #[test]
    fn every_published_type_is_offered_in_every_zone_at_the_prices_that_are_given() {
        let on_demand = [("m7i.large".to_owned(), 100_800_000)].into();
        let catalogue = Catalogue::generate(&zones(), &Range::Published { on_demand });
        assert_eq!(catalogue.offerings.len(), catalogue.types.len() * 4);
        assert_eq!(catalogue.on_demand, [("m7i.large".into(), 100_800_000)].into());
        assert_eq!(catalogue.spot.len(), 4);
    }

    #[test]
    fn prices_are_printed_like_the_price_list_prints_them() {
        assert_eq!(decimal(96_000_000), "0.0960000000");
        assert_eq!(decimal(24_480_000_000), "24.4800000000");
        assert_eq!(decimal(1), "0.0000000010");
    }
}
