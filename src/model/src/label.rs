//! Labels of objects, and the registry of what is known about their keys. The keys are in [`crate::names`].
//!
//! Providers add their own keys and translations at start-up, so the registry is a value that is passed
//! around, never a constant (spec scheduling 2).

pub mod selector;

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{LabelKey, LabelValue};
use crate::names::label;

/// Object labels.
pub type Labels = BTreeMap<LabelKey, LabelValue>;
/// Object annotations.
pub type Annotations = BTreeMap<String, String>;

/// Facts about label keys and values: which are well known, restricted or aliases of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRegistry {
    /// Keys the provider can resolve even when a pool does not mention them.
    pub well_known: BTreeSet<LabelKey>,
    /// Alias to canonical key, applied when a requirement is built.
    pub normalized_keys: BTreeMap<LabelKey, LabelKey>,
    /// Canonical values per canonical key and alias value, applied when a requirement is built.
    pub normalized_values: BTreeMap<LabelKey, BTreeMap<LabelValue, LabelValue>>,
    /// Domains reserved for the controller, together with all their subdomains.
    pub restricted_domains: BTreeSet<String>,
    /// Keys that must not be required.
    pub restricted_labels: BTreeSet<LabelKey>,
    /// The closed value set of some well-known keys.
    pub well_known_values: BTreeMap<LabelKey, BTreeSet<LabelValue>>,
    /// Key that carries a reservation id, if the provider has reservations.
    pub reservation_id: Option<LabelKey>,
    /// Keys that only reserved capacity carries.
    pub reserved_labels: BTreeSet<LabelKey>,
}

impl LabelRegistry {
    /// The keys every cloud shares; providers extend the returned value.
    pub fn core() -> Self {
        Self {
            well_known: label::WELL_KNOWN.map(LabelKey::from).into(),
            normalized_keys: label::NORMALIZED.map(|(old, new)| (old.into(), new.into())).into(),
            normalized_values: BTreeMap::new(),
            restricted_domains: [label::DOMAIN.to_owned()].into(),
            restricted_labels: label::RESTRICTED.map(LabelKey::from).into(),
            well_known_values: [(
                label::CAPACITY_TYPE.into(),
                label::CAPACITY_TYPES.map(LabelValue::from).into(),
            )]
            .into(),
            reservation_id: None,
            reserved_labels: BTreeSet::new(),
        }
    }

    /// Returns whether `key` is well known.
    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known.contains(key)
    }

    /// The canonical spelling of `key`.
    pub fn normalize_key(&self, key: &LabelKey) -> LabelKey {
        self.normalized_keys.get(key).unwrap_or(key).clone()
    }

    /// The canonical spelling of `value` under the canonical `key`.
    pub fn normalize_value(&self, key: &LabelKey, value: &LabelValue) -> LabelValue {
        self.normalized_values.get(key).and_then(|values| values.get(value)).unwrap_or(value).clone()
    }

    /// Returns whether pods and pools may not constrain `key`: a restricted label, or a key of a restricted domain that is
    /// not well known. The domain is the text before the first `/`; a key without `/` has none.
    pub fn is_restricted(&self, key: &str) -> bool {
        if self.is_well_known(key) {
            return false;
        }
        if self.restricted_labels.contains(key) {
            return true;
        }
        let domain = label::domain(key);
        self.restricted_domains.iter().any(|restricted| {
            domain
                .strip_suffix(restricted.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }
}

impl Default for LabelRegistry {
    fn default() -> Self {
        Self::core()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restricts_the_controller_domain_but_not_its_well_known_keys() {
        let registry = LabelRegistry::core();
        let table = [
            ("karpenter.sh/nodepool", false),
            ("karpenter.sh/capacity-type", false),
            ("karpenter.sh/initialized", true),
            ("sub.karpenter.sh/x", true),
            ("mykarpenter.sh/x", false),
            ("karpenter.sh", false),
            ("kubernetes.io/hostname", true),
            ("kubernetes.io/custom", false),
            ("k8s.io/custom", false),
            ("node.kubernetes.io/custom", false),
            ("team", false),
        ];
        for (key, restricted) in table {
            assert_eq!(registry.is_restricted(key), restricted, "{key}");
        }
    }

    #[test]
    fn normalizes_beta_keys_and_provider_values() {
        let mut registry = LabelRegistry::core();
        registry
            .normalized_values
            .insert(label::ZONE.into(), [("use1-az1".into(), "us-east-1a".into())].into());
        let zone = registry.normalize_key(&"failure-domain.beta.kubernetes.io/zone".into());
        assert_eq!(zone, label::ZONE);
        assert_eq!(registry.normalize_value(&zone, &"use1-az1".into()), "us-east-1a");
        assert_eq!(registry.normalize_value(&zone, &"us-east-1b".into()), "us-east-1b");
    }
}
