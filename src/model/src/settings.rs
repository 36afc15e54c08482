//! Every setting a decision depends on, already parsed (spec disruption 5.1).

mod disruption;

use std::time::Duration;

use crate::id::LabelKey;
use crate::pod::affinity::{NodeInclusion, WhenUnsatisfiable};

pub use disruption::{Brakes, DisruptionSettings, ManyToMany};

/// Treatment of preferences of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PreferencePolicy {
    /// Preferences are hard until relaxed one by one.
    #[default]
    Respect,
    /// Preferences are ignored.
    Ignore,
}

/// Behavior when `minValues` cannot be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum MinValuesPolicy {
    /// The pool cannot host the pod.
    #[default]
    Strict,
    /// The number is lowered to what can be had, for new claims.
    BestEffort,
}

/// Behavior when every reservation a pod could use is taken in this pass (spec scheduling 17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ReservationPolicy {
    /// The pod waits for the next pass. For provisioning.
    #[default]
    Strict,
    /// Other capacity will do. For simulations of disruption.
    Fallback,
}

/// A topology spread that pods without one of their own get (the `defaultConstraints` of the Kubernetes
/// scheduler).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultSpread {
    /// Label whose values are the domains.
    pub topology_key: LabelKey,
    /// Largest difference between domains, at least 1.
    pub max_skew: u32,
    /// Hard or soft.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Fewer eligible domains than this make the minimum 0.
    pub min_domains: Option<u32>,
    /// Policy for nodes that the pod must not use because of their labels: domains or not.
    pub node_affinity_policy: NodeInclusion,
    /// Policy for nodes whose taints the pod does not tolerate: domains or not.
    pub node_taints_policy: NodeInclusion,
}

impl DefaultSpread {
    /// A spread that says no more than these, with the defaults of the API.
    pub fn new(topology_key: LabelKey, max_skew: u32, when_unsatisfiable: WhenUnsatisfiable) -> Self {
        Self {
            topology_key,
            max_skew,
            when_unsatisfiable,
            min_domains: None,
            node_affinity_policy: NodeInclusion::Honor,
            node_taints_policy: NodeInclusion::Ignore,
        }
    }
}

/// Feature gates (spec disruption 0.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per gate, named as users write them")]
pub struct FeatureGates {
    /// Reserved capacity offerings.
    pub reserved_capacity: bool,
    /// Replace spot by cheaper spot.
    pub spot_to_spot_consolidation: bool,
    /// Replace unhealthy nodes.
    pub node_repair: bool,
    /// Price and capacity overlays.
    pub node_overlay: bool,
    /// Pools with `replicas`.
    pub static_capacity: bool,
    pub capacity_buffer: bool,
    /// Drifted nodes go before their replacement where none can be staged.
    pub terminate_first_drift: bool,
    /// Unhealthy nodes go before their replacement where none can be staged.
    pub terminate_first_repair: bool,
    /// Deletion costs of pods follow the order in which their nodes are disrupted.
    pub pod_deletion_cost_management: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_repair: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
            terminate_first_drift: false,
            terminate_first_repair: false,
            pod_deletion_cost_management: false,
        }
    }
}

/// Settings of the pure crates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Longest batch of pending pods.
    pub batch_max: Duration,
    /// Quiet time that ends a batch.
    pub batch_idle: Duration,
    /// Set when nodes that later pods could hardly make cheaper are launched before the batch is complete.
    pub batch_early_launch: bool,
    /// Preferences.
    pub preference_policy: PreferencePolicy,
    /// `minValues`.
    pub min_values_policy: MinValuesPolicy,
    /// Most pending pods without a place that one pass plans for, at least 1; the next one goes on with the rest.
    pub pods_per_pass: u32,
    /// Reservations that are used up.
    pub reservation_policy: ReservationPolicy,
    /// Default spread constraints of the cluster's scheduler; empty unless configured.
    pub default_spread: Vec<DefaultSpread>,
    /// Pods with resource claims are refused.
    pub ignore_dra_requests: bool,
    pub gates: FeatureGates,
    /// Longest time until the Node of a claim has registered, before its machine is ended and its pods are planned for again.
    pub registration_timeout: Duration,
    /// Longest time from there until it is initialized, before its machine is ended; `None` waits as long as pods want it.
    pub initialization_timeout: Option<Duration>,
    /// Termination grace period of claims whose pool has none.
    pub default_termination_grace_period: Option<Duration>,
    pub disruption: DisruptionSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_max: Duration::from_secs(10),
            batch_idle: Duration::from_secs(1),
            batch_early_launch: true,
            preference_policy: PreferencePolicy::default(),
            min_values_policy: MinValuesPolicy::default(),
            // Planning so many on ten thousand machines takes less than a second (docs/performance.md).
            pods_per_pass: 50_000,
            reservation_policy: ReservationPolicy::default(),
            default_spread: Vec::new(),
            ignore_dra_requests: true,
            gates: FeatureGates::default(),
            registration_timeout: Duration::from_mins(15),
            initialization_timeout: None,
            default_termination_grace_period: None,
            disruption: DisruptionSettings::default(),
        }
    }
}

impl Settings {
    /// Returns how long a nomination protects a node: twice the longest batch, at least 10 s
    /// (spec scheduling 27.6).
    pub fn nomination_window(&self) -> Duration {
        (self.batch_max * 2).max(Duration::from_secs(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nomination_window_is_twice_the_batch_and_at_least_ten_seconds() {
        let settings = |seconds| Settings { batch_max: Duration::from_secs(seconds), ..Settings::default() };
        assert_eq!(Settings::default().nomination_window(), Duration::from_secs(20));
        assert_eq!(settings(2).nomination_window(), Duration::from_secs(10));
    }
}
