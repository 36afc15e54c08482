//! Properties of a pod that placement and disruption use.

pub mod affinity;
mod claims;
pub mod host_port;
pub mod predicate;
pub mod volume;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::device::ClaimTemplate;
use crate::id::{BufferKey, NodeName, OwnerUid, PodKey, PodUid, ResourceClaimName};
use crate::label::Labels;
use crate::pod::affinity::{PodAffinity, SpreadConstraint};
use crate::pod::host_port::HostPort;
use crate::pod::volume::VolumeClaim;
use crate::requirement::Expression;
use crate::resources::Resources;
use crate::taint::Toleration;

/// One pod, reduced to what decisions read: what it is, where it is, and what it has in common with the other pods of its
/// workload. The latter are read as if they were its own fields, and kept once for all pods that have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub key: PodKey,
    pub uid: PodUid,
    /// Properties it shares with the other pods of its workload.
    pub template: Arc<PodTemplate>,
    pub phase: PodPhase,
    /// Creation time.
    pub created_at: Timestamp,
    /// Instant when the scheduler bound it to its node, from `PodScheduled`.
    pub bound_at: Option<Timestamp>,
    /// `status.startTime`: when the kubelet took it over, a moment after it was bound.
    pub started_at: Option<Timestamp>,
    /// Deletion timestamp; it includes the grace period already.
    pub deletion: Option<Timestamp>,
    /// `spec.nodeName`.
    pub node_name: Option<NodeName>,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<NodeName>,
    /// `PodScheduled` has reason `Unschedulable`.
    pub unschedulable: bool,
    /// Ready condition, if the pod has one.
    pub ready: Option<bool>,
    /// Annotation `controller.kubernetes.io/pod-deletion-cost` as it is written, `None` when absent or unreadable.
    pub written_deletion_cost: Option<i32>,
    /// The capacity buffer whose room it stands for; such a pod is virtual: no API server knows it and it is never
    /// bound (spec scheduling 23).
    pub buffer: Option<Arc<BufferKey>>,
}

/// Properties that the pods of one workload share, most of the time: their demands and their owner. Where each has
/// something of its own, as those of a `StatefulSet` with volumes, each has its own template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTemplate {
    pub labels: Labels,
    /// Effective requests including `pods: 1` (spec scheduling 9 and 26).
    pub requests: Resources,
    /// Sum of the limits of its containers; for metrics only (spec scheduling 26).
    pub limits: Resources,
    /// `spec.nodeSelector`.
    pub node_selector: Labels,
    /// Required node affinity terms: one of them must hold.
    pub required_terms: Vec<NodeTerm>,
    /// Preferred node affinity terms with weight 1 to 100.
    pub preferred_terms: Vec<(i32, NodeTerm)>,
    pub tolerations: Vec<Toleration>,
    /// Host ports of all containers.
    pub host_ports: Vec<HostPort>,
    pub spread: Vec<SpreadConstraint>,
    pub pod_affinity: PodAffinity,
    pub pod_anti_affinity: PodAffinity,
    /// Persistent volumes.
    pub volumes: Vec<VolumeClaim>,
    pub owner: PodOwner,
    /// The object that controls it; `None` for a pod made by hand.
    pub owner_uid: Option<OwnerUid>,
    /// Address of its first owner below the API server, empty without one; for metrics only.
    pub owner_path: String,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// The scheduler may send less important pods away for it: `spec.preemptionPolicy` is not `Never`.
    pub preempts: bool,
    /// `spec.priorityClassName` is `system-cluster-critical` or `system-node-critical`; drained last.
    pub critical: bool,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace_period: Option<Duration>,
    /// Annotation `karpenter.sh/disruption-cost`; 0 when it is not an integer of 32 bits, `None` when it is absent.
    pub disruption_cost: Option<i32>,
    /// Annotation `controller.kubernetes.io/pod-deletion-cost` as far as it stands in for the one above: 0 when absent or
    /// unreadable, and where the controller itself writes it.
    pub deletion_cost: i32,
    /// Annotation `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: DoNotDisrupt,
    /// `spec.schedulerName`.
    pub scheduler_name: String,
    /// The pod or a container uses resource claims.
    pub has_resource_claims: bool,
    /// The resource claims it uses, by name in its namespace, sorted and each once: those it names and those made
    /// for it. One that is yet to be made for it is not here (spec scheduling 22.2).
    pub resource_claims: Vec<ResourceClaimName>,
    /// Templates of claims that would be made for it; of virtual pods only, for which none are made.
    pub claim_templates: Vec<ClaimTemplate>,
}

impl Deref for Pod {
    type Target = PodTemplate;

    fn deref(&self) -> &PodTemplate {
        &self.template
    }
}

/// Writing to what a pod has in common with others makes it its own.
impl DerefMut for Pod {
    fn deref_mut(&mut self) -> &mut PodTemplate {
        Arc::make_mut(&mut self.template)
    }
}

impl Default for PodTemplate {
    fn default() -> Self {
        Self {
            labels: Labels::new(),
            requests: Resources::one_pod(),
            limits: Resources::new(),
            node_selector: Labels::new(),
            required_terms: Vec::new(),
            preferred_terms: Vec::new(),
            tolerations: Vec::new(),
            host_ports: Vec::new(),
            spread: Vec::new(),
            pod_affinity: PodAffinity::default(),
            pod_anti_affinity: PodAffinity::default(),
            volumes: Vec::new(),
            owner: PodOwner::ReplicaSet,
            owner_uid: None,
            owner_path: String::new(),
            priority: None,
            preempts: true,
            critical: false,
            grace_period: None,
            disruption_cost: None,
            deletion_cost: 0,
            do_not_disrupt: DoNotDisrupt::No,
            scheduler_name: "default-scheduler".into(),
            has_resource_claims: false,
            resource_claims: Vec::new(),
            claim_templates: Vec::new(),
        }
    }
}

/// The field of a node that `matchFields` may name.
pub const NODE_NAME: &str = "metadata.name";

/// A conjunction of expressions about a node's labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeTerm {
    /// `matchExpressions`.
    pub expressions: Vec<Expression>,
    /// `matchFields`: expressions about [`NODE_NAME`]. Only those of daemon sets can be planned for.
    pub fields: Vec<Expression>,
}

impl NodeTerm {
    /// Returns whether it has no expressions; a required term without any matches no node.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.fields.is_empty()
    }
}

/// Owner of a pod, by exact API version and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PodOwner {
    /// `apps/v1` `DaemonSet`.
    DaemonSet,
    /// `apps/v1` `StatefulSet`.
    StatefulSet,
    /// `apps/v1` `ReplicaSet`.
    ReplicaSet,
    /// `batch/v1` `Job`.
    Job,
    /// `v1` `Node`: a static (mirror) pod.
    Mirror,
    /// Some other owner.
    Other,
    /// No owner.
    #[default]
    None,
}

/// Life cycle phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PodPhase {
    /// Not all containers have started.
    #[default]
    Pending,
    Running,
    /// All containers ended well.
    Succeeded,
    /// At least one container ended badly.
    Failed,
    /// The kubelet cannot be reached.
    Unknown,
}

/// The annotation `karpenter.sh/do-not-disrupt` of a pod, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DoNotDisrupt {
    /// No annotation.
    #[default]
    No,
    /// `true`: for ever.
    Always,
    /// A positive duration after the start of the pod.
    For(Duration),
    /// Anything else: treated as absent, with a warning.
    Invalid(String),
}

impl Pod {
    /// A pending, unschedulable pod that asks for one pod slot and nothing else; the starting point of
    /// builders and tests.
    pub fn pending(key: PodKey, uid: &str, created_at: Timestamp) -> Self {
        Self {
            key,
            uid: uid.into(),
            template: Arc::default(),
            phase: PodPhase::Pending,
            created_at,
            bound_at: None,
            started_at: None,
            deletion: None,
            node_name: None,
            nominated_node: None,
            unschedulable: true,
            ready: None,
            written_deletion_cost: None,
            buffer: None,
        }
    }
    /// Returns the pod after `change`; for builders and tests.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
