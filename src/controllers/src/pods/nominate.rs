//! Hints to the scheduler about the pods a node was launched for: `status.nominatedNodeName` of those pods.
//!
//! The scheduler takes pods as they come and prefers the emptiest node, so that small pods take the room a plan gave to
//! large ones, and for those another node is launched. It tries the node that a pod names before all others (since
//! Kubernetes 1.24, KEP-1923) and keeps that room from pods that are no more important. KEP-5278 makes it a way for others to
//! say where they expect a pod.
//!
//! The scheduler (1.35) takes the name away whenever it tries a pod that fits nowhere yet and can preempt no pod, and it tries
//! all pods that wait when some node becomes ready. So a node is named when it registers, which is enough for a node that
//! comes alone, and again when it becomes ready, before its last taints go and the scheduler may use it: a name that is
//! taken away earlier is of no use, and writing it again has a price. Taking it away makes the scheduler try the pods again
//! that are no more important, as if this one had been deleted, and take their names away in turn. Two pods whose names came
//! back at once would keep it so busy until their node is ready, with a hundred writes a second.
//!
//! A node that is ready may still have taints that only its agents take off. Until they do, a name that was taken away comes
//! back at once a few times, and then after a [`PAUSE`] that grows until no name is left that could be taken away.
//!
//! Pods that spread over zones or hosts are named only as many at a time as the skew allows, and the next ones when these are
//! bound (`lifecycle/src/pods/nomination.rs`).
//!
//! A name is a hint, never a condition: one that cannot be written in time is left out, and the node takes pods without it.

use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use karpenter_kube_harness::queue::{Done, Queue, Spec};
use karpenter_kube_harness::write;
use karpenter_lifecycle::pods::nomination::nameable;
use karpenter_model::clock::since;
use karpenter_model::names::condition;
use karpenter_model::{ClaimName, NodeName, Pod, PodKey};
use karpenter_telemetry::observe::Chain;
use kube::Api;
use parking_lot::Mutex;
use serde_json::json;

use crate::reconciler::Reconciler;
use crate::view::{Conditioned, PodSeen, StatusSeen};
use crate::{Context, Error, Settings};

/// Longest time that a node that is ready for pods may wait for this.
const WITHIN: Duration = Duration::from_secs(2);
/// Writes at a time, for one node.
const WRITES: usize = 10;
/// Number of times in a row that a node is named again for one pod at once: nodes that were launched together become ready within
/// a second or two, and each of them makes the scheduler try all pods.
const AT_ONCE: u32 = 4;
/// Shortest and longest time between two namings after that; it doubles with each. The scheduler takes some thirtieth of a
/// second for each name that it takes away. A node that becomes ready meanwhile takes pods as they come.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));
/// Age at which a naming no longer counts: the next one for that pod goes out at once.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// Names `node` in the status of the pods that were promised a place on `claim` and have none yet.
pub(crate) async fn pods_of(context: &Context, claim: &str, node: &NodeName) {
    if !context.settings.nominated_node_name {
        return;
    }
    let claim = ClaimName::from(claim);
    let promised = context.view.with_cluster(|cluster| cluster.promised(&claim));
    let writes: Vec<_> = unnamed(&promised, node).map(|pod| name(context, pod, node)).collect();
    let all = stream::iter(writes).buffer_unordered(WRITES).take_while(|go_on| std::future::ready(*go_on));
    if tokio::time::timeout(WITHIN, all.for_each(|_| std::future::ready(()))).await.is_err() {
        tracing::debug!(node = %node, "not every pod of the node could be named its node in time");
    }
}

/// Names the node again when it is ready and the scheduler has taken the name away.
#[derive(Clone, Default)]
pub(crate) struct Again {
    last: Arc<Mutex<Last>>,
}

/// Time at which a node was last named again for each pod, and how many times in a row.
type Last = BTreeMap<PodKey, (Timestamp, u32)>;

impl Again {
    /// Looks at pods whose name was taken away, and at those of a Node that comes closer to taking pods.
    pub(crate) fn follow(&self, context: &Context, queue: Queue<PodKey>) {
        let subscribers = context.view.subscribers();
        let (again, known) = (queue.clone(), context.clone());
        subscribers.pods(move |seen| {
            if is_taken_away(seen) {
                again.add(seen.pod().key.clone());
            }
            if let Some(node) = filled_by_one_that_spreads(seen) {
                unnamed(&promised_on(&known, node), node).for_each(|pod| again.add(pod.key.clone()));
            }
        });
        let (again, known) = (self.clone(), context.clone());
        subscribers.statuses(move |seen| {
            let node = came_closer(seen).and_then(|node| Some(node.metadata.name.as_deref()?.into()));
            for pod in node.map(|node| promised_on(&known, &node)).into_iter().flatten() {
                again.last.lock().remove(&pod.key);
                queue.add(pod.key.clone());
            }
        });
    }

    /// Checks that the node of a pod may be named again `now`, which counts as done; else returns how long that has to wait.
    fn may_name(&self, key: &PodKey, now: Timestamp) -> Result<(), Duration> {
        let mut last = self.last.lock();
        last.retain(|_, (then, _)| since(*then, now) < FORGOTTEN);
        let times = match last.get(key) {
            None => 1,
            Some((then, times)) => {
                match pause(*times).checked_sub(since(*then, now)).filter(|left| !left.is_zero()) {
                    Some(left) => return Err(left),
                    None => times.saturating_add(1),
                }
            }
        };
        last.insert(key.clone(), (now, times));
        Ok(())
    }
}

/// Time to wait after a node was named again this number of times in a row.
fn pause(times: u32) -> Duration {
    let (shortest, longest) = PAUSE;
    let doubled = times.checked_sub(AT_ONCE).map(|more| shortest.saturating_mul(2_u32.saturating_pow(more)));
    doubled.map_or(Duration::ZERO, |pause| pause.min(longest))
}

impl Reconciler for Again {
    type Key = PodKey;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        Spec::new("pod.nomination", settings.concurrency(10, 100))
    }

    async fn pass(&self, context: &Context, key: &PodKey) -> Result<Done, Error> {
        let Some((promised, node)) = context.view.with_cluster(|cluster| cluster.expected_with(key)) else {
            return Ok(Done::idle());
        };
        let pod = unnamed(&promised, &node.name).find(|pod| pod.key == *key);
        if let Some(pod) = pod.filter(|_| node.is_ready()) {
            if let Err(pause) = self.may_name(key, context.clock.now()) {
                return Ok(Done::idle().after(pause));
            }
            name(context, pod, &node.name).await;
        }
        Ok(Done::idle())
    }
}

/// Pods of `promised`, the pods of one node, that are to name it and do not: they have no node yet. Another name is that of
/// an earlier place, which the pod is no longer planned for.
fn unnamed<'a>(promised: &'a [Arc<Pod>], node: &'a NodeName) -> impl Iterator<Item = &'a Pod> {
    let nameable = nameable(promised.iter().map(AsRef::as_ref)).into_iter();
    nameable.filter(move |pod| pod.node_name.is_none() && pod.nominated_node.as_ref() != Some(node))
}

/// The node to which a pod was bound that spreads: others may be named that node now.
fn filled_by_one_that_spreads(seen: &PodSeen) -> Option<&NodeName> {
    match seen {
        PodSeen::Updated { old, new } if old.node_name.is_none() && !new.spread.is_empty() => {
            new.node_name.as_ref()
        }
        _ => None,
    }
}

/// Returns whether the scheduler has taken a name away.
fn is_taken_away(seen: &PodSeen) -> bool {
    matches!(seen, PodSeen::Updated { old, new }
        if new.node_name.is_none() && new.nominated_node.is_none() && old.nominated_node.is_some())
}

/// The Node that a change brought closer to taking pods: it has become ready, or has lost a taint since.
fn came_closer(seen: &StatusSeen) -> Option<&v1::Node> {
    let StatusSeen::Changed { old: Conditioned::Node(old), new: Conditioned::Node(new) } = seen else {
        return None;
    };
    let closer = is_ready(new) && (!is_ready(old) || taints(new) < taints(old));
    closer.then_some(new)
}

fn is_ready(node: &v1::Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == condition::READY && one.status == "True")
}

fn taints(node: &v1::Node) -> usize {
    node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).map_or(0, Vec::len)
}

/// The pods that were promised a place on the machine of this Node.
fn promised_on(context: &Context, node: &NodeName) -> Vec<Arc<Pod>> {
    context.view.with_cluster(|cluster| cluster.promised_on(node))
}

/// Names `node` in the status of one pod; returns whether it makes sense to go on with others.
async fn name(context: &Context, pod: &Pod, node: &NodeName) -> bool {
    let pods: Api<v1::Pod> = Api::namespaced(context.hints.clone(), pod.key.namespace.as_str());
    // The uid: a pod that was made again under the same name was not planned for. The API server refuses that with 422, and the
    // name of a node for a pod that has been bound meanwhile.
    let change = json!({
        "metadata": {"uid": pod.uid.as_str()},
        "status": {"nominatedNodeName": node.as_str()},
    });
    match write::merge_status(&pods, pod.key.name.as_str(), &change).await {
        Ok(_) => true,
        Err(error) if error.is_forbidden() => {
            static TOLD: Once = Once::new();
            TOLD.call_once(|| {
                tracing::warn!(
                    error = %Chain(&error),
                    "cannot tell the scheduler which pods a node was launched for, so it may arrange them in a way that \
                     needs more nodes; let the role `patch` `pods/status`, or switch this off with \
                     --nominated-node-name=false"
                );
            });
            false
        }
        Err(error) => {
            let error = Chain(&error);
            tracing::debug!(pod = %pod.key, node = %node, %error, "cannot tell the scheduler the node of a pod");
            true
        }
    }
}
