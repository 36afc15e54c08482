//! The eviction queue: asks the API server to evict pods, each with its own back-off.
//!
//! The drain of a node hands pods over and goes on; which answers mean what is `karpenter_lifecycle::node::eviction`'s.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, DeleteOptions, ObjectMeta};
use karpenter_kube_harness::queue::{Done, Queue, Spec, Work};
use karpenter_lifecycle::node::eviction::{self, Answer, DrainReason, Meaning};
use karpenter_lifecycle::node::reboot;
use karpenter_lifecycle::step::PodRef;
use karpenter_model::{ConditionType, NodeName, PodKey, PodUid};
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use parking_lot::Mutex;
use serde_json::Value;

use crate::publish::step::publish_events;
use crate::reconciler::Reconciler;
use crate::view::PodSeen;
use crate::{Context, Error, Settings};

/// The pods being evicted, and the queue that times the tries.
#[derive(Clone)]
pub(crate) struct Evictions {
    pods: Arc<Mutex<eviction::Queue>>,
    /// Evicted, though the watch may not have shown it yet: asking again would count them twice.
    accepted: Arc<Mutex<BTreeMap<PodKey, PodUid>>>,
    queue: Queue<Key>,
}

/// A queued pod, ordered and shown by its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(PodRef, NodeName);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.key)
    }
}

impl Evictions {
    /// An empty queue and its working end.
    pub(crate) fn new() -> (Self, Work<Key>) {
        let (queue, work) = Queue::new();
        (Self { pods: Arc::default(), accepted: Arc::default(), queue }, work)
    }

    /// Queues a pod of `node`; adding it again changes nothing.
    pub(crate) fn add(&self, context: &Context, pod: &PodRef, node: &NodeName) {
        if self.accepted.lock().get(&pod.key) != Some(&pod.uid)
            && self.pods.lock().add(pod.clone(), node, context.now())
        {
            self.queue.add(Key(pod.clone(), node.clone()));
        }
    }

    /// Follows the watch: a pod that is gone is forgotten. Of one whose end the watch has missed, another of its name is
    /// all that is seen.
    pub(crate) fn seen(&self, seen: &PodSeen) {
        let (pod, is_gone) = (seen.pod(), matches!(seen, PodSeen::Deleted(_)));
        if let Entry::Occupied(known) = self.accepted.lock().entry(pod.key.clone())
            && (*known.get() == pod.uid) == is_gone
        {
            known.remove();
        }
    }

    /// Records that a pod is terminating, unless the watch has shown already that it is gone.
    fn accept(&self, context: &Context, pod: &PodRef) {
        let mut accepted = self.accepted.lock();
        if context.view.pod(&pod.key).is_some_and(|known| known.uid == pod.uid) {
            accepted.insert(pod.key.clone(), pod.uid.clone());
        }
    }
}

impl Reconciler for Evictions {
    type Key = Key;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        let spec = Spec::new("eviction-queue", settings.concurrency(100, 5000));
        spec.backing_off(eviction::BACKOFF_MIN, eviction::BACKOFF_MAX)
    }

    async fn pass(&self, context: &Context, Key(pod, node): &Key) -> Result<Done, Error> {
        // A pod of the same name with another uid is another pod: the precondition below refuses it.
        if !self.pods.lock().contains(pod) {
            return Ok(Done::idle());
        }
        if !drains(context, node) {
            self.pods.lock().remove(pod);
            return Ok(Done::idle());
        }
        let result = ask(context, pod).await;
        let (answer, code) = match &result {
            Ok(()) => (Answer::Accepted, Some(200)),
            Err(kube::Error::Api(status)) => {
                (Answer::Refused { code: status.code, message: &status.message }, Some(status.code))
            }
            Err(_) => (Answer::Lost, None),
        };
        if let Some(code) = code {
            context.metrics.pods.eviction_requests_total.inc([&code.to_string()]);
        }
        let meaning = eviction::classify(answer);
        let reason = drain_reason(context, node);
        if meaning == Meaning::Evicted {
            self.accept(context, pod);
            // Empty where node or claim are not known any more, as in the reference (spec disruption 2.4).
            context.metrics.pods.drained_total.inc([reason.as_ref().map_or("", DrainReason::as_str)]);
        }
        let reason = reason.unwrap_or_else(|| DrainReason::of(None));
        let events = self.pods.lock().answered(pod, meaning, &reason, context.now());
        publish_events(context, events);
        match (meaning, result) {
            (Meaning::Failed, Err(source)) => Err(failed("evict", pod, source)),
            (Meaning::Evicted, _) => Ok(Done::applied()),
            (Meaning::Gone, _) => Ok(Done::idle()),
            _ => Ok(Done::idle().backoff()),
        }
    }
}

/// Asks the API server to evict this pod and no other of its name.
async fn ask(context: &Context, pod: &PodRef) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), pod.key.namespace.as_str());
    let eviction = Eviction {
        metadata: ObjectMeta {
            name: Some(pod.key.name.to_string()),
            namespace: Some(pod.key.namespace.to_string()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            preconditions: Some(meta::Preconditions {
                uid: Some(pod.uid.to_string()),
                ..meta::Preconditions::default()
            }),
            ..DeleteOptions::default()
        }),
    };
    // Not `Api::evict`: it spells the options `delete_options`, which the API server ignores.
    let answer: Result<Value, _> =
        pods.create_subresource("eviction", pod.key.name.as_str(), &PostParams::default(), &eviction).await;
    answer.map(drop)
}

/// Returns whether the node is still being drained: pods that were left when a reboot began stay. One that is not known may be.
fn drains(context: &Context, node: &NodeName) -> bool {
    let Some(node) = context.view.node(node).filter(|node| node.model.deletion.is_none()) else {
        return true;
    };
    context
        .view
        .sole_claim_of(&node.model)
        .is_none_or(|claim| reboot::drains(&claim.model) || claim.model.deletion.is_some())
}

/// Reason why the node is drained; nothing when node or claim is no longer known.
fn drain_reason(context: &Context, node: &NodeName) -> Option<DrainReason> {
    let node = context.view.node(node)?;
    let claim = context.view.sole_claim_of(&node.model)?;
    let condition = claim.model.conditions.get(&ConditionType::DisruptionReason);
    Some(DrainReason::of(condition.map(|condition| condition.reason.as_str())))
}

/// Deletes a pod ahead of the deadline of its node, with this grace; a pod that is gone is fine.
pub(crate) async fn delete_pod(context: &Context, pod: &PodRef, grace: Duration) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), pod.key.namespace.as_str());
    let params = DeleteParams {
        grace_period_seconds: u32::try_from(grace.as_secs()).ok(),
        preconditions: Some(Preconditions { uid: Some(pod.uid.to_string()), resource_version: None }),
        ..DeleteParams::default()
    };
    match pods.delete(pod.key.name.as_str(), &params).await {
        Ok(_) => Ok(()),
        // 409 answers the precondition: another pod has the name by now.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(source) => Err(failed("delete", pod, source)),
    }
}

fn failed(verb: &'static str, pod: &PodRef, source: kube::Error) -> Error {
    let (kind, name) = ("Pod".to_owned(), pod.key.to_string());
    karpenter_kube_harness::Error { verb, kind, name, source: source.into() }.into()
}

#[cfg(test)]
mod tests;
