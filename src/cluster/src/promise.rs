//! Machine that a claim stands for before it is launched.
//!
//! The reference stops all planning while any claim has no machine. Here such a claim counts at once, as the least it can
//! become: with the smallest allocatable amount of every resource among the types it may be launched as (each of them fits
//! its requests), and with the labels for which its requirements leave one value. The pods it was created for are on it
//! until it is launched; then it has real labels and is planned with like any other machine.
//!
//! The promise outlives the launch: snapshots carry it, so that the next pass sends the pods to the same machine. It
//! ends with the machine, and with a pod that is bound, recreated, or asks for something else. It is in memory only: after
//! a restart pods of launched machines are placed as if nothing had been promised.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::{Claim, ClaimName, InstanceType, LabelRegistry, PodKey, Resources, Target};

/// Instance types that a pool can launch.
pub(crate) type Types = Arc<[Arc<InstanceType>]>;

/// Machine on which each pod was promised a place, by a plan or by a command: the claim, where it has one.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    pods: BTreeMap<Target, BTreeSet<PodKey>>,
    /// Shared with snapshots, so that it costs nothing while it does not change.
    places: Arc<BTreeMap<PodKey, Target>>,
}

impl Promises {
    /// Promises these pods a place; a pod promised elsewhere before is moved. Returns the places that lost a pod.
    pub(crate) fn make(&mut self, place: &Target, pods: impl IntoIterator<Item = PodKey>) -> Vec<Target> {
        let mut losers = Vec::new();
        for pod in pods {
            if self.places.get(&pod) == Some(place) {
                continue;
            }
            losers.extend(self.end(&pod));
            Arc::make_mut(&mut self.places).insert(pod.clone(), place.clone());
            self.pods.entry(place.clone()).or_default().insert(pod);
        }
        losers
    }

    /// Ends the promise of a pod; returns the place it was promised.
    pub(crate) fn end(&mut self, pod: &PodKey) -> Option<Target> {
        if !self.places.contains_key(pod) {
            return None;
        }
        let place = Arc::make_mut(&mut self.places).remove(pod)?;
        if let Some(pods) = self.pods.get_mut(&place) {
            pods.remove(pod);
            if pods.is_empty() {
                self.pods.remove(&place);
            }
        }
        Some(place)
    }

    /// Ends the promises of a machine that is gone.
    pub(crate) fn end_all(&mut self, place: &Target) {
        for pod in self.pods.remove(place).unwrap_or_default() {
            Arc::make_mut(&mut self.places).remove(&pod);
        }
    }

    /// The claim a pod was promised a place on.
    pub(crate) fn claim_of(&self, pod: &PodKey) -> Option<&ClaimName> {
        match self.places.get(pod)? {
            Target::Claim(claim) => Some(claim),
            Target::Node(_) => None,
        }
    }

    /// The pods a claim was promised to.
    pub(crate) fn pods_of(&self, claim: &ClaimName) -> impl Iterator<Item = &PodKey> {
        self.pods.get(&Target::Claim(claim.clone())).into_iter().flatten()
    }

    /// The claims that were promised to pods, with these.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (&ClaimName, &BTreeSet<PodKey>)> {
        self.pods.iter().filter_map(|(place, pods)| match place {
            Target::Claim(claim) => Some((claim, pods)),
            Target::Node(_) => None,
        })
    }

    /// All of them, for a snapshot.
    pub(crate) fn places(&self) -> Arc<BTreeMap<PodKey, Target>> {
        Arc::clone(&self.places)
    }
}

/// Claims as they count before they are launched. Every type is looked at for each of them, so it is done once as long as
/// neither the claim nor the types change.
#[derive(Debug, Default)]
pub(crate) struct Unlaunched(BTreeMap<ClaimName, Counted>);

#[derive(Debug)]
struct Counted {
    claim: Arc<Claim>,
    types: Types,
    promised: Arc<Claim>,
}

impl Unlaunched {
    /// The claim as it counts when its pool has these types.
    pub(crate) fn promised(
        &mut self,
        claim: &Arc<Claim>,
        types: &Types,
        registry: &LabelRegistry,
    ) -> Arc<Claim> {
        let known = self.0.get(&claim.name);
        let known =
            known.filter(|known| Arc::ptr_eq(&known.claim, claim) && Arc::ptr_eq(&known.types, types));
        if let Some(known) = known {
            return Arc::clone(&known.promised);
        }
        let promised = Arc::new(as_promised(claim, types, registry));
        let (claim, types) = (Arc::clone(claim), Arc::clone(types));
        self.0.insert(claim.name.clone(), Counted { claim, types, promised: Arc::clone(&promised) });
        promised
    }

    /// The claim is launched or gone.
    pub(crate) fn forget(&mut self, claim: &ClaimName) {
        self.0.remove(claim);
    }
}

/// The claim as it counts before it is launched.
fn as_promised(claim: &Claim, types: &[Arc<InstanceType>], registry: &LabelRegistry) -> Claim {
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

/// The smallest of each resource, never less than the claim requests.
fn least(claim: &Claim, of: impl Iterator<Item = Resources>) -> Resources {
    let all: Vec<Resources> = of.collect();
    Resources::max([&Resources::min(&all), &claim.requests])
}
