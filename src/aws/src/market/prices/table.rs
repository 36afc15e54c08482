//! Figures of the public price list that are built in: those of regions whose price list cannot be asked, and of the
//! largest region, after which prices of others are estimated ([`super::estimate`]).

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use karpenter_model::{InstanceTypeName, Price};

const TABLE: &str = include_str!("../../../data/on-demand-prices.txt");

/// Prices of one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Currency of the prices, such as `USD`.
    pub currency: &'static str,
    /// Time at which the price list was read.
    pub read: Timestamp,
    /// Price of an hour by type.
    pub prices: BTreeMap<InstanceTypeName, Price>,
}

/// The figures of a region, if there are any.
pub fn of(region: &str) -> Option<Table> {
    let mut lines = TABLE.lines();
    let (currency, date) = lines.find_map(|line| {
        let rest = line.strip_prefix("region ")?.strip_prefix(region)?.strip_prefix(' ')?;
        rest.split_once(' ')
    })?;
    let date: Date = date.parse().ok()?;
    let read = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let families = lines.take_while(|line| !line.starts_with("region "));
    let prices = families.flat_map(|line| {
        let (family, sizes) = line.split_once(' ').unwrap_or((line, ""));
        sizes.split(' ').filter_map(move |size| {
            let (size, price) = size.split_once('=')?;
            Some((format!("{family}.{size}").as_str().into(), price.parse().ok()?))
        })
    });
    Some(Table { currency, read, prices: prices.collect() })
}

/// The region with figures that `region` is most like: of the same currency.
pub fn like(region: &str) -> &'static str {
    if super::currency_of(region) == "CNY" { "cn-north-1" } else { "us-east-1" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_of_the_table_is_read() {
        let regions = ["cn-north-1", "us-east-1", "us-gov-east-1", "us-gov-west-1"];
        let read: usize = regions.iter().map(|region| of(region).expect("has figures").prices.len()).sum();
        assert_eq!(read, TABLE.matches('=').count());
        assert!(
            regions.iter().all(|region| of(region).unwrap().currency == super::super::currency_of(region))
        );
        assert_eq!(of("us-east"), None, "a name that is the beginning of another");
    }

    #[test]
    fn prices_are_those_of_the_list() {
        let price = |region: &str, name: &str| of(region).unwrap().prices[name].to_string();
        assert_eq!(price("us-east-1", "p3.2xlarge"), "$3.0600");
        assert_eq!(price("us-east-1", "t3.nano"), "$0.0052");
        assert_eq!(price("us-gov-west-1", "p3.2xlarge"), "$3.6720");
        assert_eq!(price("us-gov-west-1", "g4dn.4xlarge"), "$1.5180");
        assert_eq!(price("cn-north-1", "c5.large"), "$0.7390", "yuan");
        assert_eq!(of("cn-north-1").unwrap().read.to_string(), "2024-11-06T00:00:00Z");
    }
}
