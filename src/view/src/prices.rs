//! Prices of machines: a closure from the caller, because the source of prices depends on the cloud.

use std::fmt;
use std::sync::Arc;

use karpenter_model::Price;

use crate::trouble::Trouble;

/// Price of an offering: instance type, zone and capacity type in, price per hour out.
pub type PriceBook = Arc<dyn Fn(&str, &str, &str) -> Option<Price> + Send + Sync>;

/// State of the prices.
#[derive(Clone)]
pub enum Prices {
    /// The user has asked for none.
    Off,
    /// Prices are being read.
    Loading,
    /// Prices are there.
    Known(PriceBook),
    /// Some prices are there; which are not, and why.
    Partial(PriceBook, String),
    /// Prices could not be read, and why.
    Unavailable(String),
}

impl Prices {
    /// The price per hour of an offering, if it is known.
    pub(crate) fn of(&self, instance_type: &str, zone: &str, capacity: &str) -> Option<Price> {
        match self {
            Self::Known(book) | Self::Partial(book, _) => book(instance_type, zone, capacity),
            Self::Off | Self::Loading | Self::Unavailable(_) => None,
        }
    }

    /// Returns whether there are any.
    pub(crate) const fn are_there(&self) -> bool {
        matches!(self, Self::Known(_) | Self::Partial(..))
    }

    /// Returns the problem with them.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Off | Self::Loading | Self::Known(_) => None,
            Self::Partial(_, missing) => Some(Trouble::PricesMissing(missing.clone())),
            Self::Unavailable(why) => Some(Trouble::NoPrices(why.clone())),
        }
    }

    /// Returns whether the present state is final.
    pub(crate) const fn settled(&self) -> bool {
        !matches!(self, Self::Loading)
    }
}

impl fmt::Debug for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "Off",
            Self::Loading => "Loading",
            Self::Known(_) => "Known",
            Self::Partial(..) => "Partial",
            Self::Unavailable(_) => "Unavailable",
        })
    }
}
