//! Meaning of persistent volume claims for placement. A claim is resolved again whenever it, its volume or its
//! class changes; [`resolve`] decides what it means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::Volume;
use karpenter_model::pod::volume::resolve::{
    ClaimFacts, ClassFacts, NO_PROVISIONER, Objects, Unsupported, VolumeFacts, resolve,
};

use super::kind::{Shown, VolumeClaimKey};
use super::{Cluster, Facts};

/// Claims, resolved.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    resolved: BTreeMap<VolumeClaimKey, Arc<Volume>>,
    /// The claims that name a volume.
    claims_of: BTreeMap<String, BTreeSet<VolumeClaimKey>>,
}

impl Volumes {
    /// Returns the resolved volume of each claim.
    pub(super) fn resolved(&self) -> &BTreeMap<VolumeClaimKey, Arc<Volume>> {
        &self.resolved
    }
}

impl<O: Shown> Cluster<O> {
    pub(crate) fn volume_claim_changed(
        &mut self,
        key: &VolumeClaimKey,
        old: Option<&ClaimFacts>,
        new: Option<&ClaimFacts>,
    ) {
        let claims_of = &mut self.derived.volumes.claims_of;
        if let Some(volume) = old.and_then(|claim| claim.volume.as_ref())
            && let Some(keys) = claims_of.get_mut(volume)
        {
            keys.remove(key);
            if keys.is_empty() {
                claims_of.remove(volume);
            }
        }
        if let Some(volume) = new.and_then(|claim| claim.volume.as_ref()) {
            claims_of.entry(volume.clone()).or_default().insert(key.clone());
        }
        self.resolve_volume(key);
    }

    pub(crate) fn volume_changed(
        &mut self,
        name: &String,
        old: Option<&VolumeFacts>,
        new: Option<&VolumeFacts>,
    ) {
        for key in self.derived.volumes.claims_of.get(name).cloned().unwrap_or_default() {
            self.resolve_volume(&key);
        }
        // A claim that waits may be bound to any volume of its class if nothing is provisioned.
        let classes: BTreeSet<&String> =
            [old, new].into_iter().flatten().filter_map(|volume| volume.class.as_ref()).collect();
        for class in classes {
            let known = self.facts.storage_classes.model(class);
            if known.is_some_and(|known| known.provisioner == NO_PROVISIONER) {
                self.resolve_volumes_of(class);
            }
        }
    }

    pub(crate) fn storage_class_changed(
        &mut self,
        name: &String,
        _: Option<&ClassFacts>,
        _: Option<&ClassFacts>,
    ) {
        self.resolve_volumes_of(name);
    }

    fn resolve_volumes_of(&mut self, class: &String) {
        let claims = self.facts.volume_claims.iter();
        let of_class = claims.filter(|(_, claim)| claim.model.class.as_ref() == Some(class));
        for key in of_class.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.resolve_volume(&key);
        }
    }

    fn resolve_volume(&mut self, key: &VolumeClaimKey) {
        let resolved = &mut self.derived.volumes.resolved;
        let Some(claim) = self.facts.volume_claims.model(key) else {
            resolved.remove(key);
            return;
        };
        let meaning = resolve(key, Some(claim), &self.facts, &Unsupported::default());
        if resolved.get(key).map(Arc::as_ref) != Some(&meaning) {
            resolved.insert(key.clone(), Arc::new(meaning));
        }
    }
}

impl<O: Shown> Objects for Facts<O> {
    fn volume(&self, name: &str) -> Option<&VolumeFacts> {
        self.volumes.model(name).map(Arc::as_ref)
    }

    fn class(&self, name: &str) -> Option<&ClassFacts> {
        self.storage_classes.model(name).map(Arc::as_ref)
    }

    fn of_class(&self, name: &str) -> Vec<(&str, &VolumeFacts)> {
        let all = self.volumes.iter().map(|(known, volume)| (known.as_str(), volume.model.as_ref()));
        all.filter(|(_, volume)| volume.class.as_deref() == Some(name)).collect()
    }
}
