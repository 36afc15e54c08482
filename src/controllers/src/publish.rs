//! What users and dashboards see of the work of controllers: events, metrics and log lines.

pub(super) mod status;
pub(super) mod step;

use jiff::Timestamp;
use karpenter_api::NodeClaim;
use karpenter_model::clock::since;
use karpenter_model::names::label;
use karpenter_model::{Quantity, ResourceName};

use crate::Context;
use step::label_of;

/// Counts a NodeClaim that was deleted for `reason`; deletions that only follow another one have none.
pub(crate) fn disrupted(context: &Context, claim: &NodeClaim, reason: Option<&str>) {
    let (pool, capacity_type) = (label_of(claim, label::NODE_POOL), label_of(claim, label::CAPACITY_TYPE));
    if let Some(reason) = reason {
        context.metrics.nodeclaims.disrupted_total.inc([reason, pool, capacity_type]);
        tracing::debug!(reason, "deleted nodeclaim");
    }
}

/// Cores, bytes or pieces, as a Prometheus sample.
#[expect(clippy::cast_precision_loss, reason = "samples are doubles by format")]
pub(crate) fn units(quantity: Quantity) -> f64 {
    quantity.nanos() as f64 / 1e9
}

/// How long ago `start` was, in seconds, as a Prometheus sample; zero when it lies in the future.
pub(crate) fn seconds(start: Timestamp, now: Timestamp) -> f64 {
    since(start, now).as_secs_f64()
}

/// A resource as the label `resource_type` has it: in snake case.
pub(crate) fn resource_type(resource: &ResourceName) -> String {
    resource.as_str().to_lowercase().replace('-', "_")
}

/// Yes or no, as labels have it.
pub(crate) fn word(yes: bool) -> &'static str {
    if yes { "true" } else { "false" }
}
