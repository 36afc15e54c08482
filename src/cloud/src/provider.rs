//! The port itself.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use karpenter_model::{
    Claim, ClaimName, InstanceType, InstanceTypeName, LabelRegistry, NodeClassRef, NodeName, Pool, Price,
    ProviderId, Zone,
};

use crate::{Instance, LaunchRequest, Read, RegistrationHook, RepairPolicy, Result, Termination};

/// A cloud that can start and end machines.
///
/// Every method may be called concurrently and abandoned at any await point: dropping a future never leaves a
/// machine that a later `launch` of the same claim, or `instances`, would not find.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Short lower-case name for metrics and logs: `aws`.
    fn name(&self) -> &'static str;

    /// The node classes this provider owns. Claims, pools and nodes of any other class are not ours to touch.
    fn node_class_kinds(&self) -> &[NodeClassKind];

    /// Label keys and values with a meaning to this provider.
    fn label_registry(&self) -> Arc<LabelRegistry>;

    /// Adopts the machine that already carries this claim's tags, else starts one.
    ///
    /// Idempotent per (claim uid, attempt), also across restarts of this process. Errors: `NoCapacity` when every
    /// offering that fits is exhausted, `NodeClassNotReady` when the node class cannot be launched from; both end
    /// the claim. Everything else is retried by the caller.
    async fn launch(&self, request: &LaunchRequest) -> Result<Instance>;

    /// Starts the end of a machine. Repeating it is harmless; `AlreadyGone` rests on a consistent read.
    async fn terminate(&self, id: &ProviderId) -> Result<Termination>;

    /// Reboots a running machine, which keeps its id, its disks and its place. Nothing tells two calls apart, so a repeated one
    /// may reboot it again. `NotFound` when it is gone, by a consistent read.
    async fn reboot(&self, id: &ProviderId) -> Result<()>;

    /// One machine. `NotFound` when it never existed, is shutting down for good (consistent read) or is gone.
    async fn instance(&self, id: &ProviderId, read: Read) -> Result<Instance>;

    /// The machine that was started for this claim and is not gone, found by its tags: for a claim that does not know
    /// the id. The oldest when there are several; `None` rests on a consistent read.
    async fn machine_of(&self, claim: &ClaimName) -> Result<Option<ProviderId>>;

    /// Every machine that carries this cluster's tags and is not terminated: complete, or an error.
    async fn instances(&self) -> Result<Vec<Instance>>;

    /// Every type a pool could use, including those that cannot be had at the moment (their offerings show it): a
    /// type missing here reads as "does not exist any more".
    async fn instance_types(&self, pool: &Pool) -> Result<Arc<[Arc<InstanceType>]>>;

    /// Prices of users for types the cloud names none for, so that they can be planned with; replaces those set before.
    fn preview_prices(&self, _prices: BTreeMap<InstanceTypeName, Price>) {}

    /// Returns the reason why the machine of this claim no longer matches its node class. `None` when it matches or when
    /// there is nothing to compare with (no pool, no class, no machine); an error when it cannot be decided, which is
    /// no answer.
    async fn drift(&self, claim: &Claim) -> Result<Option<DriftReason>>;

    /// Returns the hooks that still hold up the registration of a launched claim whose Node has joined; every hook of the
    /// provider answers, and all are asked at once. A provider that needs nothing after the launch has none.
    async fn registration_hooks(&self, _claim: &Claim) -> Vec<RegistrationHook> {
        Vec::new()
    }

    /// Writes the names of claim and node into the machine's tags, once both are known.
    async fn tag(&self, id: &ProviderId, claim: &ClaimName, node: &NodeName) -> Result<()>;

    /// Zones to stay away from for as long as this returns them: what runs there is neither disrupted nor repaired, and is
    /// not taken for lost. That nothing is launched there shows in the offerings. A provider may know of none.
    fn zones_away(&self) -> BTreeSet<Zone> {
        BTreeSet::new()
    }

    /// Node conditions that justify replacing a machine, and how long to tolerate each. The process does not start with
    /// policies that [`repair_policies`](crate::repair_policies) refuses.
    fn repair_policies(&self) -> &[RepairPolicy];
}

/// Group and kind of a node class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeClassKind {
    /// API group, `karpenter.k8s.aws`.
    pub group: &'static str,
    /// Kind, `EC2NodeClass`.
    pub kind: &'static str,
}

impl NodeClassKind {
    /// True when the reference points at an object of this kind.
    pub fn owns(&self, reference: &NodeClassRef) -> bool {
        reference.group == self.group && reference.kind == self.kind
    }

    /// The label that names the node class on claims and nodes: `<group>/<lower-case kind>`.
    pub fn label_key(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_ascii_lowercase())
    }
}

/// Reason why a claim drifted from its node class: the reason of its `Drifted` condition, `UpperCamelCase`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriftReason(Cow<'static, str>);

impl DriftReason {
    /// A reason known at compile time.
    pub const fn new(reason: &'static str) -> Self {
        Self(Cow::Borrowed(reason))
    }

    /// The condition reason.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DriftReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
