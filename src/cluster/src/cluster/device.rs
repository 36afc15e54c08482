//! Devices, as a pass sees them (spec scheduling 22.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::device::Consumer;
use karpenter_model::{Devices, PodKey, PodUid, ResourceClaim};

use super::Cluster;
use super::kind::{Shown, UsedClaim};

impl<O: Shown> Cluster<O> {
    /// What there is, and who has it; nothing while resource claims are ignored.
    pub(super) fn devices(&self) -> Arc<Devices> {
        if self.settings.ignore_dra_requests {
            return Arc::default();
        }
        let (classes, claims) = (self.facts.device_classes.iter(), self.facts.device_claims.iter());
        Arc::new(Devices {
            slices: self.facts.slices.models().cloned().collect(),
            classes: classes.map(|(name, known)| (name.clone(), Arc::clone(&known.model))).collect(),
            claims: claims.map(|(key, known)| (key.clone(), self.reserved(&known.model))).collect(),
            // No provider says what its machines bring along.
            templates: BTreeMap::new(),
        })
    }

    /// The claim without the pods that are no more: the API server frees it later.
    fn reserved(&self, used: &UsedClaim) -> Arc<ResourceClaim> {
        let exists =
            |(key, uid): &&(PodKey, PodUid)| self.facts.pods.model(key).is_some_and(|pod| pod.uid == *uid);
        let gone = used.pods.iter().filter(|pod| !exists(pod));
        let gone: BTreeSet<&PodUid> = gone.map(|(_, uid)| uid).collect();
        let mut claim = Arc::clone(&used.claim);
        if !gone.is_empty() {
            for consumer in &mut Arc::make_mut(&mut claim).reserved_for {
                if let Consumer::Pod(uid) = consumer
                    && gone.contains(uid)
                {
                    *consumer = Consumer::Gone(uid.clone());
                }
            }
        }
        claim
    }
}
