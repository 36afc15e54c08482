//! NodePool, `karpenter.sh/v1`: what nodes may be created, how many, and when they may be disrupted
//! (spec scheduling 3).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use karpenter_model::{ConsolidationPolicy, DisruptionReason, NodeClassRef};
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::duration::{Duration, NillableDuration};
use crate::quantity::ResourceMap;
use crate::requirement::Requirement;
use crate::resource::custom_resource;

mod hash;
mod validation;

pub use validation::{Invalid, Problem};

custom_resource! {
    /// A policy for creating and disrupting nodes of one kind.
    NodePool { spec: NodePoolSpec, status: NodePoolStatus }
    group: "karpenter.sh", version: "v1", plural: "nodepools"
}

/// `spec` of a NodePool, set by the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    pub template: NodeClaimTemplate,
    #[serde(default)]
    pub disruption: Disruption,
    /// Resources the pool may hold at most; the synthetic resource `nodes` counts nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceMap>,
    /// Preference over other pools, 1 to 100, higher first; absent counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Fixed number of nodes; its presence makes the pool static [alpha: `StaticCapacity`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// The NodeClaims a pool creates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeClaimTemplate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations for the NodeClaim and, from there, the Node.
///
/// Absent and empty maps are different: they hash differently (spec scheduling 7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The specification of the NodeClaims a pool creates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Taints something else removes once the node can run pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    pub requirements: Vec<Requirement>,
    pub node_class_ref: NodeClassRef,
    /// Time that draining may take before pods are deleted by force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<Duration>,
    /// Age at which a node is replaced.
    #[serde(default = "default_expire_after")]
    pub expire_after: NillableDuration,
}

impl Default for NodeClaimTemplateSpec {
    fn default() -> Self {
        Self {
            taints: None,
            startup_taints: None,
            requirements: Vec::new(),
            node_class_ref: NodeClassRef::default(),
            termination_grace_period: None,
            expire_after: default_expire_after(),
        }
    }
}

/// 30 days, the schema default of `expireAfter`.
pub(crate) fn default_expire_after() -> NillableDuration {
    NillableDuration::from("720h")
}

/// Rules for the disruption of the pool's nodes: its times, and the number of nodes at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disruption {
    /// Time that a node must have been free of pod changes before it may be consolidated.
    pub consolidate_after: NillableDuration,
    pub consolidation_policy: ConsolidationPolicy,
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: NillableDuration::from("0s"),
            consolidation_policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
            budgets: vec![Budget::default()],
        }
    }
}

/// Limit on the nodes of the pool that may be disrupted at once, and the times it applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The reasons the budget is for; absent means every reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// A number or a percentage of the pool's nodes.
    #[serde(default = "default_budget_nodes")]
    pub nodes: String,
    /// A cron expression: when the budget begins to apply. Set together with `duration`. In UTC, or in the time zone that
    /// precedes the five fields as `CRON_TZ=Europe/Berlin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Time that the budget applies from each activation of the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { reasons: None, nodes: default_budget_nodes(), schedule: None, duration: None }
    }
}

fn default_budget_nodes() -> String {
    "10%".to_owned()
}

/// `status` of a NodePool, written by the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Sum of the capacity of the pool's nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceMap>,
    /// Number of nodes; never left out, because the scale subresource reads it.
    #[serde(default)]
    pub nodes: i64,
    /// Generation of the node class that registration health was judged for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
