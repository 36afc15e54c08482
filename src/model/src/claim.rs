//! A `NodeClaim`, reduced to what decisions need (spec scheduling 4).

pub mod condition;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use condition::{Condition, ConditionStatus, ConditionType};

use crate::id::{
    CapacityType, ClaimName, ClaimUid, ImageId, InstanceTypeName, NodeClassRef, NodeName, PoolName,
    ProviderId, Zone,
};
use crate::label::{Annotations, Labels};
use crate::names::label;
use crate::requirement::set::Requirements;
use crate::resources::Resources;
use crate::taint::Taint;

/// One `NodeClaim`: the request for a machine, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub name: ClaimName,
    pub uid: ClaimUid,
    /// Owning pool (label `karpenter.sh/nodepool`).
    pub pool: Option<PoolName>,
    /// Node class the claim launches with.
    pub node_class: NodeClassRef,
    /// Object labels; the provider adds the resolved ones after the launch.
    pub labels: Labels,
    pub annotations: Annotations,
    /// `spec.requirements`.
    pub requirements: Requirements,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.startupTaints`.
    pub startup_taints: Vec<Taint>,
    /// `spec.resources.requests`: pods plus daemon overhead at creation.
    pub requests: Resources,
    /// `spec.expireAfter`; `None` is `Never`.
    pub expire_after: Option<Duration>,
    /// `spec.terminationGracePeriod`.
    pub termination_grace_period: Option<Duration>,
    /// Creation time of the object.
    pub created_at: Timestamp,
    /// Deletion timestamp of the object.
    pub deletion: Option<Timestamp>,
    pub finalizers: Vec<String>,
    /// `status.providerID`: set once launched.
    pub provider_id: Option<ProviderId>,
    /// `status.nodeName`.
    pub node_name: Option<NodeName>,
    /// `status.imageID`.
    pub image_id: Option<ImageId>,
    /// `status.capacity`.
    pub capacity: Resources,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// Status conditions of known types.
    pub conditions: BTreeMap<ConditionType, Condition>,
    /// `status.lastPodEventTime`.
    pub last_pod_event: Option<Timestamp>,
}

/// Returns how long a drain with this grace period may take, in a word for metrics: as long as it needs, no time, or until a
/// deadline.
pub const fn termination_mode(grace_period: Option<Duration>) -> &'static str {
    match grace_period {
        None => "graceful",
        Some(period) if period.is_zero() => "forceful",
        Some(_) => "eventual",
    }
}

impl Claim {
    /// A bare claim of this name, just created: the starting point of builders and tests. Its uid is `uid-<name>`.
    pub fn bare(name: &str, created_at: Timestamp) -> Self {
        Self {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            pool: None,
            node_class: NodeClassRef::default(),
            labels: Labels::new(),
            annotations: Annotations::new(),
            requirements: Requirements::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requests: Resources::new(),
            expire_after: None,
            termination_grace_period: None,
            created_at,
            deletion: None,
            finalizers: Vec::new(),
            provider_id: None,
            node_name: None,
            image_id: None,
            capacity: Resources::new(),
            allocatable: Resources::new(),
            conditions: BTreeMap::new(),
            last_pod_event: None,
        }
    }

    /// Returns the claim with these conditions true since an instant.
    #[must_use]
    pub fn holding(mut self, kinds: &[ConditionType], since: Timestamp) -> Self {
        let holds =
            |kind: &ConditionType| (*kind, Condition::since(since, ConditionStatus::True, kind.as_str()));
        self.conditions.extend(kinds.iter().map(holds));
        self
    }

    /// Returns whether condition `kind` is present and `True`.
    pub fn is_true(&self, kind: ConditionType) -> bool {
        self.status(kind) == Some(ConditionStatus::True)
    }

    /// Status of condition `kind`, if the claim has it.
    pub fn status(&self, kind: ConditionType) -> Option<ConditionStatus> {
        self.conditions.get(&kind).map(|condition| condition.status)
    }

    /// Returns when condition `kind` became `True`, if it is.
    pub fn true_since(&self, kind: ConditionType) -> Option<Timestamp> {
        let condition = self.conditions.get(&kind)?;
        (condition.status == ConditionStatus::True).then_some(condition.last_transition)
    }

    /// Returns when the last reboot of its instance was over, if there was one.
    pub fn rebooted_at(&self) -> Option<Timestamp> {
        let condition = self.conditions.get(&ConditionType::Rebooting)?;
        (condition.status == ConditionStatus::False).then_some(condition.last_transition)
    }

    /// Returns since when no pod has come or gone: the last pod event, else the initialization of its node. `None` if neither is
    /// known.
    pub fn quiet_since(&self) -> Option<Timestamp> {
        self.last_pod_event.or_else(|| self.true_since(ConditionType::Initialized))
    }

    /// Instance type label, once the provider has resolved it.
    pub fn instance_type(&self) -> Option<InstanceTypeName> {
        self.labels.get(label::INSTANCE_TYPE).map(|value| value.as_str().into())
    }

    /// Zone label, once the provider has resolved it.
    pub fn zone(&self) -> Option<Zone> {
        self.labels.get(label::ZONE).map(|value| value.as_str().into())
    }

    /// Capacity type label, once the provider has resolved it.
    pub fn capacity_type(&self) -> Option<CapacityType> {
        CapacityType::from_label(self.labels.get(label::CAPACITY_TYPE)?.as_str())
    }
}
