//! State that changes as pods are placed: room on existing nodes, in-flight nodes and what they hold, counts, and
//! the places of pods.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_devices::Proposal;
use karpenter_model::{NodeId, Nomination, PodOutcome};

use super::caches::Caches;
use super::compiled::Compiled;
use crate::bits::Bits;
use crate::index::{InFlightIx, Ix, IxVec, LevelIx, PodIx, PoolIx, VolumeIx};
use crate::interning::InternedMap;
use crate::place::constraint::limits::Limits;
use crate::place::devices::Holdings;
use crate::place::existing::Existing;
use crate::place::in_flight::InFlightNode;
use crate::place::open_nodes::OpenNodes;
use crate::place::reservations::Reservations;
use crate::place::topology::Topology;

/// Places of pods so far, and the room they leave for others.
#[derive(Debug, Clone)]
pub(super) struct Filling<'a> {
    pub(super) existing: Existing<'a>,
    pub(super) topology: Topology,
    pub(super) in_flight: IxVec<InFlightIx, InFlightNode>,
    /// In-flight nodes that may take more pods.
    pub(super) open: OpenNodes,
    /// The first in-flight node of this pass; those before it are closed.
    pub(super) closed: InFlightIx,
    pub(super) reservations: Reservations,
    /// Devices that are taken; set where pods have claims for devices.
    pub(super) devices: Option<Holdings<'a>>,
    /// Resources that each pool may still add.
    pub(super) limits: IxVec<PoolIx, Limits>,
    /// Outcomes of the pods that were tried.
    pub(super) outcomes: InternedMap<PodIx, PodOutcome>,
    /// Pods that have a place.
    pub(super) placed: usize,
    /// Users of volumes that one pod at a time may use, among the pods that have a place.
    pub(super) users: BTreeMap<VolumeIx, PodIx>,
    /// Pods that are on an existing node, in the order they got there.
    pub(super) joined: Vec<(PodIx, NodeId)>,
    /// Nominations of these pods, as in the plan.
    pub(super) nominations: Vec<Nomination>,
    /// True if only pods with the same requirements share an in-flight node.
    pub(super) apart: bool,
}

/// Place of a pod.
#[derive(Debug, Clone, Copy)]
enum Place {
    None,
    Existing,
    /// On an in-flight node of a pool of this weight.
    InFlight {
        weight: i32,
    },
}

impl<'a> Filling<'a> {
    /// No pod has a place yet.
    pub(super) fn new(
        existing: Existing<'a>,
        topology: Topology,
        reservations: Reservations,
        devices: Option<Holdings<'a>>,
        limits: IxVec<PoolIx, Limits>,
    ) -> Self {
        let closed = InFlightIx::new(0);
        let (in_flight, open, outcomes, placed, users, joined, nominations) = Default::default();
        Self {
            existing,
            topology,
            in_flight,
            open,
            closed,
            reservations,
            devices,
            limits,
            outcomes,
            placed,
            users,
            joined,
            nominations,
            apart: false,
        }
    }

    /// The pod at `index` has got a place.
    pub(super) fn has_placed(&mut self, index: PodIx, compiled: &Compiled<'_>) {
        self.placed += 1;
        let volumes = compiled.exclusive.get(&index).into_iter().flatten();
        self.users.extend(volumes.map(|(volume, _)| (*volume, index)));
    }

    /// Number of in-flight nodes of this pass.
    pub(super) fn opened(&self) -> usize {
        self.in_flight.len() - self.closed.get()
    }

    /// Closes every in-flight node and forgets outcomes: the next pass is about other pods.
    pub(super) fn next_pass(&mut self) {
        self.closed = self.in_flight.end();
        self.open.close_all();
        self.joined.clear();
        self.outcomes.clear();
        self.nominations.clear();
    }

    /// Returns those of a queue of `pods` that have a place, and those of them that have it on an in-flight node.
    pub(super) fn whereabouts(&self, pods: usize) -> (Bits<PodIx>, Bits<PodIx>) {
        let (mut placed, mut launched) = (Bits::none(pods), Bits::none(pods));
        self.in_flight.iter().flat_map(|node| &node.pods).for_each(|pod| launched.insert(*pod));
        self.joined.iter().for_each(|(pod, _)| placed.insert(*pod));
        placed.unite(&launched);
        (placed, launched)
    }

    /// Returns whether no pod is worse off than by `before`: each that had a place has one, and none is in a lighter pool,
    /// because weights come before prices.
    pub(super) fn keeps(&self, before: &Self, compiled: &Compiled<'a>) -> bool {
        let (before, now) = (before.places(compiled), self.places(compiled));
        before.iter().zip(now.iter()).all(|pair| match pair {
            (Place::None, _) => true,
            (_, Place::None) => false,
            (Place::InFlight { weight: before }, Place::InFlight { weight: now }) => now >= before,
            // A node that exists is in no pool's way.
            (Place::Existing, _) | (_, Place::Existing) => true,
        })
    }

    /// Returns the place of each pod of the queue.
    fn places(&self, compiled: &Compiled<'a>) -> IxVec<PodIx, Place> {
        let mut places = IxVec::filled(Place::None, compiled.queue.len());
        for (pod, _) in &self.joined {
            places[*pod] = Place::Existing;
        }
        for node in self.in_flight.iter() {
            let weight = compiled.pools.spaces[node.pool].pool.weight;
            node.pods.iter().for_each(|pod| places[*pod] = Place::InFlight { weight });
        }
        places
    }

    /// Gives in-flight node `number` the devices of the pod that has just joined, and releases those of instance types
    /// that are ruled out now.
    pub(super) fn equip(
        &mut self,
        number: InFlightIx,
        proposal: Option<Proposal>,
        compiled: &Compiled<'a>,
        caches: &Caches<'a>,
    ) {
        let Some(devices) = &mut self.devices else { return };
        let node = &mut self.in_flight[number];
        if let Some(proposal) = proposal {
            devices.commit(proposal);
            node.devices = Some(number);
        }
        if let Some(held) = node.devices {
            let catalogue = &caches.catalogues[compiled.pools.spaces[node.pool].catalogue];
            let variants =
                node.state.variants.iter().map(|variant| &catalogue.variant(variant).instance_type.name);
            let names: BTreeSet<_> = variants.collect();
            devices.narrowed(held, |name| names.contains(name));
        }
    }

    /// Counts the pod that has just joined in-flight node `number` at `level`.
    pub(super) fn record(
        &mut self,
        number: InFlightIx,
        level: LevelIx,
        compiled: &Compiled<'a>,
        caches: &mut Caches<'a>,
    ) {
        if let Some(profile) = compiled.levels.profile(level) {
            let node = &self.in_flight[number];
            let requirements = caches.rules.whole(node.state.rules);
            let space = &compiled.pools.spaces[node.pool];
            let registry = caches.rules.registry();
            self.topology.record_in_flight(profile, number, &requirements, space, registry);
        }
    }

    /// Decides which reservations the in-flight nodes of this pass name.
    pub(super) fn settle_reservations(&mut self) {
        let mut settled = self.reservations.settled();
        for number in self.in_flight.positions_from(self.closed) {
            self.in_flight[number].state.reserved = settled.remove(&number).unwrap_or_default();
        }
    }
}
