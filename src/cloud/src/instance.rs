//! A machine as the cloud describes it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::{
    CapacityType, ClaimName, ImageId, InstanceTypeName, LabelKey, LabelValue, PoolName, ProviderId,
    Resources, Zone,
};

/// The cloud's own name of a machine, without account or zone (`i-0abc...`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(Arc<str>);

impl InstanceId {
    /// The text as the cloud writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for InstanceId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A machine of this cluster. Every field is what the cloud answered, nothing is guessed.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Value that the kubelet writes into `spec.providerID`.
    pub provider_id: ProviderId,
    /// The cloud's own id.
    pub instance_id: InstanceId,
    /// The image it was started from.
    pub image_id: Option<ImageId>,
    pub instance_type: InstanceTypeName,
    /// Zone in which it runs.
    pub zone: Zone,
    /// Capacity type it is paid as.
    pub capacity_type: CapacityType,
    /// State of its life.
    pub state: InstanceState,
    /// Labels the provider resolved, to be merged under the claim's own.
    pub labels: BTreeMap<LabelKey, LabelValue>,
    /// Annotations the provider sets on the claim.
    pub annotations: BTreeMap<String, String>,
    /// Expected capacity of the node.
    pub capacity: Resources,
    /// Expected allocatable of the node.
    pub allocatable: Resources,
    /// Time at which the cloud accepted the launch.
    pub launched_at: Timestamp,
    /// Every tag on the machine.
    pub tags: BTreeMap<String, String>,
    /// The claim it was launched for, from tag `karpenter.sh/nodeclaim`.
    pub claim: Option<ClaimName>,
    /// The pool it was launched for, from tag `karpenter.sh/nodepool`.
    pub pool: Option<PoolName>,
}

/// State of a machine's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceState {
    /// Accepted, not yet running.
    Pending,
    /// Running (which is no evidence about the kubelet).
    Running,
    /// Terminating; cannot come back.
    ShuttingDown,
    /// Stopped or stopping: still exists, still costs storage, runs nothing.
    Stopped,
    /// Gone; the cloud merely still remembers it.
    Terminated,
}

impl InstanceState {
    /// True while the machine can still run, or run again.
    pub const fn exists(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Stopped => true,
            Self::ShuttingDown | Self::Terminated => false,
        }
    }
}

/// Freshness required of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// A recent answer will do.
    Cached,
    /// Ask the cloud now. Required before anything irreversible is done because a machine is gone.
    Consistent,
}

/// The answer to a termination call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination {
    /// The machine is terminating; ask again to learn that it is gone.
    Started,
    /// There is no such machine any more, by a consistent read.
    AlreadyGone,
}
