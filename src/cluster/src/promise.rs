//! What a claim stands for before it is launched.
//!
//! The reference stops all planning while any claim has no machine. Here such a claim counts at once, as the least
//! it can turn out to be: for every resource the smallest allocatable among the types it may be launched as (each
//! of them fits its requests), and the labels that its requirements leave no choice about. The pods it was created
//! for are on it until it is launched; then it has real labels and is planned with like any other machine.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::{Claim, ClaimName, InstanceType, LabelRegistry, PodKey, Resources};

/// Which pods each unlaunched claim was created for.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    pods: BTreeMap<ClaimName, BTreeSet<PodKey>>,
    claims: BTreeMap<PodKey, ClaimName>,
}

impl Promises {
    /// Promises these pods a place on a claim; a pod promised elsewhere before is moved. Returns the claims that
    /// lost a pod.
    pub(crate) fn make(
        &mut self,
        claim: &ClaimName,
        pods: impl IntoIterator<Item = PodKey>,
    ) -> Vec<ClaimName> {
        let mut losers = Vec::new();
        for pod in pods {
            if let Some(before) = self.claims.insert(pod.clone(), claim.clone())
                && before != *claim
            {
                if let Some(pods) = self.pods.get_mut(&before) {
                    pods.remove(&pod);
                }
                losers.push(before);
            }
            self.pods.entry(claim.clone()).or_default().insert(pod);
        }
        losers
    }

    /// Forgets a claim: it was launched or is gone.
    pub(crate) fn keep(&mut self, claim: &ClaimName) {
        for pod in self.pods.remove(claim).unwrap_or_default() {
            self.claims.remove(&pod);
        }
    }

    /// The claim a pod was promised a place on.
    pub(crate) fn claim_of(&self, pod: &PodKey) -> Option<&ClaimName> {
        self.claims.get(pod)
    }

    /// The pods a claim was created for.
    pub(crate) fn pods_of(&self, claim: &ClaimName) -> impl Iterator<Item = &PodKey> {
        self.pods.get(claim).into_iter().flatten()
    }
}

/// The claim as it counts before it is launched.
pub(crate) fn as_promised(claim: &Claim, types: &[Arc<InstanceType>], registry: &LabelRegistry) -> Claim {
    let possible: Vec<&InstanceType> =
        types.iter().map(Arc::as_ref).filter(|one| may_become(claim, one, registry)).collect();
    let mut promised = claim.clone();
    promised.allocatable = least(claim, possible.iter().map(|one| one.allocatable()));
    promised.capacity = least(claim, possible.iter().map(|one| one.capacity.clone()));
    for requirement in claim.requirements.iter() {
        let certain = requirement.concrete().filter(|values| values.len() == 1).and_then(BTreeSet::first);
        if let Some(value) = certain {
            promised.labels.entry(requirement.key().clone()).or_insert_with(|| value.clone());
        }
    }
    promised
}

/// Unavailable offerings count too: what is missing now may be what the cloud has by then.
fn may_become(claim: &Claim, one: &InstanceType, registry: &LabelRegistry) -> bool {
    claim.requirements.intersects(&one.requirements).is_ok()
        && claim.requests.fits(&one.allocatable())
        && one.offerings.iter().any(|offering| offering.is_compatible(&claim.requirements, registry))
}

/// The smallest of each resource, never less than what the claim asks for.
fn least(claim: &Claim, of: impl Iterator<Item = Resources>) -> Resources {
    let all: Vec<Resources> = of.collect();
    Resources::max([&Resources::min(&all), &claim.requests])
}
