//! Reconcilers that exist only for AWS: they resolve EC2NodeClasses, keep the provider's knowledge fresh, follow
//! AWS's notices about instances, name launched ones and clean up what we made in the account.
//!
//! Each failure of AWS shows as a condition or an event of the object concerned and delays only that object.
//! [`run`] starts them all; [`rbac`] is what they need from the API server.

mod capacity;
mod context;
mod error;
pub mod gauges;
mod interruption;
mod nodeclass;
mod observer;
mod rbac;
mod refresh;
mod reservations;
pub mod settings;
mod tagging;
mod zonal_shift;

use karpenter_controllers::RunError;
use karpenter_controllers::joined;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use context::AwsContext;
pub use error::Error;
pub use observer::MetricsObserver;
pub use rbac::{dns_rbac, rbac};

/// Runs every reconciler until `shutdown`, then lets running passes finish.
///
/// # Errors
/// A reconciler ended before `shutdown`; the others are stopped.
pub async fn run(context: AwsContext, shutdown: CancellationToken) -> Result<(), RunError> {
    let mut tasks = JoinSet::new();
    tasks.spawn(nodeclass::run(context.clone(), shutdown.clone()));
    tasks.spawn(tagging::run(context.clone(), shutdown.clone()));
    tasks.spawn(capacity::run(context.clone(), shutdown.clone()));
    if let Some(queue) = context.aws.settings.interruption_queue.clone() {
        tasks.spawn(interruption::run(queue, context.clone(), shutdown.clone()));
    }
    tasks.spawn(interruption::health::run(context.clone(), shutdown.clone()));
    if context.aws.settings.zonal_shift {
        tasks.spawn(zonal_shift::run(context.clone(), shutdown.clone()));
    }
    for task in refresh::Task::ALL {
        tasks.spawn(refresh::run(task, context.clone(), shutdown.clone()));
    }
    joined(tasks, &shutdown, || {}).await
}
