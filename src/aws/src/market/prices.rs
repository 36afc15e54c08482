//! The price book: what an hour costs, where the number came from and how old it is (spec aws-provider 4).
//!
//! On-demand prices come from the price file, else from AWS, else from the figures that are built in. Where none of
//! them has a type and AWS has not been asked yet, or cannot be, its price is estimated ([`estimate`]), so that
//! types are still ordered sensibly; every price carries its source, and an estimate is never held against a real
//! one. Refreshing merges: a type that is missing from one answer keeps its price. An offering without a price is
//! unavailable, never free. All prices of a region are in its currency.

pub mod estimate;
pub mod file;
mod refresh;
pub mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_aws_api::Clients;
use karpenter_model::{CapacityType, Clock, InstanceTypeName, Price, Zone};
use parking_lot::RwLock;

use estimate::PerType;
pub use refresh::Outcome;

/// Source of a price, the one that counts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The file people gave.
    File,
    /// AWS: its price list, its history of spot prices.
    Aws,
    /// Figures of the public price list that are built in.
    BuiltIn,
    /// Worked out from other prices; good for ordering, not for accounting.
    Estimate,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 4] = [Self::File, Self::Aws, Self::BuiltIn, Self::Estimate];

    /// Its name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Aws => "aws",
            Self::BuiltIn => "built-in",
            Self::Estimate => "estimate",
        }
    }
}

/// A price and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub price: Price,
    /// Source of the price.
    pub source: Source,
}

/// On-demand and spot prices of one region.
pub struct Prices {
    clients: Clients,
    clock: Arc<dyn Clock>,
    /// No access to the price list: on-demand prices stay what they are.
    isolated: bool,
    file: Option<PathBuf>,
    state: RwLock<State>,
}

/// Known prices, and the inputs of estimates.
struct State {
    book: Book,
    /// Prices that sizes suggest, for every type of the catalogue.
    by_size: PerType,
    /// The file as last used.
    file: Option<String>,
}

/// A consistent view of all prices.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Changes whenever a price does.
    pub revision: u64,
    file: Option<Dated<PerType>>,
    list: Option<Dated<PerType>>,
    built_in: Option<Dated<PerType>>,
    estimated: Arc<PerType>,
    spot: Option<Dated<BTreeMap<InstanceTypeName, BTreeMap<Zone, Price>>>>,
}

/// Prices, and when they were read.
#[derive(Debug)]
struct Dated<T> {
    read: Timestamp,
    prices: Arc<T>,
}

impl<T> Clone for Dated<T> {
    fn clone(&self) -> Self {
        Self { read: self.read, prices: Arc::clone(&self.prices) }
    }
}

/// Number of types that have their price from a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// On-demand or spot.
    pub capacity_type: CapacityType,
    pub source: Source,
    /// Types of the region.
    pub types: usize,
    /// Time at which the source was read, if it has been.
    pub read: Option<Timestamp>,
}

impl Prices {
    /// A book with the figures that are built in.
    pub fn new(clients: Clients, clock: Arc<dyn Clock>, isolated: bool) -> Self {
        let figures = table::of(&clients.region);
        let built_in = figures.map(|table| Dated { read: table.read, prices: Arc::new(table.prices) });
        let book = Book { built_in, ..Book::default() };
        let state = RwLock::new(State { book, by_size: PerType::new(), file: None });
        Self { clients, clock, isolated, file: None, state }
    }

    /// Reads prices from a file, too: see [`file`].
    #[must_use]
    pub(crate) fn with_file(self, file: Option<PathBuf>) -> Self {
        Self { file, ..self }
    }

    /// The prices as they are now.
    pub fn book(&self) -> Book {
        self.state.read().book.clone()
    }

    /// Sets the types there are, with what their sizes suggest; called when the catalogue changes.
    pub(crate) fn set_types(&self, by_size: PerType) {
        self.change(|state| {
            state.by_size = by_size;
            self.estimate(state)
        });
    }

    /// Counts the types that have their price from each source.
    pub fn tally(&self) -> Vec<Tally> {
        let state = self.state.read();
        let book = &state.book;
        let of = |capacity_type, source, types, read| Tally { capacity_type, source, types, read };
        let on_demand = |source: Source| {
            let from = |name: &&InstanceTypeName| {
                book.on_demand(name.as_str()).is_some_and(|known| known.source == source)
            };
            let types = state.by_size.keys().filter(from).count();
            of(CapacityType::OnDemand, source, types, book.read(source))
        };
        let spot = book.spot.as_ref();
        let priced = spot.map_or(0, |spot| spot.prices.len());
        let guessed = if spot.is_none() { state.by_size.len() } else { 0 };
        let spot = [
            of(CapacityType::Spot, Source::Aws, priced, spot.map(|spot| spot.read)),
            of(CapacityType::Spot, Source::Estimate, guessed, None),
        ];
        Source::ALL.into_iter().map(on_demand).chain(spot).collect()
    }

    /// Estimates again after what is known has changed; returns whether that changed an estimate.
    fn estimate(&self, state: &mut State) -> bool {
        let like = table::of(table::like(&self.clients.region));
        let elsewhere = like.map(|table| table.prices).unwrap_or_default();
        let mut known = PerType::new();
        // The source that counts first is written last. AWS's list is not among them: nothing is estimated once there
        // is one.
        for source in [&state.book.built_in, &state.book.file].into_iter().flatten() {
            known.extend(source.prices.iter().map(|(name, price)| (name.clone(), *price)));
        }
        let estimated = estimate::estimates(&known, &elsewhere, &state.by_size);
        let changed = *state.book.estimated != estimated;
        if changed {
            state.book.estimated = Arc::new(estimated);
        }
        changed
    }

    fn change(&self, edit: impl FnOnce(&mut State) -> bool) {
        let mut state = self.state.write();
        if edit(&mut state) {
            state.book.revision += 1;
        }
    }
}

impl Book {
    /// Price of an on-demand hour.
    pub fn on_demand(&self, instance_type: &str) -> Option<Known> {
        let told = |source| {
            let price = *self.of(source)?.prices.get(instance_type)?;
            Some(Known { price, source })
        };
        // Once AWS's prices are read, a type it does not name is not sold here.
        let estimated = || match self.list {
            Some(_) => None,
            None => Some(Known { price: *self.estimated.get(instance_type)?, source: Source::Estimate }),
        };
        Source::ALL.into_iter().find_map(told).or_else(estimated)
    }

    /// Price of a spot hour in a zone. Before the first refresh it is estimated to be the on-demand price; afterwards a
    /// type without a record in a zone cannot be had there as spot.
    pub fn spot(&self, instance_type: &str, zone: &str) -> Option<Known> {
        match &self.spot {
            None => Some(Known { source: Source::Estimate, ..self.on_demand(instance_type)? }),
            Some(told) => {
                let price = *told.prices.get(instance_type)?.get(zone)?;
                Some(Known { price, source: Source::Aws })
            }
        }
    }

    fn of(&self, source: Source) -> Option<&Dated<PerType>> {
        match source {
            Source::File => self.file.as_ref(),
            Source::Aws => self.list.as_ref(),
            Source::BuiltIn => self.built_in.as_ref(),
            Source::Estimate => None,
        }
    }

    fn read(&self, source: Source) -> Option<Timestamp> {
        self.of(source).map(|told| told.read)
    }
}

/// Currency in which AWS prices a region.
pub(crate) fn currency_of(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("cn") => "CNY",
        Some("eusc") => "EUR",
        _ => "USD",
    }
}

impl std::fmt::Debug for Prices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prices").field("isolated", &self.isolated).finish_non_exhaustive()
    }
}
