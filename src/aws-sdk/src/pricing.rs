//! The Price List over the SDK: every product is a JSON document of its own inside the answer.

use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_pricing::types::{Filter, FilterType};
use karpenter_aws_api::pricing::{Pricing, Product, ProductQuery};
use karpenter_aws_api::{Listing, Result, Skipped};
use serde_json::Value;

use super::call::{Call, each_page};
use super::meter::{Meter, measured};

#[derive(Clone, Debug)]
pub(super) struct Client(aws_sdk_pricing::Client);

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self(measured!(aws_sdk_pricing, config, meter))
    }
}

#[async_trait]
impl Pricing for Client {
    async fn get_products(&self, query: &ProductQuery) -> Result<Listing<Product>> {
        let call = Call::new("GetProducts", "AmazonEC2");
        let filters = query
            .attributes
            .iter()
            .map(|(name, value)| {
                Filter::builder().r#type(FilterType::TermMatch).field(name).value(value).build()
            })
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|failure| call.invalid(failure.to_string()))?;
        let request =
            self.0.get_products().service_code("AmazonEC2").max_results(100).set_filters(Some(filters));
        let mut products = Listing::default();
        each_page!(call, request.into_paginator(), next_token, |page| {
            for document in page.price_list() {
                products.push(product(document));
            }
        });
        Ok(products)
    }
}

/// Reads `product.attributes.instanceType` and the hourly on-demand price dimensions.
fn product(document: &str) -> std::result::Result<Product, Skipped> {
    let skip = |entry: &str, why: &str| Skipped { entry: entry.to_owned(), why: why.to_owned() };
    let document: Value =
        serde_json::from_str(document).map_err(|error| skip("?", &format!("not JSON: {error}")))?;
    let Some(name) = document.pointer("/product/attributes/instanceType").and_then(Value::as_str) else {
        let sku = document.pointer("/product/sku").and_then(Value::as_str).unwrap_or("?");
        return Err(skip(sku, "no `instanceType`"));
    };
    let prices = hourly_prices(&document);
    if prices.is_empty() {
        return Err(skip(name, "no hourly on-demand price"));
    }
    Ok(Product { instance_type: name.into(), prices })
}

fn hourly_prices(document: &Value) -> BTreeMap<String, String> {
    let values = |value: Option<&Value>| -> Vec<Value> {
        value.and_then(Value::as_object).map(|map| map.values().cloned().collect()).unwrap_or_default()
    };
    values(document.pointer("/terms/OnDemand"))
        .iter()
        .flat_map(|term| values(term.get("priceDimensions")))
        .filter(|dimension| dimension.get("unit").and_then(Value::as_str).is_none_or(|unit| unit == "Hrs"))
        .filter_map(|dimension| dimension.get("pricePerUnit").and_then(Value::as_object).cloned())
        .flat_map(|per_unit| per_unit.into_iter().collect::<Vec<_>>())
        .filter_map(|(currency, price)| Some((currency, price.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const M5_LARGE: &str = r#"{"product":{"sku":"X","attributes":{"instanceType":"m5.large"}},
        "terms":{"OnDemand":{"X.J":{"priceDimensions":{"X.J.6":{"unit":"Hrs","pricePerUnit":{"USD":"0.0960000000"}}}}}}}"#;

    #[test]
    fn the_price_text_is_kept_as_printed() {
        let product = product(M5_LARGE).unwrap();
        assert_eq!(product.instance_type, "m5.large");
        assert_eq!(product.prices["USD"], "0.0960000000");
    }

    #[test]
    fn half_products_are_listed_with_what_they_lack() {
        for (document, entry, why) in [
            (r#"{"product":{"sku":"X","attributes":{}}}"#, "X", "no `instanceType`"),
            (
                r#"{"product":{"attributes":{"instanceType":"m5.large"}},"terms":{}}"#,
                "m5.large",
                "no hourly on-demand price",
            ),
        ] {
            let skipped = product(document).unwrap_err();
            assert_eq!((skipped.entry.as_str(), skipped.why.as_str()), (entry, why));
        }
        assert!(product("not json").unwrap_err().why.starts_with("not JSON"));
    }
}
