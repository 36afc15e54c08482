//! Machines and their claims: at most one for a claim, none without one for long, none that outlives it, none that is
//! taken from a claim that is to stay.

use std::collections::BTreeMap;

use karpenter_aws_api::id::InstanceId;
use karpenter_kube_sim::apiserver::object;
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind};

use super::{Found, Scene, claim_of};

/// Longest time a machine may be without a claim, in seconds: five looks of the collector, three of which may fail.
const UNOWNED: u64 = 600;

/// Memory about machines.
#[derive(Default)]
pub(super) struct Machines {
    /// Instances without claim, and since when.
    unowned: BTreeMap<InstanceId, u64>,
}

impl Machines {
    /// Returns whether an instance had no claim at the last look.
    pub(super) fn any_unowned(&self) -> bool {
        !self.unowned.is_empty()
    }

    /// Looks at every instance.
    pub(super) fn look(&mut self, scene: &Scene, now: u64, found: &mut Found) {
        let mut by_claim: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut unowned = BTreeMap::new();
        for instance in scene.alive() {
            let claim = claim_of(instance);
            by_claim.entry(claim).or_default().push(instance.id.as_str());
            if scene.claim(claim).is_none() {
                let since = self.unowned.get(&instance.id).copied().unwrap_or(now);
                if now.saturating_sub(since) > UNOWNED {
                    found.push(("unowned machine", format!("{} has no claim for {UNOWNED} s", instance.id)));
                }
                unowned.insert(instance.id.clone(), since);
            }
        }
        self.unowned = unowned;
        for (claim, instances) in by_claim {
            if instances.len() > 1 && !claim.is_empty() {
                found.push(("one machine per claim", format!("{claim} has {instances:?}")));
            }
        }
    }
}

/// A claim changes: it may be gone only after its machine was terminated.
pub(super) fn claim(scene: &Scene, change: &Change, found: &mut Found) {
    if change.kind != ChangeKind::Deleted {
        return;
    }
    let name = object::name(&change.object);
    for instance in scene.alive().filter(|instance| claim_of(instance) == name) {
        found.push(("machine outlives claim", format!("{} of {name}", instance.id)));
    }
}

/// A controller terminates instances: none that its claim names, or may come to name, while that is not being deleted.
pub(super) fn terminating(scene: &Scene, ids: &[InstanceId]) -> Found {
    let mut found = Found::new();
    for instance in scene.alive().filter(|instance| ids.contains(&instance.id)) {
        let Some(claim) = scene.claim(claim_of(instance)) else { continue };
        let named = object::text(claim, "/status/providerID");
        // A claim that names none yet may be about to name this one.
        let wanted = named.is_empty() || named.ends_with(instance.id.as_str());
        if wanted && !object::is_deleting(claim) {
            found.push(("wanted machine", format!("{} is terminated, its claim is to stay", instance.id)));
        }
    }
    found
}
