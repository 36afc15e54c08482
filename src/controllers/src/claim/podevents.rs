//! `nodeclaim.podevents`: notes on a claim when something last came to its node or left it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use karpenter_lifecycle::consolidatable;
use karpenter_lifecycle::podevents::{self, Seen};
use karpenter_lifecycle::step::Step;
use karpenter_model::{ClaimName, ConditionType, Pod};

use crate::evict::Evictions;
use crate::pass::Pass;
use crate::queue::{Done, Queue, Spec, Work};
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

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

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ClaimName, Step>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reconciler: writes what was noted.
pub(crate) struct Writer {
    pub(crate) events: PodEvents,
    pub(crate) evictions: Evictions,
}

impl Reconciler for Writer {
    type Key = ClaimName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        Spec::new(NAME, settings.concurrency(10, 1000))
    }

    async fn pass(&self, context: &Context, name: &ClaimName) -> Result<Done, Error> {
        let events = &self.events;
        let Some(step) = events.lock().get(name).cloned() else { return Ok(Done::idle()) };
        let Some(known) = context.view.claim(name) else {
            events.lock().remove(name);
            return Ok(Done::idle());
        };
        let mut pass = Pass::over_claim(context, NAME, &self.evictions, Arc::clone(&known.object));
        pass.carry_out(step.clone()).await?;
        // The mark that the node is quiet goes with what ends the quiet: one write, not two.
        if let Some(claim) = pass.claim().filter(|claim| claim.is_true(ConditionType::Consolidatable)) {
            let pool = claim.pool.as_ref().and_then(|name| context.view.pool(name));
            let pool = pool.as_ref().map(|pool| &*pool.model);
            pass.carry_out(consolidatable::step(&claim, pool, context.now())).await?;
        }
        let done = pass.finish().await?;
        // What came in meanwhile stays for the next pass.
        let mut pending = events.lock();
        if pending.get(name) == Some(&step) {
            pending.remove(name);
        }
        Ok(done)
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_model::PodKey;

    use super::*;
    use crate::fixture::World;

    #[tokio::test(start_paused = true)]
    async fn pods_of_unknown_nodes_and_unbound_ones_are_no_news() {
        let (world, (events, _work)) = (World::new(), PodEvents::new());
        let unbound = Pod::pending(PodKey::new("ns", "web"), "uid", Timestamp::UNIX_EPOCH);
        let bound = Pod { node_name: Some("unknown".into()), ..unbound.clone() };
        for pod in [&unbound, &bound] {
            for seen in [Seen::Created(pod), Seen::Deleted(pod), Seen::Listed(pod)] {
                events.note(&world.context, seen);
            }
        }
        assert!(events.lock().is_empty());
    }
}
