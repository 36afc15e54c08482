//! Room that capacity buffers keep free: virtual pods that wait like any other, and how many of them each machine
//! would take (spec scheduling 23 and 27.1).
//!
//! Virtual pods are decisions of ours, not facts: no watch tells of them. While a claim made for some of them is
//! being launched, they hold their places on it like pods that exist, so that nothing is launched twice for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::{BufferKey, Pod, PodKey, Target};

use super::Cluster;
use super::kind::Shown;
use crate::machine::Members;

/// Capacity buffers, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Room {
    pods: BTreeMap<BufferKey, BTreeMap<PodKey, Arc<Pod>>>,
    counts: BTreeMap<Target, usize>,
}

#[cfg(test)]
impl Room {
    pub(super) fn counted(&self) -> usize {
        self.counts.len()
    }
}

impl<O: Shown> Cluster<O> {
    /// Sets the virtual pods of a buffer, none once it is gone; true when they are others than before. Those that
    /// differ in their creation alone stay as they were, so that nothing looks new because it was made again.
    pub fn set_buffer(&mut self, buffer: &BufferKey, pods: impl IntoIterator<Item = Pod>) -> bool {
        let before = self.own.room.pods.remove(buffer).unwrap_or_default();
        let mut after: BTreeMap<PodKey, Arc<Pod>> = BTreeMap::new();
        for pod in pods {
            let same = before
                .get(&pod.key)
                .filter(|known| pod == Pod { created_at: pod.created_at, ..(***known).clone() });
            let pod = same.map_or_else(|| Arc::new(pod), Arc::clone);
            after.insert(pod.key.clone(), pod);
        }
        let pairs = before.iter().zip(&after);
        let same = before.len() == after.len() && pairs.into_iter().all(|((_, a), (_, b))| Arc::ptr_eq(a, b));
        if !same {
            for key in before.keys().chain(after.keys()) {
                if let Some(claim) = self.own.promises.claim_of(key).cloned() {
                    self.touch_claim(&claim);
                }
            }
        }
        if !after.is_empty() {
            self.own.room.pods.insert(buffer.clone(), after);
        }
        !same
    }

    /// Returns whether any buffer has virtual pods.
    pub fn has_buffer_pods(&self) -> bool {
        !self.own.room.pods.is_empty()
    }

    /// Sets how many virtual pods the last plan placed on each machine; machines without any have no entry.
    pub fn set_buffer_counts(&mut self, counts: BTreeMap<Target, usize>) {
        let before = std::mem::take(&mut self.own.room.counts);
        let counts: BTreeMap<Target, usize> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        let changed = before.keys().chain(counts.keys()).filter(|key| before.get(key) != counts.get(key));
        let changed: Vec<Target> = changed.cloned().collect();
        self.own.room.counts = counts;
        self.touch_targets(&changed);
    }

    /// Notes that a claim was created for these pods, as far as they are virtual.
    pub(super) fn count_buffer_pods(&mut self, claim: &Target, pods: &[PodKey]) {
        let count = pods.iter().filter(|key| self.virtual_pod(key).is_some()).count();
        if count > 0 {
            self.own.room.counts.insert(claim.clone(), count);
            self.touch_targets(std::slice::from_ref(claim));
        }
    }

    fn touch_targets(&mut self, targets: &[Target]) {
        for target in targets {
            match target {
                Target::Node(name) => self.touch_node(name),
                Target::Claim(name) => self.touch_claim(name),
            }
        }
    }

    /// The virtual pod with this key, unless a pod that exists has it.
    pub(super) fn virtual_pod(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        let found = self.own.room.pods.values().find_map(|pods| pods.get(key))?;
        self.facts.pods.model(key).is_none().then_some(found)
    }

    /// Virtual pods that have no place on a claim that is being launched, in the order of their buffers.
    pub(super) fn waiting_virtual_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let all = self.own.room.pods.values().flatten();
        all.filter(|(key, _)| self.facts.pods.model(key).is_none() && !self.has_promise(key))
            .map(|(_, pod)| pod)
    }

    /// Returns the number of virtual pods that the last plan placed on the machine with these objects.
    pub(super) fn buffer_pods_on(&self, members: &Members) -> usize {
        let claims = members.claims.iter().map(|name| Target::Claim(name.clone()));
        let nodes = members.nodes.iter().map(|name| Target::Node(name.clone()));
        claims.chain(nodes).filter_map(|target| self.own.room.counts.get(&target)).sum()
    }
}
