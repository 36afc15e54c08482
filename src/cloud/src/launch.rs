//! Inputs of a launch, and the token that makes it idempotent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::{
    ClaimName, ClaimUid, InstanceTypeName, LabelKey, LabelRegistry, LabelValue, NodeClassRef, PoolName,
    Requirements, Resources, Taint,
};

use crate::overlay::{List, PoolOverlays};

/// One machine wanted, for one claim.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchRequest {
    /// The claim the machine is for; written into its tags.
    pub claim: ClaimName,
    /// The claim's uid, first half of the launch token.
    pub uid: ClaimUid,
    /// Time at which the claim was made: one from before this process may have been launched by another.
    pub created_at: Timestamp,
    /// Number of the attempt, from 0; it grows with every try that spent its token. A new attempt is a new machine unless an
    /// older attempt's machine is found.
    pub attempt: u32,
    /// The pool, for tags; claims may exist without one.
    pub pool: Option<PoolName>,
    /// Hash of the pool's template when the claim was created.
    pub pool_hash: Option<String>,
    /// The provider's configuration object.
    pub node_class: NodeClassRef,
    /// Constraints on type, zone, capacity type and more.
    pub requirements: Requirements,
    /// Everything the machine must be able to hold.
    pub requests: Resources,
    /// Labels kubelet registers with.
    pub labels: BTreeMap<LabelKey, LabelValue>,
    /// Annotations of the claim.
    pub annotations: BTreeMap<String, String>,
    /// Taints kubelet registers with.
    pub taints: Vec<Taint>,
    /// Taints kubelet registers with and another controller removes.
    pub startup_taints: Vec<Taint>,
    /// Types in price order, cheapest first; empty means "whatever the requirements allow".
    pub instance_types: Vec<InstanceTypeName>,
    /// Overlays for the types; `None` when there are none.
    pub overlays: Option<PoolOverlays>,
}

impl LaunchRequest {
    /// The client token of this request.
    pub fn token(&self) -> LaunchToken {
        LaunchToken { uid: self.uid.clone(), attempt: self.attempt }
    }

    /// `types` as the claim's pool sees them.
    pub fn seen(&self, types: &List, registry: &LabelRegistry) -> List {
        match &self.overlays {
            Some(overlays) => overlays.lay_over(types, registry),
            None => Arc::clone(types),
        }
    }
}

/// Client token of a launch: two requests with the same token get the same machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaunchToken {
    uid: ClaimUid,
    attempt: u32,
}

impl fmt::Display for LaunchToken {
    /// `<uid>-<attempt>`: 38 characters or more for a usual uid, below the 64 a cloud accepts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.uid, self.attempt)
    }
}
