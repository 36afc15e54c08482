//! `nodeclaim.podevents`: notes on a claim when something last came to its node or left it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use karpenter_lifecycle::podevents::{self, Seen};
use karpenter_lifecycle::step::Step;
use karpenter_model::{ClaimName, Pod};
use tokio_util::sync::CancellationToken;

use crate::claim::lifecycle::settled;
use crate::evict::Evictions;
use crate::pass::Pass;
use crate::queue::{Done, Queue, Spec, Work};
use crate::{Context, Error};

const NAME: &str = "nodeclaim.podevents";

/// What is to be written on each claim, and the queue that times the writes.
#[derive(Clone)]
pub(crate) struct PodEvents {
    pending: Arc<Mutex<BTreeMap<ClaimName, Step>>>,
    queue: Queue<ClaimName>,
}

impl PodEvents {
    /// Nothing to write yet, and the working end.
    pub(crate) fn new() -> (Self, Work<ClaimName>) {
        let (queue, work) = Queue::new();
        (Self { pending: Arc::default(), queue }, work)
    }

    /// Takes note of what the watch said about a pod.
    pub(crate) fn note(&self, context: &Context, seen: Seen<'_>) {
        let (Seen::Listed(pod) | Seen::Created(pod) | Seen::Deleted(pod) | Seen::Updated { new: pod, .. }) =
            seen;
        let Some(name) = claim_of(context, pod) else { return };
        let Some(known) = context.view.claim(&name) else { return };
        let step = podevents::step(&known.model, seen, context.now());
        if !step.effects.is_empty() {
            self.lock().insert(name.clone(), step);
            self.queue.add(name);
        }
    }

    /// Writes until `shutdown`.
    pub(crate) async fn run(
        self,
        work: Work<ClaimName>,
        context: Context,
        evictions: Evictions,
        shutdown: CancellationToken,
    ) {
        let spec = Spec {
            name: NAME,
            concurrency: context.settings.concurrency(10, 1000),
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_mins(1),
        };
        let metrics = Arc::clone(&context.metrics);
        let pass = move |name| {
            let (events, context, evictions) = (self.clone(), context.clone(), evictions.clone());
            async move { settled(events.write(&context, &evictions, &name).await) }
        };
        work.run(spec, metrics, shutdown, pass).await;
    }

    async fn write(&self, context: &Context, evictions: &Evictions, name: &ClaimName) -> Result<Done, Error> {
        let Some(step) = self.lock().get(name).cloned() else { return Ok(Done::idle()) };
        let Some(known) = context.view.claim(name) else {
            self.lock().remove(name);
            return Ok(Done::idle());
        };
        let mut pass = Pass::over_claim(context, NAME, evictions, Arc::clone(&known.object));
        pass.carry_out(step.clone()).await?;
        let done = pass.finish().await?;
        // What came in meanwhile stays for the next pass.
        let mut pending = self.lock();
        if pending.get(name) == Some(&step) {
            pending.remove(name);
        }
        Ok(done)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ClaimName, Step>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one claim whose node the pod is bound to.
fn claim_of(context: &Context, pod: &Pod) -> Option<ClaimName> {
    let node = context.view.node(pod.node_name.as_ref()?)?;
    match context.view.claims_of(node.model.provider_id.as_ref()?).as_slice() {
        [claim] => Some(claim.model.name.clone()),
        _ => None,
    }
}
