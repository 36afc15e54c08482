//! Resource amounts as dense arrays, so that adding and comparing them needs no names.

use karpenter_model::{Quantity, ResourceName, Resources};

use crate::index::{Ix, ResourceIx};
use crate::interning::Interned;

/// Index of every resource name of a snapshot.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResourceIndex {
    names: Interned<ResourceName>,
}

/// Amounts in nano units by resource index; missing entries at the end are zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Amounts(Vec<i128>);

impl ResourceIndex {
    /// The dense form of `resources`, learning new names.
    pub(crate) fn amounts(&mut self, resources: &Resources) -> Amounts {
        let mut dense = Vec::new();
        for (name, quantity) in resources.iter() {
            let index = self.id(name).get();
            if dense.len() <= index {
                dense.resize(index + 1, 0);
            }
            dense[index] = quantity.nanos();
        }
        Amounts(dense)
    }

    /// The number of `name`, learning it if it is new.
    pub(crate) fn id(&mut self, name: &ResourceName) -> ResourceIx {
        let known = self.names.get_index_of(name.as_str());
        ResourceIx::new(known.unwrap_or_else(|| self.names.insert_full(name.clone()).0))
    }

    /// The dense form of those of `resources` whose names are known; the others are never read.
    pub(crate) fn known(&self, resources: &Resources) -> Amounts {
        let mut dense = vec![0; self.len()];
        for (name, quantity) in resources.iter() {
            if let Some(index) = self.position(name.as_str()) {
                dense[index.get()] = quantity.nanos();
            }
        }
        Amounts(dense)
    }

    /// The number of `name`, if it is known.
    pub(crate) fn position(&self, name: &str) -> Option<ResourceIx> {
        self.names.get_index_of(name).map(ResourceIx::new)
    }

    /// The name of resource `index`.
    pub(crate) fn name(&self, index: ResourceIx) -> Option<&ResourceName> {
        self.names.get_index(index.get())
    }

    /// Number of resources seen so far.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

impl Amounts {
    /// The amount at `index`.
    pub(crate) fn at(&self, index: ResourceIx) -> i128 {
        self.0.get(index.get()).copied().unwrap_or(0)
    }

    /// Number of resources it may name.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Amounts with their index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ResourceIx, i128)> {
        self.0.iter().enumerate().map(|(index, amount)| (ResourceIx::new(index), *amount))
    }

    /// Adds one unit of `resource`.
    pub(crate) fn add_one(&mut self, resource: ResourceIx) {
        let index = resource.get();
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = self.0[index].saturating_add(Quantity::ONE.nanos());
    }

    /// Adds `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, more) in self.0.iter_mut().zip(&other.0) {
            // Requests are whatever people write: a sum out of range stays at its end, where it fits nowhere.
            *own = own.saturating_add(*more);
        }
    }

    /// The sum of both.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// Takes `other` away.
    pub(crate) fn subtract(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, less) in self.0.iter_mut().zip(&other.0) {
            *own = own.saturating_sub(*less);
        }
    }

    /// Returns whether some amount is below zero.
    pub(crate) fn any_negative(&self) -> bool {
        self.0.iter().any(|amount| *amount < 0)
    }

    /// Returns whether a request of `self` fits into `available`, none of which may be negative.
    pub(crate) fn fits(&self, available: &Self) -> bool {
        !available.any_negative() && self.iter().all(|(index, amount)| amount <= available.at(index))
    }
}

/// Largest request that is plausible for one pod: a million cores usually means `M` was typed for `m`.
pub(crate) fn looks_like_mega(cpu: Quantity) -> bool {
    cpu >= Quantity::from_units(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(entries: &[(&str, &str)]) -> Resources {
        entries.iter().map(|(name, text)| ((*name).into(), text.parse().unwrap())).collect()
    }

    #[test]
    fn dense_arithmetic_agrees_with_the_model() {
        let lists = [
            resources(&[]),
            resources(&[("cpu", "2"), ("memory", "1Gi")]),
            resources(&[("cpu", "500m"), ("gpu", "1")]),
            resources(&[("memory", "-1")]),
            resources(&[("gpu", "0")]),
        ];
        let mut index = ResourceIndex::default();
        for a in &lists {
            for b in &lists {
                let (dense_a, dense_b) = (index.amounts(a), index.amounts(b));
                assert_eq!(dense_a.fits(&dense_b), a.fits(b), "{a} in {b}");
                let sum = dense_a.plus(&dense_b);
                let expected = index.amounts(&a.merge(b));
                assert!(
                    (0..index.len())
                        .map(ResourceIx::new)
                        .all(|resource| sum.at(resource) == expected.at(resource))
                );
            }
        }
    }
}
