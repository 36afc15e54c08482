//! One machine as the scheduler and the life cycle see it: claim and Node merged (spec scheduling 27.3).
//!
//! The fields hold what each object says; the methods are the merged views. A machine without `name` has no
//! Node yet, one without `claim` is not managed by us.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::claim::Claim;
use crate::claim::condition::ConditionType;
use crate::id::{
    CapacityType, DriverName, InstanceTypeName, LabelValue, NodeId, NodeName, PoolName, ProviderId, Zone,
};
use crate::label::{Annotations, Labels};
use crate::names::label;
use crate::node::object::NodeConditions;
use crate::pod::Pod;
use crate::resources::quantity::Quantity;
use crate::resources::{self, Resources};
use crate::taint::Taint;

/// One machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Key in the cluster index.
    pub id: NodeId,
    /// Name of the Node object, once there is one.
    pub name: Option<NodeName>,
    /// `spec.providerID` of the Node object.
    pub provider_id: Option<ProviderId>,
    /// The claim, for machines we manage.
    pub claim: Option<Arc<Claim>>,
    /// Labels of the Node object.
    pub labels: Labels,
    /// Annotations of the Node object.
    pub annotations: Annotations,
    /// Taints of the Node object.
    pub taints: Vec<Taint>,
    /// `status.capacity` of the Node object.
    pub capacity: Resources,
    /// `status.allocatable` of the Node object.
    pub allocatable: Resources,
    /// `status.conditions` of the Node object.
    pub conditions: Arc<NodeConditions>,
    /// Ready condition of the Node object is `True`.
    pub ready: bool,
    /// Creation time of the Node object, or of the claim.
    pub created_at: Timestamp,
    /// Deletion timestamp of the Node object.
    pub deletion: Option<Timestamp>,
    /// We have decided to remove it, and no object shows that yet.
    pub marked_for_deletion: bool,
    /// A pod was promised a place here until then.
    pub nominated_until: Option<Timestamp>,
    /// Most volumes of a CSI driver it can attach, from `CSINode`; drivers without an entry have no limit.
    pub attach_limits: BTreeMap<DriverName, u32>,
    /// Pods bound to it, terminal ones left out, in key order.
    pub pods: Vec<Arc<Pod>>,
    /// Virtual pods of capacity buffers that the last provisioning pass placed here (spec scheduling 23).
    pub buffer_pods: usize,
}

impl Node {
    /// A machine with nothing known about it yet, the starting point of builders and tests.
    pub fn new(id: NodeId, created_at: Timestamp) -> Self {
        Self {
            id,
            name: None,
            provider_id: None,
            claim: None,
            labels: Labels::new(),
            annotations: Annotations::new(),
            taints: Vec::new(),
            capacity: Resources::new(),
            allocatable: Resources::new(),
            conditions: Arc::default(),
            ready: false,
            created_at,
            deletion: None,
            marked_for_deletion: false,
            nominated_until: None,
            attach_limits: BTreeMap::new(),
            pods: Vec::new(),
            buffer_pods: 0,
        }
    }

    /// Returns whether we manage it.
    pub fn is_managed(&self) -> bool {
        self.claim.is_some()
    }

    /// Returns whether the Node has joined and been registered; unmanaged nodes always are.
    pub fn registered(&self) -> bool {
        !self.is_managed() || self.has_true_label(label::REGISTERED)
    }

    /// Returns whether the Node has been initialized, and its instance is not being rebooted; unmanaged nodes always are.
    pub fn initialized(&self) -> bool {
        !self.is_managed() || self.has_true_label(label::INITIALIZED) && !self.is_rebooting()
    }

    /// Returns whether its Node had registered and is gone: no pod can go there, whatever the claim states.
    pub fn has_lost_node(&self) -> bool {
        let registered = |claim: &Claim| claim.is_true(ConditionType::Registered);
        self.name.is_none() && self.claim.as_deref().is_some_and(registered)
    }

    /// Returns whether its instance is being rebooted: it takes no pod now, and will take pods again.
    pub fn is_rebooting(&self) -> bool {
        self.claim.as_deref().is_some_and(|claim| claim.is_true(ConditionType::Rebooting))
    }

    fn has_true_label(&self, key: &str) -> bool {
        self.name.is_some() && self.labels.get(key).is_some_and(|value| *value == "true")
    }

    /// The claim, as long as it speaks for the machine: until the Node is registered.
    fn speaker(&self) -> Option<&Claim> {
        self.claim.as_deref().filter(|_| !self.registered())
    }

    /// The claim, while it is not known what machine it will become.
    pub fn unlaunched(&self) -> Option<&Claim> {
        self.claim.as_deref().filter(|claim| claim.provider_id.is_none() && self.name.is_none())
    }

    /// Labels: the claim's until registered, then the Node's.
    pub fn effective_labels(&self) -> &Labels {
        self.speaker().map_or(&self.labels, |claim| &claim.labels)
    }

    /// Annotations: the claim's until registered, then the Node's.
    pub fn effective_annotations(&self) -> &Annotations {
        self.speaker().map_or(&self.annotations, |claim| &claim.annotations)
    }

    /// Name to show: the claim's until registered, then the Node's.
    pub fn display_name(&self) -> &str {
        match (self.speaker(), &self.name) {
            (Some(claim), _) => claim.name.as_str(),
            (None, Some(name)) => name.as_str(),
            (None, None) => self.id.as_str(),
        }
    }

    /// Host name: the label, else the name.
    pub fn hostname(&self) -> LabelValue {
        let label = self.effective_labels().get(label::HOSTNAME);
        label.cloned().unwrap_or_else(|| self.display_name().into())
    }

    /// Owning pool, from the label.
    pub fn pool(&self) -> Option<PoolName> {
        self.effective_labels().get(label::NODE_POOL).map(LabelValue::name)
    }

    /// Instance type, from the label.
    pub fn instance_type(&self) -> Option<InstanceTypeName> {
        self.effective_labels().get(label::INSTANCE_TYPE).map(LabelValue::name)
    }

    /// Zone, from the label.
    pub fn zone(&self) -> Option<Zone> {
        self.effective_labels().get(label::ZONE).map(LabelValue::name)
    }

    /// Capacity type, from the label.
    pub fn capacity_type(&self) -> Option<CapacityType> {
        CapacityType::from_label(self.effective_labels().get(label::CAPACITY_TYPE)?.as_str())
    }

    /// Capacity as it will be, plus one node: until initialized, entries the Node lacks or shows as zero
    /// come from the claim (kubelets report extended resources as zero while device plugins start).
    pub fn effective_capacity(&self) -> Resources {
        let capacity = self.filled(&self.capacity, |claim| &claim.capacity);
        capacity.with(resources::NODES, Quantity::ONE)
    }

    /// Allocatable as it will be; filled from the claim as the capacity is.
    pub fn effective_allocatable(&self) -> Resources {
        self.filled(&self.allocatable, |claim| &claim.allocatable)
    }

    fn filled(&self, own: &Resources, promised: impl Fn(&Claim) -> &Resources) -> Resources {
        let Some(claim) = self.claim.as_deref().filter(|_| !self.initialized()) else { return own.clone() };
        let mut filled = own.clone();
        for (name, quantity) in promised(claim).iter() {
            if own.amount(name.as_str()).is_zero() {
                filled.set(name.as_str(), *quantity);
            }
        }
        filled
    }

    /// Taints a pod must tolerate to go here (spec scheduling 27.4): the claim's until there is a
    /// registered Node, then the Node's; until initialized without those that will go away by themselves.
    pub fn effective_taints(&self) -> Vec<Taint> {
        let Some(claim) = self.claim.as_deref() else { return self.taints.clone() };
        let taints = if self.name.is_none() || !self.registered() { &claim.taints } else { &self.taints };
        if self.initialized() {
            return taints.clone();
        }
        let passing = |taint: &Taint| {
            taint.is_ephemeral()
                || taint.matches(&Taint::rebooting())
                || claim.startup_taints.iter().any(|startup| startup.matches(taint))
        };
        taints.iter().filter(|taint| !passing(taint)).cloned().collect()
    }

    /// Returns whether it is being removed, so that no pod should go there and its pods need another place.
    pub fn is_leaving(&self) -> bool {
        let object = match &self.claim {
            Some(claim) => claim.deletion.is_some() || claim.is_true(ConditionType::InstanceTerminating),
            None => self.deletion.is_some(),
        };
        self.marked_for_deletion || object
    }

    /// Returns whether a pod was promised a place here and may still be on its way.
    pub fn is_nominated(&self, now: Timestamp) -> bool {
        self.nominated_until.is_some_and(|until| until > now)
    }

    /// Sum of the requests of its pods that are not terminal.
    pub fn requested(&self) -> Resources {
        self.pods.iter().filter(|pod| !pod.is_terminal()).map(|pod| &pod.requests).sum()
    }

    /// Sum of the requests of its daemon pods that are not terminal.
    pub fn daemon_requested(&self) -> Resources {
        self.pods.iter().filter(|pod| pod.is_daemon() && !pod.is_terminal()).map(|pod| &pod.requests).sum()
    }

    /// Sum of the limits of its pods that are not terminal.
    pub fn limited(&self) -> Resources {
        self.pods.iter().filter(|pod| !pod.is_terminal()).map(|pod| &pod.limits).sum()
    }

    /// Sum of the limits of its daemon pods that are not terminal.
    pub fn daemon_limited(&self) -> Resources {
        self.pods.iter().filter(|pod| pod.is_daemon() && !pod.is_terminal()).map(|pod| &pod.limits).sum()
    }
}

pub mod object;
pub mod repair;
pub mod score;
#[cfg(test)]
mod tests;
