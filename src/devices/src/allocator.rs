//! The question asked of every candidate, and what is written down once one is taken.

mod search;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::device::{Device, Devices, PlaceTerm};
use karpenter_model::{
    DevicePoolName, DeviceRequestName, DriverName, InstanceTypeName, LabelRegistry, NodeName, Pod, PodUid,
    PoolName, Requirement, Requirements, ResourceClaim, ResourceClaimKey, ResourceName, Undefined,
};

use crate::allocator::search::{Choice, Found, Scene, Search};
use crate::claim::{self, Claim, ClaimId, Demand};
use crate::index::{DeviceId, Index, Template};
use crate::ledger::{Ledger, Served, Share, Spot};
use crate::refusal::Refusal;
use crate::selector::Selectors;

/// Most steps of one search. A search over a whole machine of eight devices takes a few hundred.
const MOST_STEPS: usize = 100_000;

/// Most combinations of places that the devices of allocated claims can be used at.
const MOST_WAYS: usize = 64;

/// Devices of a pass and their holders.
#[derive(Debug)]
pub struct Allocator<'a> {
    registry: &'a LabelRegistry,
    index: Index,
    selectors: Selectors,
    claims: Vec<Claim>,
    numbers: BTreeMap<ResourceClaimKey, ClaimId>,
    /// Resources that machines of a type have and that devices could stand for.
    counted: Counted,
}

/// Resources that machines of each type have and that devices stand for elsewhere.
pub type Counted = BTreeMap<(PoolName, InstanceTypeName), BTreeSet<ResourceName>>;

/// A machine that is registered and not initialized.
#[derive(Debug, Clone)]
pub struct ComingUp {
    pub spot: Spot,
    /// Name of its Node.
    pub name: NodeName,
    /// Types it may turn out to have, with their pool.
    pub types: Vec<(PoolName, InstanceTypeName)>,
}

/// Place where claims could be served.
pub struct Candidate<'c> {
    /// The machine.
    pub spot: Spot,
    /// Kind of the place.
    pub place: Place<'c>,
    /// Possible types with their pool, in order of preference; `None` for a machine whose devices are published.
    pub types: Vec<Option<(&'c PoolName, &'c InstanceTypeName)>>,
}

/// Kind of a candidate.
pub enum Place<'c> {
    /// A machine that exists or is coming up.
    Machine {
        /// Name of the Node, if it has one.
        name: Option<&'c NodeName>,
        /// Returns whether it satisfies a requirement in every possible outcome.
        satisfies: &'c dyn Fn(&Requirement) -> bool,
        /// Returns whether it has a resource, which then serves requests instead of devices.
        counts: &'c dyn Fn(&ResourceName) -> bool,
    },
    /// A machine that is to be launched.
    Launch {
        /// Requirements of the launch, those of the pod included.
        requirements: &'c Requirements,
        /// Returns whether the type at this position would do with these requirements, devices aside.
        suits: &'c mut dyn FnMut(usize, &Requirements) -> bool,
    },
}

/// A device with where it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRef<'a> {
    /// Driver of the device.
    pub driver: &'a DriverName,
    pub pool: &'a DevicePoolName,
    pub device: &'a Device,
    /// The machine brings it along.
    pub promised: bool,
    /// The request it is for.
    pub request: &'a DeviceRequestName,
}

/// Allocation that would serve the claims of a pod.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The machine.
    pub spot: Spot,
    /// Requirements it must have; for one that is to be launched only.
    pub requirements: Requirements,
    /// Types it may have, in the order they were given, by position.
    pub types: Vec<usize>,
    taken: Vec<(Option<InstanceTypeName>, Share)>,
    served: Vec<(ClaimId, Served)>,
}

impl<'a> Allocator<'a> {
    /// The devices of a pass. Slices of a Node count when it is in `up`, the initialized Nodes
    /// that stay. Claims `to_make` are those that pods will get once they have a node.
    pub fn new(
        devices: &Devices,
        up: &BTreeSet<NodeName>,
        (to_make, counted): (Vec<ResourceClaim>, Counted),
        registry: &'a LabelRegistry,
    ) -> Self {
        let index = Index::new(devices, up);
        let mut selectors = Selectors::default();
        let (claims, numbers) = claim::compile(devices, to_make, &mut selectors);
        Self { registry, index, selectors, claims, numbers, counted }
    }

    /// Returns the ledger before anything is decided. Claims used only by pods that are gone, or are `leaving`,
    /// are released. Devices of machines that are `coming` up, which claims have already, are taken from what their types
    /// promise.
    pub fn ledger(&self, leaving: impl IntoIterator<Item = PodUid>, coming: &[ComingUp]) -> Ledger {
        let mut ledger = Ledger::default();
        for claim in &self.claims {
            for (meter, amount) in self.held(claim) {
                let taken = ledger.allocated.entry(meter).or_insert(0);
                *taken = taken.saturating_add(amount);
            }
        }
        self.evacuate(&mut ledger, None, leaving);
        for machine in coming {
            let shares = machine.types.iter().map(|kind| {
                let template = self.index.templates.get(kind);
                (Some(kind.1.clone()), self.had(&ledger, &machine.name, template.map(AsRef::as_ref)))
            });
            let shares: Vec<_> = shares.collect();
            if shares.iter().any(|(_, share)| !share.meters.is_empty()) {
                ledger.take(&machine.spot, shares);
            }
        }
        ledger
    }

    /// Returns the amounts of `template` that claims already have of the Node `name`.
    fn had(&self, ledger: &Ledger, name: &NodeName, template: Option<&Template>) -> Share {
        let (mut share, mut known, mut taken) = (Share::default(), BTreeMap::new(), BTreeSet::new());
        let Some(template) = template else { return share };
        let claims = self.claims.iter().enumerate();
        let staying = claims.filter(|(number, _)| !ledger.released.contains(&ClaimId(*number)));
        let allocations = staying.filter_map(|(_, claim)| claim.object.allocation.as_ref());
        for held in allocations.flat_map(|allocation| &allocation.devices) {
            let of = (held.driver.clone(), held.pool.clone(), held.device.clone());
            let Some((_, device)) = self.index.coming.get(&of).filter(|(owner, _)| owner == name) else {
                continue;
            };
            let promised = *known
                .entry(of)
                .or_insert_with(|| self.index.likeness(template, (&held.driver, device), &taken));
            taken.extend(promised);
            for (meter, amount) in promised.iter().flat_map(|id| self.index.entries[*id].held(&held.consumed))
            {
                let total: &mut i128 = share.meters.entry(meter).or_insert(0);
                *total = total.saturating_add(amount);
            }
        }
        share
    }

    /// `leaving` lose their machine, and with it the claims no other pod uses; `node` is gone.
    pub fn evacuate(
        &self,
        ledger: &mut Ledger,
        node: Option<&NodeName>,
        leaving: impl IntoIterator<Item = PodUid>,
    ) {
        ledger.leaving.extend(leaving);
        ledger.lost.extend(node.cloned());
        for (number, claim) in self.claims.iter().enumerate() {
            if claim.object.is_released_by(|pod| ledger.leaving.contains(pod)) {
                ledger.release(ClaimId(number), &self.held(claim));
            }
        }
    }

    /// The claims of `pod`, with those that are yet `to_make` for it.
    ///
    /// # Errors
    ///
    /// Refused when one of them is missing, or asks for something that cannot be planned for.
    pub fn claims_of(&self, pod: &Pod, to_make: &[ResourceClaimKey]) -> Result<Vec<ClaimId>, Refusal> {
        let key = |name: &karpenter_model::ResourceClaimName| ResourceClaimKey {
            namespace: pod.key.namespace.clone(),
            name: name.clone(),
        };
        let mut claims = Vec::with_capacity(pod.resource_claims.len());
        for key in pod.resource_claims.iter().map(key).chain(to_make.iter().cloned()) {
            let Some(id) = self.numbers.get(&key) else { return Err(Refusal::NoClaim(key)) };
            let claim = &self.claims[id.0];
            if let (None, Err(refusal)) = (&claim.object.allocation, &claim.demand) {
                return Err(refusal.clone());
            }
            claims.push(*id);
        }
        Ok(claims)
    }

    /// Proposes devices for `claims` on `candidate`.
    pub fn allocate(
        &self,
        ledger: &Ledger,
        claims: &[ClaimId],
        Candidate { spot, mut place, types }: Candidate<'_>,
    ) -> Result<Proposal, Refusal> {
        let (ways, fresh) = self.ways(ledger, claims, &spot, &place)?;
        let culprit = fresh.first().or(claims.first()).map(|claim| &self.claims[claim.0]);
        let mut demands = Vec::with_capacity(fresh.len());
        for claim in &fresh {
            demands.push((*claim, self.claims[claim.0].demand.as_ref().map_err(Clone::clone)?));
        }
        let mut steps = MOST_STEPS;
        let mut refused = None;
        for way in ways {
            let mut requirements = way;
            let mut survivors: Vec<(usize, Vec<Choice<'_>>)> = Vec::new();
            // Of what the first type has, the others have all too: one claim cannot wait for drivers that only some of its
            // types need.
            let mut first: Option<BTreeSet<&ResourceName>> = None;
            for (number, kind) in types.iter().enumerate() {
                let counted = self.counted(&demands, &place, *kind);
                if first.as_ref().is_some_and(|first| *first != counted) {
                    continue;
                }
                let template =
                    kind.and_then(|(pool, name)| self.index.templates.get(&(pool.clone(), name.clone())));
                let template = template.map(AsRef::as_ref);
                let (index, selectors, registry) = (&self.index, &self.selectors, self.registry);
                let kind = kind.map(|(_, name)| name);
                let scene = Scene {
                    index,
                    selectors,
                    registry,
                    ledger,
                    spot: &spot,
                    kind,
                    template,
                    counted: &counted,
                };
                let together = survivors.iter().map(|(number, _)| *number).chain([number]).collect();
                match Search::run(scene, &demands, (&mut place, &requirements), together, &mut steps)? {
                    Found::Yes(choices, narrowed) => {
                        survivors.push((number, choices));
                        requirements = narrowed;
                        first.get_or_insert(counted);
                    }
                    Found::No(refusal) => refused = refusal.or(refused),
                }
                if steps == 0 {
                    break;
                }
            }
            if !survivors.is_empty() {
                return Ok(self.proposal((&spot, &types), requirements, survivors, &fresh));
            }
        }
        let claim = culprit.map(|claim| claim.object.key.clone()).unwrap_or_default();
        match (steps, refused) {
            (0, _) => Err(Refusal::TooIntricate(claim)),
            (_, Some(refusal)) => Err(refusal),
            (_, None) => {
                let demand = culprit.and_then(|claim| claim.demand.as_ref().ok());
                let matching = demand.into_iter().flat_map(|demand| &demand.matching);
                let agreeing = matching.map(|matching| matching.attribute.clone()).collect();
                Err(Refusal::NoDevices { claim, agreeing })
            }
        }
    }

    /// Returns the resources by which a machine of type `kind` serves requests of `demands`, and not by devices.
    fn counted<'s>(
        &'s self,
        demands: &[(ClaimId, &'s Demand)],
        place: &Place<'_>,
        kind: Option<(&PoolName, &InstanceTypeName)>,
    ) -> BTreeSet<&'s ResourceName> {
        let requests = demands.iter().flat_map(|(_, demand)| &demand.requests).flatten();
        let asked = requests.filter_map(|request| request.instead_of.as_ref());
        let has = |resource: &&ResourceName| match (place, kind) {
            (Place::Machine { counts, .. }, _) => counts(resource),
            (Place::Launch { .. }, Some((pool, name))) => {
                let counted = self.counted.get(&(pool.clone(), name.clone()));
                counted.is_some_and(|counted| counted.contains(*resource))
            }
            (Place::Launch { .. }, None) => false,
        };
        asked.filter(has).collect()
    }

    /// Takes the devices of `proposal`.
    pub fn commit(&self, ledger: &mut Ledger, proposal: Proposal) {
        if proposal.taken.iter().any(|(_, share)| !share.devices.is_empty()) || ledger.holds(&proposal.spot) {
            ledger.take(&proposal.spot, proposal.taken);
        }
        for (claim, served) in proposal.served {
            ledger.version += 1;
            ledger.served.insert(claim, served);
        }
    }

    /// Drivers of the devices that come with a machine, sorted; those it has to wait for.
    pub fn drivers(&self, ledger: &Ledger, spot: &Spot) -> BTreeSet<String> {
        let drivers = ledger.shares(spot).flat_map(|(_, share)| &share.drivers);
        drivers.map(|driver| driver.as_str().to_owned()).collect()
    }

    /// Returns the amounts that `claim` holds in the cluster.
    fn held(&self, claim: &Claim) -> Vec<(usize, i128)> {
        let devices = claim.object.allocation.iter().flat_map(|allocation| &allocation.devices);
        let held = devices.filter_map(|held| {
            let name = (held.driver.clone(), held.pool.clone(), held.device.clone());
            Some(self.index.entries[self.index.named(&name)?].held(&held.consumed))
        });
        held.flatten().collect()
    }

    /// Returns the requirements that `candidate` may get where the devices of those `claims` are that have
    /// some, best first, and the claims that have none.
    fn ways(
        &self,
        ledger: &Ledger,
        claims: &[ClaimId],
        spot: &Spot,
        place: &Place<'_>,
    ) -> Result<(Vec<Requirements>, Vec<ClaimId>), Refusal> {
        let mut ways = vec![match place {
            Place::Machine { .. } => Requirements::new(),
            Place::Launch { requirements, .. } => (*requirements).clone(),
        }];
        let mut fresh = Vec::new();
        for id in claims {
            let claim = &self.claims[id.0].object;
            if let Some(served) = ledger.served.get(id) {
                if served.spot == *spot {
                    continue;
                }
                if !served.local {
                    let wanted: Vec<Requirement> = served.requirements.iter().cloned().collect();
                    ways.retain_mut(|way| match place.meet(way, &wanted, self.registry) {
                        Some(narrowed) => {
                            *way = narrowed;
                            true
                        }
                        None => false,
                    });
                }
                if served.local || ways.is_empty() {
                    return Err(Refusal::Elsewhere(claim.key.clone()));
                }
                continue;
            }
            let Some(allocation) = claim.allocation.as_ref().filter(|_| !ledger.released.contains(id)) else {
                fresh.push(*id);
                continue;
            };
            let Some(places) = &allocation.places else { continue };
            let narrowed = ways
                .iter()
                .flat_map(|way| places.iter().filter_map(|term| place.narrow(way, term, self.registry)));
            ways = narrowed.take(MOST_WAYS).collect();
            if ways.is_empty() {
                return Err(Refusal::Elsewhere(claim.key.clone()));
            }
        }
        Ok((ways, fresh))
    }

    fn proposal(
        &self,
        (spot, kinds): (&Spot, &[Option<(&PoolName, &InstanceTypeName)>]),
        requirements: Requirements,
        survivors: Vec<(usize, Vec<Choice<'_>>)>,
        fresh: &[ClaimId],
    ) -> Proposal {
        let mut served: BTreeMap<ClaimId, Served> = BTreeMap::new();
        for claim in fresh {
            let nothing = Served { spot: spot.clone(), local: false, requirements: Requirements::new() };
            served.insert(*claim, nothing);
        }
        let types = survivors.iter().map(|(number, _)| *number).collect();
        let mut taken = Vec::with_capacity(survivors.len());
        for (number, choices) in survivors {
            let mut share = Share::default();
            for Choice { claim, request, device, uses, term, local, promised } in choices {
                for (meter, amount) in uses {
                    let total: &mut i128 = share.meters.entry(meter).or_insert(0);
                    *total = total.saturating_add(amount);
                }
                share.devices.push((claim, request.clone(), device));
                if promised {
                    share.drivers.insert(self.index.entries[device].driver.clone());
                }
                if let Some(served) = served.get_mut(&claim) {
                    served.local |= local;
                    let narrowed = term.iter().flat_map(|term| &term.expressions);
                    narrowed
                        .for_each(|wanted| served.requirements.add(Requirement::new(self.registry, wanted)));
                }
            }
            taken.push((kinds[number].map(|(_, name)| name.clone()), share));
        }
        Proposal { spot: spot.clone(), requirements, types, taken, served: served.into_iter().collect() }
    }

    /// Returns the devices taken on `spot`, by type: the claim and the device with the driver and pool it is from;
    /// `None` for a machine whose devices are published.
    pub fn taken<'s>(
        &'s self,
        ledger: &'s Ledger,
        spot: &Spot,
    ) -> impl Iterator<Item = (Option<&'s InstanceTypeName>, &'s ResourceClaimKey, DeviceRef<'s>)> {
        ledger.shares(spot).flat_map(move |(kind, share)| {
            share.devices.iter().map(move |(claim, request, device)| {
                (kind.as_ref(), &self.claims[claim.0].object.key, self.device(*device, request))
            })
        })
    }

    fn device<'s>(&'s self, id: DeviceId, request: &'s DeviceRequestName) -> DeviceRef<'s> {
        let entry = &self.index.entries[id];
        DeviceRef {
            driver: &entry.driver,
            pool: &entry.pool,
            device: &entry.device,
            promised: entry.promised,
            request,
        }
    }
}

impl Place<'_> {
    /// Returns whether the type at position `number` would do with `requirements`, devices aside.
    pub(crate) fn suits(&mut self, number: usize, requirements: &Requirements) -> bool {
        match self {
            Self::Machine { .. } => true,
            Self::Launch { suits, .. } => suits(number, requirements),
        }
    }

    /// Returns the requirements narrowed to `term`, if they can be: `requirements` are those of a machine to be launched.
    pub(crate) fn narrow(
        &self,
        requirements: &Requirements,
        term: &PlaceTerm,
        registry: &LabelRegistry,
    ) -> Option<Requirements> {
        let named = match (&term.names, self) {
            (None, _) => true,
            (Some(names), Self::Machine { name: Some(name), .. }) => names.contains(name),
            (Some(_), _) => false,
        };
        if term.unsupported || !named {
            return None;
        }
        let wanted: Vec<Requirement> =
            term.expressions.iter().map(|expression| Requirement::new(registry, expression)).collect();
        self.meet(requirements, &wanted, registry)
    }

    /// Returns the requirements narrowed to `wanted`, if they can be.
    fn meet(
        &self,
        requirements: &Requirements,
        wanted: &[Requirement],
        registry: &LabelRegistry,
    ) -> Option<Requirements> {
        let mut met = requirements.clone();
        match self {
            Self::Machine { satisfies, .. } => wanted.iter().all(satisfies).then_some(met),
            Self::Launch { .. } => {
                for requirement in wanted {
                    let alone = Requirements::from_iter([requirement.clone()]);
                    met.compatible(&alone, Undefined::WellKnown(registry)).ok()?;
                    met.add(requirement.clone());
                }
                Some(met)
            }
        }
    }
}
