//! Types as their pool sees them through its overlays.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::instance_type::overlay;
use karpenter_model::{InstanceType, LabelRegistry, PriceChange};

use super::{List, PoolOverlays};

impl PoolOverlays {
    /// `types` with the prices and amounts of the overlays. Whatever no overlay is for is handed on as it is, the
    /// whole list if none is for any of it.
    pub fn lay_over(&self, types: &List, registry: &LabelRegistry) -> List {
        if self.accepted.is_empty() {
            return Arc::clone(types);
        }
        let laid: List = types.iter().map(|one| self.lay_over_one(one, registry)).collect();
        let same = laid.iter().zip(types.iter()).all(|(laid, one)| Arc::ptr_eq(laid, one));
        if same { Arc::clone(types) } else { laid }
    }

    /// Everything but prices and amounts stays: requirements, what is available, what replaces amounts when launched
    /// through one offering.
    fn lay_over_one(&self, one: &Arc<InstanceType>, registry: &LabelRegistry) -> Arc<InstanceType> {
        let defined = overlay::defined(one, &self.labels);
        let mut laid = Arc::clone(one);
        let (mut priced, mut written) = (BTreeSet::new(), BTreeSet::new());
        for overlay in self.accepted.iter().filter(|overlay| overlay.is_for(&defined)) {
            let offerings = one.offerings.iter().enumerate();
            let mut meant =
                offerings.filter(|(_, offering)| overlay.is_for_offering(offering, registry)).peekable();
            if meant.peek().is_none() {
                continue;
            }
            let laid = Arc::make_mut(&mut laid);
            if let Some(change) = overlay.price {
                for (index, offering) in meant {
                    if priced.insert(index) {
                        let sold = &mut laid.offerings[index];
                        sold.price = change.apply(offering.price);
                        // Setting a price makes it known; changing an estimate gives another estimate.
                        sold.estimated &= !matches!(change, PriceChange::To(_));
                        laid.overlaid.price = true;
                    }
                }
            }
            for (name, quantity) in overlay.capacity.iter() {
                if written.insert(name) {
                    laid.capacity.set(name.as_str(), *quantity);
                    laid.overlaid.capacity = true;
                }
            }
        }
        laid
    }
}
