//! `nodeclaim.podevents`: notes on a claim when something last came to its node or left it.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_kube_harness::queue::{Done, Queue, Spec, Work};
use karpenter_lifecycle::claim::consolidatable;
use karpenter_lifecycle::pods::events::{self, Seen};
use karpenter_lifecycle::step::Step;
use karpenter_model::{ClaimName, ConditionType, Pod};
use parking_lot::Mutex;

use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "nodeclaim.podevents";

/// Step to be written on each claim, and the queue that times the writes.
#[derive(Clone)]
pub(crate) struct PodEvents {
    pending: Arc<Mutex<BTreeMap<ClaimName, Step>>>,
    queue: Queue<ClaimName>,
}

impl PodEvents {
    /// Creates it with nothing to write, and its working end.
    pub(crate) fn new() -> (Self, Work<ClaimName>) {
        let (queue, work) = Queue::new();
        (Self { pending: Arc::default(), queue }, work)
    }

    /// Records an event of the watch about a pod.
    pub(crate) fn note(&self, context: &Context, seen: Seen<'_>) {
        let (Seen::Listed(pod) | Seen::Created(pod) | Seen::Deleted(pod) | Seen::Updated { new: pod, .. }) =
            seen;
        let Some(name) = claim_of(context, pod) else { return };
        let Some(known) = context.view.claim(&name) else { return };
        let step = events::step(&known.model, seen, context.now());
        if !step.effects.is_empty() {
            self.pending.lock().insert(name.clone(), step);
            self.queue.add(name);
        }
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
        let Some(step) = events.pending.lock().get(name).cloned() else { return Ok(Done::idle()) };
        let Some(known) = context.view.claim(name) else {
            events.pending.lock().remove(name);
            return Ok(Done::idle());
        };
        let mut pass = Pass::over_claim(context, NAME, &self.evictions, &known);
        pass.carry_out(step.clone()).await?;
        // The mark that the node is quiet goes with what ends the quiet: one write, not two.
        if let Some(claim) = pass.claim().filter(|claim| claim.is_true(ConditionType::Consolidatable)) {
            let pool = claim.pool.as_ref().and_then(|name| context.view.pool(name));
            let pool = pool.as_ref().map(|pool| &*pool.model);
            pass.carry_out(consolidatable::step(&claim, pool, context.now())).await?;
        }
        let done = pass.finish().await?;
        // Events that arrived meanwhile stay for the next pass.
        let mut pending = events.pending.lock();
        if pending.get(name) == Some(&step) {
            pending.remove(name);
        }
        Ok(done)
    }
}

/// The one claim whose node the pod is bound to.
fn claim_of(context: &Context, pod: &Pod) -> Option<ClaimName> {
    let node = context.view.node(pod.node_name.as_ref()?)?;
    context.view.sole_claim_of(&node.model).map(|claim| claim.model.name.clone())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Node;
    use karpenter_api::{NodeClaim, NodePool};
    use karpenter_model::PodKey;
    use serde_json::json;

    use super::*;
    use crate::fixture::World;
    use karpenter_kube_harness::write;

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
        assert!(events.pending.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_mark_of_a_quiet_node_goes_in_the_write_that_ends_the_quiet() {
        let world = World::with_definitions();
        let class = json!({"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"});
        let since = "1969-12-31T00:00:00Z";
        let held = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since});
        let held = ["Launched", "Registered", "Initialized", "Consolidatable"].map(held);
        for object in [
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
                "spec": {
                    "template": {"spec": {"nodeClassRef": class, "requirements": []}},
                    "disruption": {"consolidateAfter": "30s"},
                },
            }),
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "web-1", "labels": {"karpenter.sh/nodepool": "web"}},
                "spec": {"nodeClassRef": class, "requirements": []},
            }),
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
                "spec": {"providerID": "memory:///a/1"},
            }),
        ] {
            world.server.load(&object).unwrap();
        }
        // The status is a resource of its own.
        let status = json!({"status": {"providerID": "memory:///a/1", "conditions": held}});
        let _written: Option<NodeClaim> =
            write::merge_status(&world.context.all(), "web-1", &status).await.unwrap();
        let view = &world.context.view;
        for pool in world.list::<NodePool>().await {
            view.put_pool(pool);
        }
        for claim in world.list::<NodeClaim>().await {
            view.put_claim(claim);
        }
        for node in world.list::<Node>().await {
            view.put_node(node);
        }
        let (events, _work) = PodEvents::new();
        let pod = Pod::pending(PodKey::new("ns", "web"), "uid", Timestamp::UNIX_EPOCH);
        events.note(&world.context, Seen::Created(&Pod { node_name: Some("n".into()), ..pod }));
        let (evictions, _evicting) = Evictions::new();
        let writer = Writer { events, evictions };
        let version = || async { world.list::<NodeClaim>().await.remove(0).metadata.resource_version };
        let before: u64 = version().await.unwrap().parse().unwrap();
        writer.pass(&world.context, &"web-1".into()).await.unwrap();
        let after: u64 = version().await.unwrap().parse().unwrap();
        assert_eq!(after, before + 1, "one write");
        let claim = view.claim(&"web-1".into()).unwrap().model;
        assert_eq!(claim.last_pod_event, Some(Timestamp::UNIX_EPOCH));
        assert!(claim.is_true(ConditionType::Initialized));
        assert!(!claim.conditions.contains_key(&ConditionType::Consolidatable));
    }
}
