//! Overlays: other prices or more resources for some instance types (spec scheduling 5, 24).
//!
//! An overlay changes what the planner believes, never what a machine is: requirements of a type stay as they are,
//! whatever pool it is looked at for.

mod price_change;

use crate::id::OverlayName;
use crate::instance_type::{InstanceType, Offering};
use crate::label::LabelRegistry;
use crate::requirement::set::{Requirements, Undefined};
use crate::resources::Resources;

pub use price_change::{PriceChange, PriceChangeError};

/// One overlay that is valid by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    pub name: OverlayName,
    /// 1 to 10000, 0 when absent; the heaviest overlay of a price or of a resource wins.
    pub weight: i32,
    /// Instance types and offerings it applies to.
    pub requirements: Requirements,
    /// Change of prices.
    pub price: Option<PriceChange>,
    /// Resources the types have, in place of or besides what the cloud says.
    pub capacity: Resources,
}

impl Overlay {
    /// Sorts overlays into the order they are applied in: heavy ones first, of equal weight the alphabetically last.
    pub fn sort(overlays: &mut [impl AsRef<Self>]) {
        overlays.sort_by(|left, right| {
            let (left, right) = (left.as_ref(), right.as_ref());
            right.weight.cmp(&left.weight).then_with(|| right.name.cmp(&left.name))
        });
    }

    /// Returns whether the overlay applies to types whose labels are `defined`. Strict: an undefined label is absent.
    pub fn is_for(&self, defined: &Requirements) -> bool {
        defined.compatible(&self.requirements, Undefined::Nothing).is_ok()
    }

    /// Returns whether the overlay applies to this offering of a type that it applies to.
    pub fn is_for_offering(&self, offering: &Offering, registry: &LabelRegistry) -> bool {
        offering.is_compatible(&self.requirements, registry)
    }
}

impl AsRef<Self> for Overlay {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The labels of a type as one pool sees it: its own, narrowed by those the pool gives its nodes.
pub fn defined(instance_type: &InstanceType, of_pool: &Requirements) -> Requirements {
    let mut defined = instance_type.requirements.clone();
    defined.add_all(of_pool);
    defined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_overlays_come_first_and_of_equal_weight_the_alphabetically_last() {
        let overlay = |name: &str, weight| Overlay {
            name: name.into(),
            weight,
            requirements: Requirements::new(),
            price: None,
            capacity: Resources::new(),
        };
        let mut overlays = [overlay("a", 0), overlay("b", 10), overlay("c", 10), overlay("d", 3)];
        Overlay::sort(&mut overlays);
        let names: Vec<&str> = overlays.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "d", "a"]);
    }
}
