//! NodeClaim, `karpenter.sh/v1`: one machine, asked for, launched, or going away (spec scheduling 4).

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_model::NodeClassRef;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::duration::{Duration, NillableDuration};
use crate::nodepool::default_expire_after;
use crate::quantity::ResourceMap;
use crate::requirement::Requirement;
use crate::resource::custom_resource;

custom_resource! {
    /// The request for one machine and the state of that machine.
    NodeClaim { spec: NodeClaimSpec, status: NodeClaimStatus }
    group: "karpenter.sh", version: "v1", plural: "nodeclaims"
}

/// Requested machine; immutable once created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    pub requirements: Vec<Requirement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ClaimResources>,
    pub node_class_ref: NodeClassRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<Duration>,
    #[serde(default = "default_expire_after")]
    pub expire_after: NillableDuration,
}

impl Default for NodeClaimSpec {
    fn default() -> Self {
        Self {
            taints: None,
            startup_taints: None,
            requirements: Vec::new(),
            resources: None,
            node_class_ref: NodeClassRef::default(),
            termination_grace_period: None,
            expire_after: default_expire_after(),
        }
    }
}

/// The least the machine must offer to pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimResources {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceMap>,
}

/// The state of the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    #[serde(rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceMap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<ResourceMap>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Time at which a pod was last bound to or removed from the node, accurate to about ten seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
}
