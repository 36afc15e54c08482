//! One status condition as stored. The rules for changing them are in [`crate::conditions`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_model::ConditionStatus;
use serde::{Deserialize, Serialize};

/// One observed aspect of an object.
///
/// `reason` and `message` may be absent: NodeClaims written by old versions lack them and stay valid
/// (spec scheduling 4). Both are always written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Subject of the condition, for example `Launched`; unique within one object.
    #[serde(rename = "type")]
    pub kind: String,
    pub status: ConditionStatus,
    /// Time at which `status` last changed, to the second.
    pub last_transition_time: Time,
    /// A stable word for why, for machines.
    #[serde(default)]
    pub reason: String,
    /// A sentence for why, for people.
    #[serde(default)]
    pub message: String,
    /// `metadata.generation` the condition was computed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
