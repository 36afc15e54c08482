//! NodeClaims: the working copy of one during a pass, and the passes over them.

pub mod create;
pub mod draft;
mod drift;
pub(crate) mod expiration;
pub(crate) mod launch;
pub(crate) mod lifecycle;
mod object;
pub(crate) mod podevents;
pub(crate) mod upkeep;

use karpenter_api::NodeClaim;
use karpenter_model::label;

use crate::Context;
use crate::report::label_of;

/// Counts a NodeClaim that was deleted for `reason`; deletions that only follow another one have none.
pub(crate) fn disrupted(context: &Context, claim: &NodeClaim, reason: Option<&str>) {
    let (pool, capacity_type) = (label_of(claim, label::NODE_POOL), label_of(claim, label::CAPACITY_TYPE));
    if let Some(reason) = reason {
        context.metrics.nodeclaims.disrupted_total.inc([reason, pool, capacity_type]);
        tracing::debug!(reason, "deleted nodeclaim");
    }
}
