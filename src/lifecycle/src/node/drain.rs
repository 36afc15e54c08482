//! Draining a node: which pods are deleted ahead of the deadline, which are evicted now, which are waited for
//! (spec disruption 2.3).
//!
//! Pods leave in four groups, each entirely gone before the next is asked: ordinary pods, ordinary daemons,
//! critical pods, critical daemons. A pod that may not be evicted keeps its group waiting. Only a deadline ends
//! that: every pod is then deleted early enough to get its own grace period, budgets or not.
//!
//! Within a group large pods are evicted first. What takes their place is scheduled in about this order, and a large pod that
//! comes last finds its room taken by small ones.

use std::cmp::Reverse;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::reason;
use karpenter_model::{Pod, resources};

use crate::pods::protection;
use crate::step::{About, Effect, Event, PodRef};

/// Present step of a drain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Drain {
    /// Words about protections, deletions ahead of the deadline, and evictions, in pod order within the first two.
    pub effects: Vec<Effect>,
    /// Pods the drain still waits for, over all groups.
    pub waiting: usize,
}

/// The present step of draining a node with these pods, all of which are bound to it.
pub fn drain<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Drain {
    let mut waiting: Vec<&Pod> = pods.into_iter().filter(|pod| pod.is_waiting_eviction(now)).collect();
    waiting.sort_by(|left, right| left.key.cmp(&right.key));
    let told = waiting.iter().filter(|pod| pod.is_active()).filter_map(|pod| protection::event(pod, now));
    let mut effects: Vec<Effect> = told.map(Effect::Event).collect();
    let mut deleted = Vec::new();
    if let Some(deadline) = deadline {
        for pod in &waiting {
            if let Some(grace) = overdue(pod, deadline, now) {
                effects.extend(deletion(pod, grace, deadline));
                deleted.push(&pod.key);
            }
        }
    }
    if let Some(first) = waiting.iter().map(|pod| group(pod)).min() {
        let members = waiting.iter().filter(|pod| group(pod) == first && !deleted.contains(&&pod.key));
        let mut leaving: Vec<&&Pod> = members.filter(|pod| pod.is_evictable(now)).collect();
        leaving.sort_by_key(|pod| {
            Reverse([resources::CPU, resources::MEMORY].map(|name| pod.requests.amount(name)))
        });
        effects.extend(leaving.into_iter().map(|pod| Effect::Evict(PodRef::of(pod))));
    }
    Drain { effects, waiting: waiting.len() }
}

/// The turn of a pod: ordinary before critical, and within each the daemons last.
fn group(pod: &Pod) -> (bool, bool) {
    (pod.critical, pod.is_daemon())
}

/// The grace, in seconds, with which the pod has to be deleted now so that it is gone by the deadline; `None` while
/// there is time, or when it goes by itself in time.
fn overdue(pod: &Pod, deadline: Timestamp, now: Timestamp) -> Option<u32> {
    if pod.deletion.is_some_and(|deletion| deletion <= deadline) {
        return None;
    }
    // Without a grace period there is no time at which the deletion would have to begin (spec disruption
    // 2.3).
    let delete_at = deadline.checked_sub(pod.grace_period?).ok()?;
    if now <= delete_at {
        return None;
    }
    // A grace of zero removes the object while its containers may still run.
    Some(u32::try_from(since(now, deadline).as_secs()).unwrap_or(u32::MAX).max(1))
}

fn deletion(pod: &Pod, grace: u32, deadline: Timestamp) -> [Effect; 2] {
    let own = pod.grace_period.unwrap_or(Duration::ZERO).as_secs();
    let event = Event::new(
        About::Pod(PodRef::of(pod)),
        reason::DISRUPTED,
        format!(
            "Deleting the pod to accommodate the terminationTime {deadline} of the node. The pod was granted \
             {grace} seconds of grace-period of its {own} terminationGracePeriodSeconds. This bypasses the PDB of \
             the pod and the do-not-disrupt annotation."
        ),
    );
    [Effect::DeletePod(PodRef::of(pod), grace), Effect::Event(event)]
}

#[cfg(test)]
mod tests;
