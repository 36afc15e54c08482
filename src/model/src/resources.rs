//! Amounts of several resources and their arithmetic (spec scheduling 9).
//!
//! A list in name order: a pod has three entries and a node ten, so a list is read in one go where a tree would be
//! three jumps. Common names are shared, because there is one list or more for every pod of a cluster.

pub mod quantity;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::ResourceName;
use crate::resources::quantity::Quantity;

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

/// The names that are shared.
static COMMON: LazyLock<[ResourceName; 4]> =
    LazyLock::new(|| [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].map(ResourceName::from));

/// Resource amounts by name. A missing entry and a zero entry differ only for [`Resources::min`].
///
/// Entries are in name order, one per name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Resources(Vec<(ResourceName, Quantity)>);

impl Resources {
    /// No resources.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// One pod slot, which every pod takes.
    pub fn one_pod() -> Self {
        [(ResourceName::from(PODS), Quantity::ONE)].into_iter().collect()
    }

    /// The amount of `name`, if there is an entry.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, quantity)| *quantity)
    }

    /// The amount of `name`, zero when there is no entry.
    pub fn amount(&self, name: &str) -> Quantity {
        self.get(name).unwrap_or_default()
    }

    /// Sets the amount of `name`.
    pub fn set(&mut self, name: &str, quantity: Quantity) {
        match self.place(name) {
            Ok(place) => self.0[place].1 = quantity,
            Err(place) => self.0.insert(place, (common(name).unwrap_or_else(|| name.into()), quantity)),
        }
    }

    /// Index of the entry of `name`, or the one at which it would be inserted.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }

    /// Returns the resources with `name` set to `quantity`.
    #[must_use]
    pub fn with(mut self, name: &str, quantity: Quantity) -> Self {
        self.set(name, quantity);
        self
    }

    /// Drops the entry of `name`.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Entries in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, &Quantity)> {
        self.0.iter().map(|(name, quantity)| (name, quantity))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether every amount is zero.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|(_, quantity)| quantity.is_zero())
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
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        for (index, (name, quantity)) in other.0.iter().enumerate() {
            // Most lists name the same resources.
            let alike = self.0.get(index).is_some_and(|(known, _)| known == name);
            match if alike { Ok(index) } else { self.place(name.as_str()) } {
                Ok(place) => self.0[place].1 = self.0[place].1.saturating_add(*quantity),
                Err(place) => self.0.insert(place, (name.clone(), *quantity)),
            }
        }
    }

    /// Difference that keeps the names of `self` only.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        let mut left = self.clone();
        for (name, quantity) in &mut left.0 {
            *quantity = quantity.saturating_sub(other.amount(name.as_str()));
        }
        left
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
            Self(both.collect())
        })
    }

    /// Element-wise maximum over the union of the names.
    pub fn max<'a>(lists: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut most = Self::new();
        for list in lists {
            for (name, quantity) in &list.0 {
                match most.place(name.as_str()) {
                    Ok(place) => most.0[place].1 = most.0[place].1.max(*quantity),
                    Err(place) => most.0.insert(place, (name.clone(), *quantity)),
                }
            }
        }
        most
    }

    /// The entries of `self`, replaced or extended by those of `overrides`.
    #[must_use]
    pub fn replaced_by(&self, overrides: &Self) -> Self {
        let mut result = self.clone();
        for (name, quantity) in &overrides.0 {
            result.set(name.as_str(), *quantity);
        }
        result
    }

    /// Returns whether a request of `self` fits into `available`. Nothing fits where any available amount is negative, even
    /// one that is not asked for; asking for zero of something unknown fits.
    pub fn fits(&self, available: &Self) -> bool {
        !available.0.iter().any(|(_, quantity)| quantity.is_negative())
            && self.0.iter().all(|(name, quantity)| *quantity <= available.amount(name.as_str()))
    }

    /// Raises negative amounts to zero.
    #[must_use]
    pub fn floor_zero(mut self) -> Self {
        for (_, quantity) in &mut self.0 {
            *quantity = (*quantity).max(Quantity::ZERO);
        }
        self
    }
}

impl FromIterator<(ResourceName, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Quantity)>>(entries: I) -> Self {
        let mut resources = Self::new();
        for (name, quantity) in entries {
            match resources.place(name.as_str()) {
                Ok(place) => resources.0[place].1 = quantity,
                Err(place) => {
                    resources.0.insert(place, (common(name.as_str()).unwrap_or(name), quantity));
                }
            }
        }
        resources
    }
}

/// The shared form of `name`, if it is one of the common names.
fn common(name: &str) -> Option<ResourceName> {
    COMMON.iter().find(|known| *known == name).cloned()
}

impl Serialize for Resources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = BTreeMap::<ResourceName, Quantity>::deserialize(deserializer)?;
        Ok(entries.into_iter().collect())
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
        for (index, (name, quantity)) in self.iter().enumerate() {
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
    fn entries_are_in_name_order_and_the_last_of_a_name_counts() {
        let entries = [("pods", "1"), ("cpu", "1"), ("gpu", "1"), ("cpu", "2")];
        let mut listed = resources(&entries);
        listed.set("memory", Quantity::ONE);
        listed.set("gpu", Quantity::ZERO);
        let names: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["cpu", "gpu", "memory", "pods"]);
        assert_eq!(listed.amount("cpu"), "2".parse().unwrap());
        listed.remove("gpu");
        assert_eq!(listed.get("gpu"), None);
        let text = serde_json::to_string(&listed).unwrap();
        assert_eq!(serde_json::from_str::<Resources>(&text).unwrap(), listed, "{text}");
    }

    #[test]
    fn prints_compact_json() {
        assert_eq!(
            resources(&[("memory", "2Gi"), ("cpu", "100m")]).to_string(),
            r#"{"cpu":"100m","memory":"2Gi"}"#
        );
    }
}
