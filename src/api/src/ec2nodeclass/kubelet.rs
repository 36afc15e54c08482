//! The kubelet block of an EC2NodeClass (spec aws-provider 1.4): the kubelet's own configuration, kept as it is written.
//!
//! The API server takes any object, so a block may hold fields that the kubelet does not have; the class is refused then
//! ([`KubeletBlock::problems`]), and nothing here fails. `maxPods` and the values of reserved resources may be expressions,
//! which [`Program`] evaluates for each instance type.

mod expression;
mod fields;
mod rules;

use std::collections::BTreeMap;

use karpenter_model::Quantity;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::duration::Duration;

pub use expression::{Program, Variables};

/// A block as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KubeletBlock(Map<String, Value>);

/// The settings that a node is planned with, and that every family takes; absent ones keep the defaults of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfiguration {
    #[serde(rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    pub cluster_dns: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<i32>,
    /// Resource to quantity text, taken off for system daemons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_reserved: Option<BTreeMap<String, String>>,
    /// Resource to quantity text, taken off for Kubernetes daemons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_reserved: Option<BTreeMap<String, String>>,
    /// Signal to quantity or percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Signal to quantity or percentage; every signal has a grace period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft_grace_period: Option<BTreeMap<String, Duration>>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i32>,
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i32>,
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}

/// Position of an expression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// `maxPods`.
    MaxPods,
    /// A resource of `kubeReserved`.
    KubeReserved(String),
    /// A resource of `systemReserved`.
    SystemReserved(String),
}

impl KubeletBlock {
    /// The fields as they are written.
    pub const fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The settings among the fields, without expressions and without what cannot be read.
    pub fn settings(&self) -> KubeletConfiguration {
        let reserved = |field: &str| {
            let mut texts = self.read::<Map<String, Value>>(field)?;
            texts.retain(|_, value| value.as_str().is_some_and(is_quantity));
            serde_json::from_value(Value::Object(texts)).ok()
        };
        KubeletConfiguration {
            cluster_dns: self.read("clusterDNS"),
            max_pods: self.read("maxPods"),
            pods_per_core: self.read("podsPerCore"),
            system_reserved: reserved("systemReserved"),
            kube_reserved: reserved("kubeReserved"),
            eviction_hard: self.read("evictionHard"),
            eviction_soft: self.read("evictionSoft"),
            eviction_soft_grace_period: self.read("evictionSoftGracePeriod"),
            eviction_max_pod_grace_period: self.read("evictionMaxPodGracePeriod"),
            image_gc_high_threshold_percent: self.read("imageGCHighThresholdPercent"),
            image_gc_low_threshold_percent: self.read("imageGCLowThresholdPercent"),
            cpu_cfs_quota: self.read("cpuCFSQuota"),
        }
    }

    /// The expressions with the place of each.
    pub fn expressions(&self) -> impl Iterator<Item = (Place, &str)> {
        let max_pods = self.0.get("maxPods").and_then(Value::as_str);
        let kube = self.reserved("kubeReserved", Place::KubeReserved);
        let reserved = kube.chain(self.reserved("systemReserved", Place::SystemReserved));
        let reserved = reserved.filter(|(_, text)| !is_quantity(text));
        max_pods.map(|text| (Place::MaxPods, text)).into_iter().chain(reserved)
    }

    /// Returns the faults that no kubelet would take, whatever its image: names, types and values of fields.
    pub fn problems(&self) -> Vec<String> {
        let plain = self.without_expression();
        let unreadable = fields::unreadable(&plain);
        if unreadable.is_empty() { rules::broken(&plain) } else { unreadable }
    }

    /// Returns the faults in names and types of fields alone, for a block that is a part of what a kubelet gets.
    pub fn unreadable(&self) -> Vec<String> {
        fields::unreadable(&self.without_expression())
    }

    /// The fields, without a number of pods that is an expression.
    fn without_expression(&self) -> Map<String, Value> {
        let mut plain = self.0.clone();
        if plain.get("maxPods").is_some_and(Value::is_string) {
            plain.shift_remove("maxPods");
        }
        plain
    }

    fn reserved(
        &self,
        field: &'static str,
        place: fn(String) -> Place,
    ) -> impl Iterator<Item = (Place, &str)> {
        let entries = self.0.get(field).and_then(Value::as_object).into_iter().flatten();
        entries.filter_map(move |(key, value)| Some((place(key.clone()), value.as_str()?)))
    }

    fn read<T: DeserializeOwned>(&self, field: &str) -> Option<T> {
        self.0.get(field).and_then(|value| serde_json::from_value(value.clone()).ok())
    }
}

impl From<KubeletConfiguration> for KubeletBlock {
    fn from(settings: KubeletConfiguration) -> Self {
        match serde_json::to_value(settings) {
            Ok(Value::Object(fields)) => Self(fields),
            _ => Self::default(),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MaxPods => f.write_str("maxPods"),
            Self::KubeReserved(resource) => write!(f, "kubeReserved.{resource}"),
            Self::SystemReserved(resource) => write!(f, "systemReserved.{resource}"),
        }
    }
}

/// Returns whether a text is an amount, or none at all, and not an expression.
fn is_quantity(text: &str) -> bool {
    text.is_empty() || text.parse::<Quantity>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn block(fields: Value) -> KubeletBlock {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn settings_are_read_and_expressions_left_out() {
        let mixed = block(json!({
            "maxPods": "vcpus * 8",
            "podsPerCore": 4,
            "kubeReserved": {"cpu": "100m", "memory": "11 * max_pods + 255"},
            "systemReserved": {"memory": "1Gi", "cpu": 1},
            "cpuManagerPolicy": "static",
        }));
        let map = |key: &str, value: &str| Some([(key.to_owned(), value.to_owned())].into());
        let settings = KubeletConfiguration {
            pods_per_core: Some(4),
            kube_reserved: map("cpu", "100m"),
            system_reserved: map("memory", "1Gi"),
            ..KubeletConfiguration::default()
        };
        assert_eq!(mixed.settings(), settings);
        let found: Vec<String> =
            mixed.expressions().map(|(place, text)| format!("{place}: {text}")).collect();
        assert_eq!(found, ["maxPods: vcpus * 8", "kubeReserved.memory: 11 * max_pods + 255"]);
    }

    #[test]
    fn what_is_written_is_kept() {
        let fields = json!({"b": null, "a": {"z": 1, "y": [1.5]}, "maxPods": 5});
        assert_eq!(serde_json::to_string(&block(fields.clone())).unwrap(), fields.to_string());
        let settings = KubeletConfiguration { max_pods: Some(5), ..KubeletConfiguration::default() };
        assert_eq!(KubeletBlock::from(settings.clone()).settings(), settings);
    }

    #[test]
    fn rules_hold_for_what_can_be_read() {
        assert_eq!(block(json!({"maxPods": "vcpus"})).problems(), Vec::<String>::new());
        let unknown = block(json!({"maxPod": 1, "podsPerCore": -1}));
        assert_eq!(unknown.problems(), ["unknown field \"maxPod\""]);
        assert_eq!(block(json!({"podsPerCore": -1})).problems(), ["podsPerCore must not be negative"]);
    }
}
