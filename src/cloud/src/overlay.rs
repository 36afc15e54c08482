//! Overlays of users over the offer of a provider: those in force, their pools, and their changes to instance types
//! (spec scheduling 24).
//!
//! [`judge`] decides which overlays apply; it needs the types of every pool, so a pool whose types it did not
//! receive is not known to [`Overlays`], and nothing may be planned or launched for it. Laying is done again
//! each time on the types as they are then, so an offering that appears later is overlaid like the others,
//! and nothing has to be distinguished by name.

mod judge;
mod lay;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::names::label;
use karpenter_model::{
    InstanceType, InstanceTypeName, LabelRegistry, Operator, Overlay, Pool, PoolName, Price, PriceChange,
    Requirement, Requirements,
};

pub use judge::{Conflict, Contested, Judged, Sight, judge};

/// Instance types of one pool.
pub type List = Arc<[Arc<InstanceType>]>;

/// Overlays in force, in the order they apply, and the pools that were looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overlays {
    accepted: Arc<[Arc<Overlay>]>,
    pools: BTreeSet<PoolName>,
}

/// The overlays one pool's types are seen through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOverlays {
    accepted: Arc<[Arc<Overlay>]>,
    labels: Requirements,
}

impl Overlays {
    /// Overlays for the types of `pool`; `None` when the pool was not looked at.
    pub fn of(&self, pool: &Pool, registry: &LabelRegistry) -> Option<PoolOverlays> {
        let labels = || labels_of(pool, registry);
        let known = self.pools.contains(&pool.name);
        known.then(|| PoolOverlays { accepted: Arc::clone(&self.accepted), labels: labels() })
    }

    /// Prices for types the cloud names none for: those of overlays that set a price and are for nothing but listed
    /// types (spec aws-provider 3.9). The heaviest wins.
    pub fn previews(&self) -> BTreeMap<InstanceTypeName, Price> {
        let mut previews = BTreeMap::new();
        for overlay in self.accepted.iter() {
            for (name, price) in previewed(overlay) {
                previews.entry(name).or_insert(price);
            }
        }
        previews
    }
}

/// The labels `pool` gives its nodes and overlays may be for: its name and those of its template.
pub fn labels_of(pool: &Pool, registry: &LabelRegistry) -> Requirements {
    let mut labels = Requirements::from_labels(registry, &pool.template.labels);
    labels.add(Requirement::one_of(label::NODE_POOL.into(), [pool.name.as_str().into()]));
    labels
}

fn previewed(overlay: &Overlay) -> Vec<(InstanceTypeName, Price)> {
    let (Some(PriceChange::To(price)), 1) = (overlay.price, overlay.requirements.len()) else {
        return Vec::new();
    };
    let of_types = overlay.requirements.get(label::INSTANCE_TYPE);
    let listed = of_types.filter(|types| types.operator() == Operator::In);
    let names = listed.into_iter().flat_map(Requirement::values);
    names.map(|name| (name.as_str().into(), price)).collect()
}

#[cfg(test)]
mod tests;
