//! `static.provisioning` and `static.deprovisioning`: keep pools with `spec.replicas` at their number of nodes. Only
//! with the feature gate `StaticCapacity`.
//!
//! Both count what is there, every time; a crash between two creations costs nothing but the time until the next look.

mod deprovision;
mod provision;

use std::sync::Arc;
use std::time::Duration;

use karpenter_model::{PoolName, Snapshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::claim::create::CreateError;
use crate::queue::{Done, Queue, Spec, Work};
use crate::view::KnownPool;
use crate::{Context, Error};

/// Creations or deletions of one pool at a time: bounds the burst on the API server.
const FAN_OUT: usize = 50;

/// Starts both controllers, if the gate is open.
pub(crate) fn spawn(tasks: &mut JoinSet<()>, context: &Context, shutdown: &CancellationToken) {
    if !context.settings.decisions.gates.static_capacity {
        return;
    }
    for controller in [Controller::Provisioning, Controller::Deprovisioning] {
        let (queue, work) = Queue::new();
        context.view.subscribers().pools(queue);
        tasks.spawn(run(controller, work, context.clone(), shutdown.clone()));
    }
}

#[derive(Clone, Copy, Debug)]
enum Controller {
    Provisioning,
    Deprovisioning,
}

/// What can go wrong in a pass over a static pool.
#[derive(Debug, thiserror::Error)]
enum StaticError {
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Write(#[from] Error),
}

async fn run(controller: Controller, work: Work<PoolName>, context: Context, shutdown: CancellationToken) {
    let name = match controller {
        Controller::Provisioning => provision::NAME,
        Controller::Deprovisioning => deprovision::NAME,
    };
    let spec = Spec {
        name,
        concurrency: 10,
        backoff_min: Duration::from_secs(1),
        backoff_max: Duration::from_mins(1),
    };
    let metrics = Arc::clone(&context.metrics);
    let pass = move |pool| {
        let context = context.clone();
        async move { reconcile(controller, &context, &pool).await }
    };
    work.run(spec, metrics, shutdown, pass).await;
}

async fn reconcile(controller: Controller, context: &Context, name: &PoolName) -> Result<Done, StaticError> {
    let Some(pool) = fixed(context, name) else { return Ok(Done::idle()) };
    let Some(snapshot) = context.view.snapshot(context.now()) else {
        // Counting part of the machines would buy the others twice.
        return Ok(Done::idle().after(Duration::from_secs(1)));
    };
    let snapshot: &Snapshot = &snapshot;
    match controller {
        Controller::Provisioning => provision::pass(context, &pool, snapshot).await,
        Controller::Deprovisioning => deprovision::pass(context, &pool, snapshot).await,
    }
}

/// The pool, if it has a fixed number of nodes.
fn fixed(context: &Context, name: &PoolName) -> Option<KnownPool> {
    context.view.pool(name).filter(|pool| pool.model.replicas.is_some())
}
