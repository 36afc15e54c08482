//! CapacityBuffer, `autoscaling.x-k8s.io/v1beta1`: room for pods that do not exist yet, an API shared with Cluster
//! Autoscaler (spec scheduling 6) [alpha: `CapacityBuffer`].

use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::quantity::ResourceMap;
use crate::resource::custom_resource;

custom_resource! {
    /// Keeps room for pods that do not exist yet.
    CapacityBuffer { spec: CapacityBufferSpec, status: CapacityBufferStatus }
    group: "autoscaling.x-k8s.io", version: "v1beta1", plural: "capacitybuffers", scope: Namespaced
}

/// Request of the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityBufferSpec {
    /// Strategy by which the room is held; copied into the status and otherwise not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Template of the pods: a `PodTemplate` of the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Workload of the same namespace whose pods the buffer's are like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// A fixed number of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods per hundred replicas of the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<i32>,
    /// Resources the pods may add up to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceMap>,
}

/// An object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalObjectRef {
    pub name: String,
}

/// A workload of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// Empty means `apps`.
    #[serde(default)]
    pub api_group: String,
    pub kind: String,
    pub name: String,
}

/// Findings of the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityBufferStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Pods the buffer holds room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// `metadata.generation` of the `PodTemplate` the number was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
}
