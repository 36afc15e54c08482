//! On-demand prices (spec aws-provider 4).

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

use crate::id::InstanceType;
use crate::{Listing, Result};

/// The Price List calls of this product.
#[async_trait]
pub trait Pricing: Send + Sync + Debug {
    /// `GetProducts` of `AmazonEC2`. Products without type or hourly on-demand price are in `skipped`.
    async fn get_products(&self, query: &ProductQuery) -> Result<Listing<Product>>;
}

/// Query of products: all attributes must equal the given text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProductQuery {
    /// Attribute name to text, for example `regionCode` to `eu-west-1`.
    pub attributes: BTreeMap<String, String>,
}

/// The hourly on-demand price of an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    pub instance_type: InstanceType,
    /// Price per hour by currency (`USD`, `CNY`), the decimal text exactly as AWS printed it.
    pub prices: BTreeMap<String, String>,
}
