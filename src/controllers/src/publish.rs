//! Output of controllers for users and dashboards: events, metrics and log lines.

mod disrupted;
pub(super) mod status;
pub(super) mod step;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{Quantity, ResourceName};

pub use disrupted::disrupted;

/// Cores, bytes or pieces, as a Prometheus sample.
#[expect(clippy::cast_precision_loss, reason = "samples are doubles by format")]
pub(crate) fn units(quantity: Quantity) -> f64 {
    quantity.nanos() as f64 / 1e9
}

/// Returns the seconds since `start`, as a Prometheus sample; zero when it lies in the future.
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
