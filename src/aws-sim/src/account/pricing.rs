//! The price list.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::Account;
use crate::catalogue::decimal;
use karpenter_aws_api::pricing::{Pricing, Product, ProductQuery};
use karpenter_aws_api::{Listing, Result};

#[async_trait]
impl Pricing for Account {
    async fn get_products(&self, query: &ProductQuery) -> Result<Listing<Product>> {
        let region = &self.options().region;
        let currency = if region.starts_with("cn-") { "CNY" } else { "USD" };
        self.call("GetProducts", "AmazonEC2", |state, _| {
            let products = state
                .catalogue
                .types
                .values()
                .filter(|kind| {
                    let attributes = attributes(region, kind.bare_metal);
                    query.attributes.iter().all(|(name, wanted)| {
                        if name == "instanceType" {
                            return kind.name == wanted.as_str();
                        }
                        attributes.get(name.as_str()).is_some_and(|value| value == wanted)
                    })
                })
                .filter_map(|kind| {
                    let price = state.catalogue.on_demand.get(&kind.name)?;
                    Some(Product {
                        instance_type: kind.name.clone(),
                        prices: BTreeMap::from([(currency.to_owned(), decimal(*price))]),
                    })
                })
                .collect();
            Ok(Listing::complete(products))
        })
        .await
    }
}

/// Every attribute the product asks for; anything else matches nothing.
fn attributes(region: &str, bare_metal: bool) -> BTreeMap<&'static str, &str> {
    let (family, tenancy) = if bare_metal {
        ("Compute Instance (bare metal)", "Dedicated")
    } else {
        ("Compute Instance", "Shared")
    };
    BTreeMap::from([
        ("regionCode", region),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", tenancy),
        ("productFamily", family),
    ])
}
