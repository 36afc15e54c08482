//! Devices of pods with resource claims (spec scheduling 22.2): the allocator, and the holders of devices so far.
//!
//! A pass without such pods, or with claims ignored, has none of this.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_devices::{Allocator, Candidate, ClaimId, ComingUp, Counted, Ledger, Place, Proposal, Spot};
use karpenter_model::names::label;
use karpenter_model::report::ReasonCode;
use karpenter_model::{
    BinId, DeviceGrant, Devices, GrantPlace, GrantedDevice, InstanceTypeName, LabelRegistry, Node, NodeId,
    Pod, PodUid, PoolName, Quantity, Reason, Requirement, Requirements, ResourceClaim, ResourceClaimKey,
    ResourceName, Resources, Snapshot,
};

use crate::index::{InFlightIx, Ix};
use crate::node_labels;

/// Devices of a pass and their holders.
#[derive(Debug, Clone)]
pub(crate) struct Holdings<'a> {
    allocator: Arc<Allocator<'a>>,
    /// Claims that are yet to be made, by pod.
    to_make: Arc<BTreeMap<PodUid, Vec<ResourceClaimKey>>>,
    devices: &'a Devices,
    ledger: Ledger,
}

/// The ledger before a simulation.
pub(crate) type HeldBefore = Ledger;

impl<'a> Holdings<'a> {
    /// The devices of `snapshot` for `pods`, if any of these has claims; the flag is set for pods that would have to move.
    /// `asked` are the [resources](asked) of theirs that devices stand for.
    pub(crate) fn new<'p>(
        snapshot: &'a Snapshot,
        mut pods: impl Iterator<Item = (&'p Pod, bool)> + Clone,
        asked: &Resources,
    ) -> Option<Self> {
        if snapshot.settings.ignore_dra_requests
            || !pods.clone().any(|(pod, _)| cares(pod, &snapshot.devices))
        {
            return None;
        }
        let staying = || snapshot.nodes.iter().filter(|node| !node.is_leaving());
        // Slices of nodes that are still coming up may be incomplete: the templates of their types stand for
        // them (spec scheduling 22.2).
        let up = staying().filter(|node| node.initialized()).filter_map(|node| node.name.clone()).collect();
        let coming: Vec<ComingUp> = staying().filter_map(|node| coming_up(node)).collect();
        let made = pods.clone().map(|(pod, _)| (&pod.uid, pod.claims_to_make(&snapshot.devices)));
        let made: Vec<_> = made.filter(|(_, claims)| !claims.is_empty()).collect();
        let keys = |(uid, claims): &(&PodUid, Vec<ResourceClaim>)| {
            ((*uid).clone(), claims.iter().map(|claim| claim.key.clone()).collect())
        };
        let to_make = Arc::new(made.iter().map(keys).collect());
        let claims = made.into_iter().flat_map(|(_, claims)| claims).collect();
        let made = (claims, counted(snapshot, asked));
        let allocator = Allocator::new(&snapshot.devices, &up, made, &snapshot.registry);
        // Pods of nodes that go: a device that only they use is free again (spec scheduling 22.2).
        let leaving = pods.by_ref().filter(|(pod, moves)| !moves && pod.node_name.is_some());
        let ledger = allocator.ledger(leaving.map(|(pod, _)| pod.uid.clone()), &coming);
        Some(Self { allocator: Arc::new(allocator), to_make, devices: &snapshot.devices, ledger })
    }

    /// The claims of `pod`, or why they cannot be served anywhere.
    pub(crate) fn claims_of(&self, pod: &Pod) -> Result<Vec<ClaimId>, Reason> {
        let to_make = self.to_make.get(&pod.uid).map(Vec::as_slice).unwrap_or_default();
        let claims = self.allocator.claims_of(pod, to_make);
        claims.map_err(|refusal| Reason::new(ReasonCode::InvalidClaim, refusal))
    }

    /// Returns whether claims will be made for `pod` alone.
    pub(crate) fn makes_claims_for(&self, pod: &Pod) -> bool {
        self.to_make.contains_key(&pod.uid)
    }

    /// Returns those of `requests` that a machine with `amounts` serves without devices.
    pub(crate) fn counted(&self, requests: &Resources, amounts: &Resources) -> Resources {
        self.devices.counted(requests, amounts)
    }

    /// Grows whenever something becomes possible that was not.
    pub(crate) fn version(&self) -> u64 {
        self.ledger.version()
    }

    /// Serves `claims` on `node`; returns whether that can be done.
    pub(crate) fn join(&mut self, node: &Node, claims: &[ClaimId], registry: &LabelRegistry) -> bool {
        let satisfies = |asked: &Requirement| node_labels::satisfies(node, asked, registry);
        let allocatable = node.effective_allocatable();
        let counts = |resource: &ResourceName| allocatable.amount(resource.as_str()) > Quantity::ZERO;
        let place = Place::Machine { name: node.name.as_ref(), satisfies: &satisfies, counts: &counts };
        let pool = node.pool().unwrap_or_default();
        let kinds = if node.initialized() { Vec::new() } else { kinds(node) };
        // A node that is up publishes its devices itself, so no type stands for them.
        let types = if kinds.is_empty() {
            vec![None]
        } else {
            kinds.iter().map(|kind| Some((&pool, kind))).collect()
        };
        let possible = types.len();
        let candidate = Candidate { spot: Spot::Machine(node.id.clone()), place, types };
        match self.allocator.allocate(&self.ledger, claims, candidate) {
            // Whatever it turns out to be must do.
            Ok(proposal) if proposal.types.len() == possible => {
                self.allocator.commit(&mut self.ledger, proposal);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Proposes devices for `claims` on in-flight node `node` of `pool`, or on one that holds nothing yet;
    /// `suits` returns whether the type at a position among `types` would do with certain requirements.
    pub(crate) fn propose(
        &self,
        node: Option<InFlightIx>,
        claims: &[ClaimId],
        (pool, types): (&PoolName, &[&InstanceTypeName]),
        requirements: &Requirements,
        suits: &mut dyn FnMut(usize, &Requirements) -> bool,
    ) -> Result<Proposal, Reason> {
        let place = Place::Launch { requirements, suits };
        let types = types.iter().map(|name| Some((pool, *name))).collect();
        // No in-flight node has this number, so nothing is held under it.
        let candidate = Candidate { spot: node.map_or(Spot::Launch(usize::MAX), launch), place, types };
        let proposal = self.allocator.allocate(&self.ledger, claims, candidate);
        proposal.map_err(|refusal| Reason::new(ReasonCode::Devices, refusal))
    }

    /// Takes the devices of `proposal`.
    pub(crate) fn commit(&mut self, proposal: Proposal) {
        self.allocator.commit(&mut self.ledger, proposal);
    }

    /// Limits in-flight node `number` to the types that `stays` accepts.
    pub(crate) fn narrowed(&mut self, number: InFlightIx, stays: impl Fn(&InstanceTypeName) -> bool) {
        self.ledger.keep(&launch(number), stays);
    }

    /// `node` is gone, and `leaving` have to move.
    pub(crate) fn evacuate(&mut self, node: &Node, leaving: impl Iterator<Item = PodUid>) {
        self.ledger.vacate(&Spot::Machine(node.id.clone()));
        self.allocator.evacuate(&mut self.ledger, node.name.as_ref(), leaving);
    }

    /// The ledger, to be put back by [`Self::restore`].
    pub(crate) fn before(&self) -> HeldBefore {
        self.ledger.clone()
    }

    /// Undoes every change since `before`.
    pub(crate) fn restore(&mut self, before: HeldBefore) {
        self.ledger = before;
    }

    /// Drivers a node from in-flight node `number` has to wait for, as the annotation lists them; `None`
    /// if no driver is required.
    pub(crate) fn drivers(&self, number: InFlightIx) -> Option<String> {
        let drivers = self.allocator.drivers(&self.ledger, &launch(number));
        (!drivers.is_empty()).then(|| drivers.into_iter().collect::<Vec<_>>().join(","))
    }

    /// Returns the devices taken on node `node`; of one that may yet be of several types, those of the first.
    pub(crate) fn granted_on(&self, node: &NodeId) -> Vec<DeviceGrant> {
        let spot = Spot::Machine(node.clone());
        let first = self.allocator.taken(&self.ledger, &spot).next().map(|(kind, _, _)| kind.cloned());
        self.grants(&spot, |kind| (first == Some(kind.cloned())).then(|| GrantPlace::Machine(node.clone())))
    }

    /// Returns the devices taken by in-flight node `number`, which is claim `id` of the plan.
    pub(crate) fn granted_by(&self, number: InFlightIx, id: BinId) -> Vec<DeviceGrant> {
        self.grants(&launch(number), |kind| Some(GrantPlace::Launch(id, kind?.clone())))
    }

    fn grants(
        &self,
        spot: &Spot,
        place: impl Fn(Option<&InstanceTypeName>) -> Option<GrantPlace>,
    ) -> Vec<DeviceGrant> {
        let mut grants: Vec<DeviceGrant> = Vec::new();
        for (kind, claim, device) in self.allocator.taken(&self.ledger, spot) {
            let Some(place) = place(kind) else { continue };
            let granted = GrantedDevice {
                request: device.request.clone(),
                driver: device.driver.clone(),
                pool: device.pool.clone(),
                device: device.device.name.clone(),
                promised: device.promised,
            };
            match grants.iter_mut().find(|grant| grant.claim == *claim && grant.place == place) {
                Some(grant) => grant.devices.push(granted),
                None => grants.push(DeviceGrant { claim: claim.clone(), place, devices: vec![granted] }),
            }
        }
        grants.sort();
        grants
    }
}

/// Returns the name of an in-flight node in the ledger of devices.
fn launch(node: InFlightIx) -> Spot {
    Spot::Launch(node.get())
}

/// Returns whether devices matter to `pod`.
fn cares(pod: &Pod, devices: &Devices) -> bool {
    !pod.resource_claims.is_empty()
        || !pod.claim_templates.is_empty()
        || devices.classes_for(&pod.requests).next().is_some()
}

/// Resources that `pods` ask for and that devices stand for on nodes without them.
pub(crate) fn asked<'p>(devices: &Devices, pods: impl Iterator<Item = &'p Pod>) -> Resources {
    let mut asked = Resources::new();
    for pod in pods {
        for (name, _, quantity) in devices.classes_for(&pod.requests) {
            asked.set(name.as_str(), quantity);
        }
    }
    asked
}

/// Those of the resources `asked` for that machines of each type have.
fn counted(snapshot: &Snapshot, asked: &Resources) -> Counted {
    if asked.is_empty() {
        return Counted::new();
    }
    let types =
        snapshot.instance_types.iter().flat_map(|(pool, types)| types.iter().map(move |kind| (pool, kind)));
    let of_type = types.map(|(pool, kind)| {
        let allocatable = kind.allocatable();
        let has = |(name, _): &(&ResourceName, _)| allocatable.amount(name.as_str()) > Quantity::ZERO;
        let counted = asked.iter().filter(has).map(|(name, _)| name.clone()).collect();
        ((pool.clone(), kind.name.clone()), counted)
    });
    of_type.collect()
}

/// A node that is coming up, where it is registered.
fn coming_up(node: &Node) -> Option<ComingUp> {
    let name = node.name.clone().filter(|_| !node.initialized())?;
    let pool = node.pool().unwrap_or_default();
    let types = kinds(node).into_iter().map(|kind| (pool.clone(), kind)).collect();
    Some(ComingUp { spot: Spot::Machine(node.id.clone()), name, types })
}

/// Returns the instance types that `node`, which is coming up, may turn out to have.
fn kinds(node: &Node) -> Vec<InstanceTypeName> {
    if let Some(kind) = node.instance_type() {
        return vec![kind];
    }
    let promised = node.unlaunched().and_then(|claim| claim.requirements.get(label::INSTANCE_TYPE));
    let values = promised.and_then(Requirement::concrete);
    values.into_iter().flatten().map(karpenter_model::LabelValue::name).collect()
}
