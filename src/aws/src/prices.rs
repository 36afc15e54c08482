//! The price book: what an hour costs, where the number came from and how old it is (spec aws-provider 4).
//!
//! Refreshing merges: a type that is missing from one answer keeps its price. An offering without a price is
//! unavailable, never free. Until the first refresh succeeds, prices are estimated from the size of the type
//! ([`estimate`]), so that a cluster without access to the price list still orders types sensibly; the source
//! says so.

pub mod estimate;
mod refresh;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use karpenter_aws_client::Clients;
use karpenter_model::{Clock, InstanceTypeName, Price, Zone};

pub use refresh::Outcome;

/// Where a kind of price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Guessed from the type's size; good for ordering, not for accounting.
    Estimate,
    /// Told by AWS at the given instant.
    Aws(Timestamp),
}

/// On-demand and spot prices of one region.
pub struct Prices {
    clients: Clients,
    clock: Arc<dyn Clock>,
    /// No access to the price list: on-demand prices stay what they are.
    isolated: bool,
    book: RwLock<Book>,
}

/// A consistent view of all prices.
#[derive(Clone, Debug)]
pub struct Book {
    /// Changes whenever a price does.
    pub revision: u64,
    /// Source of the on-demand prices.
    pub on_demand_source: Source,
    /// Source of the spot prices.
    pub spot_source: Source,
    estimated: Arc<BTreeMap<InstanceTypeName, Price>>,
    on_demand: Arc<BTreeMap<InstanceTypeName, Price>>,
    spot: Arc<BTreeMap<InstanceTypeName, BTreeMap<Zone, Price>>>,
}

impl Book {
    pub(crate) fn empty() -> Self {
        Self {
            revision: 0,
            on_demand_source: Source::Estimate,
            spot_source: Source::Estimate,
            estimated: Arc::default(),
            on_demand: Arc::default(),
            spot: Arc::default(),
        }
    }
}

impl Prices {
    /// A book without prices.
    pub fn new(clients: Clients, clock: Arc<dyn Clock>, isolated: bool) -> Self {
        Self { clients, clock, isolated, book: RwLock::new(Book::empty()) }
    }

    /// The prices as they are now.
    pub fn book(&self) -> Book {
        self.book.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the estimates used for types AWS has not priced; called when the catalogue changes.
    pub fn set_estimates(&self, estimates: BTreeMap<InstanceTypeName, Price>) {
        self.change(|book| {
            if *book.estimated == estimates {
                return false;
            }
            book.estimated = Arc::new(estimates);
            true
        });
    }

    fn change(&self, edit: impl FnOnce(&mut Book) -> bool) {
        let mut book = self.book.write().unwrap_or_else(PoisonError::into_inner);
        if edit(&mut book) {
            book.revision += 1;
        }
    }
}

impl Book {
    /// Price of an on-demand hour.
    pub fn on_demand(&self, instance_type: &str) -> Option<Price> {
        self.on_demand.get(instance_type).copied().or_else(|| match self.on_demand_source {
            Source::Estimate => self.estimated.get(instance_type).copied(),
            Source::Aws(_) => None,
        })
    }

    /// Price of a spot hour in a zone. Before the first refresh it is the on-demand price; afterwards a type
    /// without a record in a zone cannot be had there as spot.
    pub fn spot(&self, instance_type: &str, zone: &str) -> Option<Price> {
        match self.spot_source {
            Source::Estimate => self.on_demand(instance_type),
            Source::Aws(_) => self.spot.get(instance_type)?.get(zone).copied(),
        }
    }
}

impl std::fmt::Debug for Prices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prices").field("isolated", &self.isolated).finish_non_exhaustive()
    }
}
