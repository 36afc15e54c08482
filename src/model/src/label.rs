//! Label, annotation and finalizer names with a meaning, and the registry of what is known about label keys.
//!
//! Providers add their own keys and translations at start-up, so the registry is a value that is passed
//! around, never a constant (spec scheduling 2).

pub mod selector;

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{LabelKey, LabelValue};

/// Object labels.
pub type Labels = BTreeMap<LabelKey, LabelValue>;
/// Object annotations.
pub type Annotations = BTreeMap<String, String>;

/// Owning pool.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` once the Node is initialized.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `true` once the Node is registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` on a joining Node: registration leaves its taints alone.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Availability zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// CPU architecture: `amd64`, `arm64`.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system.
pub const OS: &str = "kubernetes.io/os";
/// Windows build.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// Host name, the finest topology domain.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Pod and node annotation that blocks voluntary disruption.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Annotation: hash of the pool template a claim was made from.
pub const POOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Annotation: version of the hash algorithm.
pub const POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// Current version of the pool hash algorithm.
pub const POOL_HASH_VERSION_CURRENT: &str = "v3";
/// Annotation: hard termination deadline, RFC 3339.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Annotation of a claim: sorted, comma-separated drivers of devices it has to wait for.
pub const REQUESTED_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// Annotation: whether `minValues` were lowered for this claim.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// Annotation of claims: `true` when a type it may become has an overlaid price.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// Annotation of claims: `true` when a type it may become has an overlaid amount of a resource.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// Finalizer on claims and their Nodes.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

/// What is known about label keys and values: which are well known, restricted or aliases of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRegistry {
    /// Keys the provider can resolve even when a pool does not mention them.
    pub well_known: BTreeSet<LabelKey>,
    /// Alias to canonical key, applied when a requirement is built.
    pub normalized_keys: BTreeMap<LabelKey, LabelKey>,
    /// Per canonical key: alias value to canonical value, applied when a requirement is built.
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
        let aliases = [
            ("failure-domain.beta.kubernetes.io/zone", ZONE),
            ("failure-domain.beta.kubernetes.io/region", REGION),
            ("beta.kubernetes.io/arch", ARCH),
            ("beta.kubernetes.io/os", OS),
            ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
        ];
        let well_known = [NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD]
            .map(LabelKey::from);
        let capacity_types = ["on-demand", "spot", "reserved"].map(LabelValue::from);
        Self {
            well_known: well_known.into(),
            normalized_keys: aliases.iter().map(|(alias, key)| ((*alias).into(), (*key).into())).collect(),
            normalized_values: BTreeMap::new(),
            restricted_domains: ["karpenter.sh".to_owned()].into(),
            restricted_labels: [HOSTNAME.into()].into(),
            well_known_values: [(CAPACITY_TYPE.into(), capacity_types.into())].into(),
            reservation_id: None,
            reserved_labels: BTreeSet::new(),
        }
    }

    /// Whether `key` is well known.
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

    /// Whether pods and pools may not constrain `key`: a restricted label, or a key of a restricted domain
    /// that is not well known. The domain is the text before the first `/`; a key without `/` has none.
    pub fn is_restricted(&self, key: &str) -> bool {
        if self.is_well_known(key) {
            return false;
        }
        if self.restricted_labels.contains(key) {
            return true;
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
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
        registry.normalized_values.insert(ZONE.into(), [("use1-az1".into(), "us-east-1a".into())].into());
        let zone = registry.normalize_key(&"failure-domain.beta.kubernetes.io/zone".into());
        assert_eq!(zone, ZONE);
        assert_eq!(registry.normalize_value(&zone, &"use1-az1".into()), "us-east-1a");
        assert_eq!(registry.normalize_value(&zone, &"us-east-1b".into()), "us-east-1b");
    }
}
