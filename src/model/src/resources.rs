//! Amounts of several resources and their arithmetic (spec core-scheduling 9).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ResourceName;
use crate::quantity::Quantity;

/// CPU cores.
pub const CPU: &str = "cpu";
/// Bytes of memory.
pub const MEMORY: &str = "memory";
/// Bytes of local disk.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Pod slots.
pub const PODS: &str = "pods";
/// Nodes: a synthetic resource of limits and pool status, one per node.
pub const NODES: &str = "nodes";
/// Prefix of huge page resources.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// Resource amounts by name. A missing entry and a zero entry differ only for [`Resources::min`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(BTreeMap<ResourceName, Quantity>);

impl Resources {
    /// No resources.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// One pod slot, which every pod takes.
    pub fn one_pod() -> Self {
        [(ResourceName::from(PODS), Quantity::ONE)].into_iter().collect()
    }

    /// The amount of `name`, if there is an entry.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// The amount of `name`, zero when there is no entry.
    pub fn amount(&self, name: &str) -> Quantity {
        self.get(name).unwrap_or_default()
    }

    /// Sets the amount of `name`.
    pub fn set(&mut self, name: &str, quantity: Quantity) {
        self.0.insert(name.into(), quantity);
    }

    /// The same resources with `name` set to `quantity`.
    #[must_use]
    pub fn with(mut self, name: &str, quantity: Quantity) -> Self {
        self.set(name, quantity);
        self
    }

    /// Drops the entry of `name`.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Entries in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, &Quantity)> {
        self.0.iter()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every amount is zero.
    pub fn is_zero(&self) -> bool {
        self.0.values().all(|quantity| quantity.is_zero())
    }

    /// Sum over the union of the names.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// Adds `other` in place.
    pub fn add(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            match self.0.get_mut(name) {
                Some(entry) => *entry = entry.saturating_add(*quantity),
                None => {
                    self.0.insert(name.clone(), *quantity);
                }
            }
        }
    }

    /// Difference that keeps the names of `self` only.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        let left = |(name, quantity): (&ResourceName, &Quantity)| {
            (name.clone(), quantity.saturating_sub(other.amount(name.as_str())))
        };
        self.0.iter().map(left).collect()
    }

    /// Element-wise minimum over the names *all* lists have; empty for no lists.
    pub fn min<'a>(lists: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut lists = lists.into_iter();
        let Some(first) = lists.next() else { return Self::new() };
        lists.fold(first.clone(), |least, next| {
            let both = least.0.into_iter().filter_map(|(name, quantity)| {
                let other = next.get(name.as_str())?;
                Some((name, quantity.min(other)))
            });
            both.collect()
        })
    }

    /// Element-wise maximum over the union of the names.
    pub fn max<'a>(lists: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut most = Self::new();
        for list in lists {
            for (name, quantity) in &list.0 {
                let entry = most.0.entry(name.clone()).or_insert(*quantity);
                *entry = (*entry).max(*quantity);
            }
        }
        most
    }

    /// The entries of `self`, replaced or extended by those of `overrides`.
    #[must_use]
    pub fn replaced_by(&self, overrides: &Self) -> Self {
        let mut result = self.clone();
        result.0.extend(overrides.0.iter().map(|(name, quantity)| (name.clone(), *quantity)));
        result
    }

    /// Whether a request of `self` fits into `available`. Nothing fits where any available amount is
    /// negative, even one that is not asked for; asking for zero of something unknown fits.
    pub fn fits(&self, available: &Self) -> bool {
        !available.0.values().any(|quantity| quantity.is_negative())
            && self.0.iter().all(|(name, quantity)| *quantity <= available.amount(name.as_str()))
    }

    /// Raises negative amounts to zero.
    #[must_use]
    pub fn floor_zero(self) -> Self {
        self.0.into_iter().map(|(name, quantity)| (name, quantity.max(Quantity::ZERO))).collect()
    }
}

impl FromIterator<(ResourceName, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Quantity)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<'a> std::iter::Sum<&'a Resources> for Resources {
    fn sum<I: Iterator<Item = &'a Resources>>(iter: I) -> Self {
        iter.fold(Self::new(), |mut sum, next| {
            sum.add(next);
            sum
        })
    }
}

impl fmt::Display for Resources {
    /// Compact JSON: `{"cpu":"1","memory":"2Gi"}`, the form error messages use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, quantity)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}\"{name}\":\"{quantity}\"")?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(entries: &[(&str, &str)]) -> Resources {
        entries.iter().map(|(name, text)| ((*name).into(), text.parse().unwrap())).collect()
    }

    #[test]
    fn merge_unions_and_subtract_keeps_the_left_names() {
        let left = resources(&[("cpu", "2"), ("memory", "1Gi")]);
        let right = resources(&[("cpu", "500m"), ("gpu", "1")]);
        assert_eq!(left.merge(&right), resources(&[("cpu", "2500m"), ("memory", "1Gi"), ("gpu", "1")]));
        assert_eq!(left.subtract(&right), resources(&[("cpu", "1500m"), ("memory", "1Gi")]));
    }

    #[test]
    fn min_keeps_common_names_and_max_all() {
        let lists = [resources(&[("cpu", "2"), ("memory", "1Gi")]), resources(&[("cpu", "1"), ("gpu", "1")])];
        assert_eq!(Resources::min(&lists), resources(&[("cpu", "1")]));
        assert_eq!(Resources::max(&lists), resources(&[("cpu", "2"), ("memory", "1Gi"), ("gpu", "1")]));
        assert_eq!(Resources::min([]), Resources::new());
    }

    #[test]
    fn fits_compares_every_request_and_refuses_negative_capacity() {
        let available = resources(&[("cpu", "2"), ("pods", "1")]);
        let table = [
            (resources(&[("cpu", "2")]), available.clone(), true),
            (resources(&[("cpu", "2001m")]), available.clone(), false),
            (resources(&[("gpu", "1")]), available.clone(), false),
            (resources(&[("gpu", "0")]), available.clone(), true),
            (resources(&[]), available.with("memory", "-1".parse().unwrap()), false),
        ];
        for (request, available, expected) in table {
            assert_eq!(request.fits(&available), expected, "{request} in {available}");
        }
    }

    #[test]
    fn prints_compact_json() {
        assert_eq!(
            resources(&[("memory", "2Gi"), ("cpu", "100m")]).to_string(),
            r#"{"cpu":"100m","memory":"2Gi"}"#
        );
    }
}
