//! A Kubernetes `Node` object, reduced to what decisions read.
//!
//! [`crate::Node`] is the merged view of a machine that the planner works on; this is the object alone, as the
//! life cycle of a claim and the cluster index receive it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::claim::condition::ConditionStatus;
use crate::id::{ClaimUid, LabelValue, NodeName, ProviderId, Zone};
use crate::label::{Annotations, Labels};
use crate::names::{condition, label};
use crate::resources::Resources;
use crate::taint::Taint;

/// One `Node` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeObject {
    pub name: NodeName,
    /// `spec.providerID`.
    pub provider_id: Option<ProviderId>,
    pub labels: Labels,
    pub annotations: Annotations,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    pub finalizers: Vec<String>,
    /// Uids of all owners; those of claims matter.
    pub owners: BTreeSet<ClaimUid>,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// `status.nodeInfo.bootID`, another one after each boot of the machine; `None` before the kubelet has reported.
    pub boot_id: Option<String>,
    /// `status.conditions` by type.
    pub conditions: Arc<NodeConditions>,
    /// Creation time of the object.
    pub created_at: Timestamp,
    /// Deletion timestamp of the object.
    pub deletion: Option<Timestamp>,
}

/// Conditions of a Node, by type.
pub type NodeConditions = BTreeMap<String, NodeCondition>;

/// One condition of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    pub status: ConditionStatus,
    /// A word why, as the client that wrote it spells it.
    pub reason: String,
    /// Instant when the status last changed.
    pub last_transition: Timestamp,
}

impl NodeObject {
    /// A bare Node of this name, the starting point of builders and tests.
    pub fn bare(name: &str, created_at: Timestamp) -> Self {
        Self {
            name: name.into(),
            provider_id: None,
            labels: Labels::new(),
            annotations: Annotations::new(),
            taints: Vec::new(),
            finalizers: Vec::new(),
            owners: BTreeSet::new(),
            capacity: Resources::default(),
            allocatable: Resources::default(),
            boot_id: None,
            conditions: Arc::default(),
            created_at,
            deletion: None,
        }
    }

    /// Condition `Ready` is `True`.
    pub fn is_ready(&self) -> bool {
        self.conditions
            .get(condition::READY)
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Zone, from the label.
    pub fn zone(&self) -> Option<Zone> {
        self.labels.get(label::ZONE).map(LabelValue::name)
    }

    /// The label is exactly `true`.
    pub fn has_true_label(&self, key: &str) -> bool {
        self.labels.get(key).is_some_and(|value| value.as_str() == "true")
    }
}
