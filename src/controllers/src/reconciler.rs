//! Reconcilers: each has a name, a pace, and one pass over one object at a time.
//!
//! A pass starts from what is true when it runs and holds nothing from the pass before but what its reconciler keeps on
//! purpose. The queue decides which others run, when, and what follows a failure.

use std::sync::Arc;

use karpenter_kube_harness::queue::{Done, Queue, Spec, Work};
use tokio_util::sync::CancellationToken;

use crate::{Context, Error, Settings};

/// One reconciler.
pub(crate) trait Reconciler: Send + Sync + 'static {
    /// Name of one object.
    type Key: Clone + Ord + std::fmt::Debug + std::fmt::Display + Send + Sync + 'static;
    /// Failure of a pass.
    type Error: Failure;

    /// Its name and how fast it may go.
    fn spec(&self, settings: &Settings) -> Spec;

    /// One pass over the object of this name.
    fn pass(
        &self,
        context: &Context,
        key: &Self::Key,
    ) -> impl Future<Output = Result<Done, Self::Error>> + Send;
}

/// Failure of a pass.
pub(crate) trait Failure: std::error::Error + Send + 'static {
    /// Another client has changed the object: no failure, the next pass looks again.
    fn is_conflict(&self) -> bool;
}

impl Failure for Error {
    fn is_conflict(&self) -> bool {
        self.is_conflict()
    }
}

/// Runs passes of `reconciler` until `shutdown`, then lets those that run finish. `follow` is given the queue and
/// adds to it whatever has to be looked at.
pub(crate) fn start<R: Reconciler>(
    reconciler: R,
    context: &Context,
    shutdown: &CancellationToken,
    follow: impl FnOnce(Queue<R::Key>),
) -> impl Future<Output = ()> + Send + 'static {
    let (queue, work) = Queue::new();
    follow(queue);
    run(reconciler, work, context.clone(), shutdown.clone())
}

/// Runs passes of `reconciler` until `shutdown` for a queue that is there already.
pub(crate) async fn run<R: Reconciler>(
    reconciler: R,
    work: Work<R::Key>,
    context: Context,
    shutdown: CancellationToken,
) {
    let (spec, metrics) = (reconciler.spec(&context.settings), Arc::clone(&context.metrics));
    let reconciler = Arc::new(reconciler);
    let pass = move |key| {
        let (reconciler, context) = (Arc::clone(&reconciler), context.clone());
        async move { settled(reconciler.pass(&context, &key).await) }
    };
    work.run(spec, metrics, shutdown, pass).await;
}

fn settled<E: Failure>(result: Result<Done, E>) -> Result<Done, E> {
    match result {
        Err(error) if error.is_conflict() => Ok(Done::idle().backoff()),
        other => other,
    }
}
