//! Which pods need a place, and in what order they are tried.

use std::cmp::Reverse;

use karpenter_model::{Pod, PodKey, Snapshot, resources};

use crate::interning::InternedMap;

/// Pods to place: those that wait for capacity, and those that will lose their machine. Large ones first,
/// then old ones, then by uid (spec core-scheduling 12); virtual pods of capacity buffers after all others, because
/// whoever exists takes room from those who do not. Each comes with its place among them in the snapshot.
pub(crate) fn pods(snapshot: &Snapshot) -> Vec<(usize, &Pod)> {
    let waiting = snapshot.pending.iter().filter(|pod| pod.is_provisionable());
    let leaving = snapshot.nodes.iter().filter(|node| node.is_leaving()).flat_map(|node| &node.pods);
    let moving = leaving.filter(|pod| snapshot.currently_reschedulable(pod));
    let unique: InternedMap<&PodKey, &Pod> =
        moving.chain(waiting).map(|pod| (&pod.key, pod.as_ref())).collect();
    sorted(unique.into_values().enumerate().collect(), |(_, pod)| pod)
}

/// `things` in the order their pods are tried.
pub(crate) fn sorted<'a, T>(mut things: Vec<T>, pod: impl Fn(&T) -> &'a Pod) -> Vec<T> {
    things.sort_by_cached_key(|thing| {
        let pod = pod(thing);
        let amount = |name| Reverse(pod.requests.amount(name).nanos());
        let large_and_old = (amount(resources::CPU), amount(resources::MEMORY), pod.created_at);
        (pod.is_virtual(), large_and_old, &pod.uid, &pod.key)
    });
    things
}
