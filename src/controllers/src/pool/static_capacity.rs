//! `static.provisioning` and `static.deprovisioning`: keep pools with `spec.replicas` at their number of nodes. Only
//! with the feature gate `StaticCapacity`.
//!
//! Both count what is there, every time; a crash between two creations costs nothing but the time until the next look.

mod deprovision;
mod provision;

use std::time::Duration;

use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_model::{PoolName, Snapshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::claim::create::CreateError;
use crate::reconciler::{Failure, Reconciler, start};
use crate::view::KnownPool;
use crate::{Context, Error, Settings};

/// Creations or deletions of one pool at a time: bounds the burst on the API server.
const FAN_OUT: usize = 50;

/// Starts both controllers, if the gate is open.
pub(crate) fn spawn(tasks: &mut JoinSet<()>, context: &Context, shutdown: &CancellationToken) {
    if !context.settings.decisions.gates.static_capacity {
        return;
    }
    for controller in [Controller::Provisioning, Controller::Deprovisioning] {
        tasks.spawn(start(controller, context, shutdown, |queue| context.view.subscribers().pools(queue)));
    }
}

#[derive(Clone, Copy, Debug)]
enum Controller {
    Provisioning,
    Deprovisioning,
}

/// Failure of a pass over a static pool.
#[derive(Debug, thiserror::Error)]
enum StaticError {
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Write(#[from] Error),
}

impl Failure for StaticError {
    fn is_conflict(&self) -> bool {
        match self {
            Self::Create(CreateError::Write(error)) | Self::Write(error) => error.is_conflict(),
            Self::Create(CreateError::NoPool(_) | CreateError::Limits { .. }) => false,
        }
    }
}

impl Reconciler for Controller {
    type Key = PoolName;
    type Error = StaticError;

    fn spec(&self, _settings: &Settings) -> Spec {
        let name = match self {
            Self::Provisioning => provision::NAME,
            Self::Deprovisioning => deprovision::NAME,
        };
        Spec::new(name, 10)
    }

    async fn pass(&self, context: &Context, name: &PoolName) -> Result<Done, StaticError> {
        let Some(pool) = fixed(context, name) else { return Ok(Done::idle()) };
        let Some(snapshot) = context.snapshot() else {
            // Counting part of the machines would buy the others twice.
            return Ok(Done::idle().after(Duration::from_secs(1)));
        };
        let snapshot: &Snapshot = &snapshot;
        match self {
            Controller::Provisioning => provision::pass(context, &pool, snapshot).await,
            Controller::Deprovisioning => deprovision::pass(context, &pool, snapshot).await,
        }
    }
}

/// The pool, if it has a fixed number of nodes.
fn fixed(context: &Context, name: &PoolName) -> Option<KnownPool> {
    context.view.pool(name).filter(|pool| pool.model.replicas.is_some())
}
