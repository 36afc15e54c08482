//! Choice of the overlays that apply. Two of equal weight that would change the same price or the same resource anywhere are
//! in conflict, even if they are equal; the first one in order applies and the other one does not, in no pool.
//! All that apply are remembered, not only the last, so a third one hides no conflict.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use karpenter_model::instance_type::overlay;
use karpenter_model::{
    InstanceType, InstanceTypeName, LabelRegistry, Overlay, OverlayName, PoolName, Requirements, ResourceName,
};

use super::{List, Overlays};

/// One pool whose types are known.
#[derive(Debug, Clone)]
pub struct Sight {
    pub pool: PoolName,
    /// The labels it gives its nodes, see [`labels_of`](super::labels_of).
    pub labels: Requirements,
    /// Its types, without overlays.
    pub types: List,
}

/// The overlays in force, and why others are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Overlays in force.
    pub overlays: Overlays,
    /// Conflicts for which overlays are not in force.
    pub conflicts: BTreeMap<OverlayName, Conflict>,
}

/// Reason why an overlay does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The overlay of equal weight that does.
    pub with: OverlayName,
    /// The first pool where both would.
    pub pool: PoolName,
    /// The first of its types that both are for.
    pub instance_type: InstanceTypeName,
    /// Price or resource that both would change.
    pub about: Contested,
}

/// Price or resource that two overlays would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contested {
    /// The price of an offering.
    Price,
    /// The amount of a resource.
    Resource(ResourceName),
}

/// Decides which of `overlays`, each valid by itself, apply to the pools of `sights`.
pub fn judge(mut overlays: Vec<Arc<Overlay>>, sights: &[Sight], registry: &LabelRegistry) -> Judged {
    Overlay::sort(&mut overlays);
    let (mut accepted, mut conflicts) = (Vec::new(), BTreeMap::new());
    for equals in overlays.chunk_by(|one, other| one.weight == other.weight) {
        let clashes = clashes(equals, sights, registry);
        let mut standing: Vec<usize> = Vec::new();
        for (index, overlay) in equals.iter().enumerate() {
            let conflict = standing.iter().find_map(|earlier| clashes.get(&(*earlier, index)));
            if let Some(conflict) = conflict {
                conflicts.insert(overlay.name.clone(), conflict.clone());
                continue;
            }
            standing.push(index);
            accepted.push(Arc::clone(overlay));
        }
    }
    let pools = sights.iter().map(|sight| sight.pool.clone()).collect();
    Judged { overlays: Overlays { accepted: accepted.into(), pools }, conflicts }
}

/// First conflict of each pair of `equals`, by their places in the list.
fn clashes(
    equals: &[Arc<Overlay>],
    sights: &[Sight],
    registry: &LabelRegistry,
) -> BTreeMap<(usize, usize), Conflict> {
    let mut clashes = BTreeMap::new();
    if equals.len() < 2 {
        return clashes;
    }
    for sight in sights {
        for one in sight.types.iter() {
            let meant = meant(equals, one, &sight.labels, registry);
            for (place, (index, offerings)) in meant.iter().enumerate() {
                for (earlier, of_earlier) in &meant[..place] {
                    let (first, second) = (&equals[*earlier], &equals[*index]);
                    let shared = offerings.iter().any(|offering| of_earlier.contains(offering));
                    let Some(about) = contested(first, second, shared) else { continue };
                    clashes.entry((*earlier, *index)).or_insert_with(|| Conflict {
                        with: first.name.clone(),
                        pool: sight.pool.clone(),
                        instance_type: one.name.clone(),
                        about,
                    });
                }
            }
        }
    }
    clashes
}

/// Overlays of `equals` that are for a type, with the places of the offerings they are for.
fn meant(
    equals: &[Arc<Overlay>],
    one: &InstanceType,
    labels: &Requirements,
    registry: &LabelRegistry,
) -> Vec<(usize, Vec<usize>)> {
    let defined = overlay::defined(one, labels);
    let of_type = equals.iter().enumerate().filter(|(_, overlay)| overlay.is_for(&defined));
    let with_offerings = of_type.map(|(index, overlay)| {
        let offerings = one.offerings.iter().enumerate();
        let meant = offerings.filter(|(_, offering)| overlay.is_for_offering(offering, registry));
        (index, meant.map(|(offering, _)| offering).collect())
    });
    with_offerings.filter(|(_, offerings): &(usize, Vec<usize>)| !offerings.is_empty()).collect()
}

/// Price or resource that two overlays of one type would both change; `shared` is true if they are for one offering.
fn contested(first: &Overlay, second: &Overlay, shared: bool) -> Option<Contested> {
    if shared && first.price.is_some() && second.price.is_some() {
        return Some(Contested::Price);
    }
    let mut names = first.capacity.iter().map(|(name, _)| name);
    let both = names.find(|name| second.capacity.get(name.as_str()).is_some());
    both.cloned().map(Contested::Resource)
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { with, pool, instance_type, about } = self;
        write!(
            f,
            "overlay `{with}` has the same weight and also changes {about} of `{instance_type}` in pool `{pool}`; \
             give them different weights or requirements that exclude each other"
        )
    }
}

impl fmt::Display for Contested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Price => f.write_str("the price"),
            Self::Resource(name) => write!(f, "resource `{name}`"),
        }
    }
}
