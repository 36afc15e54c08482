//! Pods that need a place, and the order in which they are tried.

pub(super) mod reject;

use std::cmp::Reverse;

use karpenter_model::resources;
use karpenter_model::{Pod, PodKey, Snapshot};

use crate::index::{ArrivalIx, Ix, IxVec, PodIx};
use crate::interning::InternedMap;

/// Pods to place, each once, as they are in the snapshot: those that will lose their node, and those that wait for
/// capacity.
pub(crate) fn pods(snapshot: &Snapshot) -> Vec<&Pod> {
    let waiting = snapshot.waiting();
    let leaving = snapshot.nodes.iter().filter(|node| node.is_leaving()).flat_map(|node| &node.pods);
    let moving = leaving.filter(|pod| snapshot.currently_reschedulable(pod));
    let pods: Vec<&Pod> = moving.chain(waiting).map(AsRef::as_ref).collect();
    // Strictly ascending keys are unique, so the usual list needs no map.
    if pods.is_sorted_by(|a, b| a.key < b.key) {
        return pods;
    }
    let unique: InternedMap<&PodKey, &Pod> = pods.into_iter().map(|pod| (&pod.key, pod)).collect();
    unique.into_values().collect()
}

/// The order in which `pods` are tried, by their places in the list: large ones first, then old ones, then by uid
/// (spec scheduling 12); virtual pods of capacity buffers after all others, because real pods take room before
/// virtual ones.
pub(crate) fn order(pods: &[&Pod]) -> IxVec<PodIx, ArrivalIx> {
    let mut places: Vec<ArrivalIx> = (0..pods.len()).map(ArrivalIx::new).collect();
    places.sort_by_cached_key(|place| {
        let pod = pods[place.get()];
        let amount = |name| Reverse(pod.requests.amount(name).nanos());
        let large_and_old = (amount(resources::CPU), amount(resources::MEMORY), pod.created_at);
        (pod.is_virtual(), large_and_old, &pod.uid, &pod.key)
    });
    places.into()
}
