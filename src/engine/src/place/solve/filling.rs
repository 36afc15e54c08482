//! What placing pods changes: room on existing machines, bins and what they hold, counts, and who is where.

use karpenter_devices::Proposal;
use karpenter_model::{NodeId, Nomination, PodOutcome};

use super::caches::Caches;
use super::compiled::Compiled;
use crate::bits::Bits;
use crate::interning::InternedMap;
use crate::place::ask::WantId;
use crate::place::constraint::limits::Limits;
use crate::place::devices::Holdings;
use crate::place::existing::Existing;
use crate::place::in_flight::Bin;
use crate::place::open_nodes::OpenBins;
use crate::place::reservations::Reservations;
use crate::place::topology::Topology;

/// Where pods are so far, and what that leaves for others.
#[derive(Debug, Clone)]
pub(super) struct Filling<'a> {
    pub(super) existing: Existing<'a>,
    pub(super) topology: Topology,
    pub(super) bins: Vec<Bin>,
    /// Those that may take more pods.
    pub(super) open: OpenBins,
    /// Number of bins of earlier passes; nobody joins those any more.
    pub(super) closed_bins: usize,
    pub(super) reservations: Reservations,
    /// Where pods have claims for devices.
    pub(super) devices: Option<Holdings<'a>>,
    /// What each pool may still add.
    pub(super) limits: Vec<Limits>,
    /// What became of the pods that were tried, by position in the queue.
    pub(super) outcomes: InternedMap<usize, PodOutcome>,
    /// Pods that have a place.
    pub(super) placed: usize,
    /// Those of them that are on an existing machine, in the order they got there.
    pub(super) homes: Vec<(usize, NodeId)>,
    /// The same as a plan says it.
    pub(super) nominations: Vec<Nomination>,
}

impl<'a> Filling<'a> {
    /// No pod has a place yet.
    pub(super) fn new(
        existing: Existing<'a>,
        topology: Topology,
        reservations: Reservations,
        devices: Option<Holdings<'a>>,
        limits: Vec<Limits>,
    ) -> Self {
        let (bins, open, closed_bins, outcomes, placed, homes, nominations) = Default::default();
        Self {
            existing,
            topology,
            bins,
            open,
            closed_bins,
            reservations,
            devices,
            limits,
            outcomes,
            placed,
            homes,
            nominations,
        }
    }

    /// Closes every bin and forgets what became of pods: the next pass tries others.
    pub(super) fn next_pass(&mut self) {
        self.closed_bins = self.bins.len();
        self.open.close_all();
        self.homes.clear();
        self.outcomes.clear();
        self.nominations.clear();
    }

    /// Pods that have a place, and those of them that have it on a new machine; by position in a queue of `pods`.
    pub(super) fn whereabouts(&self, pods: usize) -> (Bits, Bits) {
        let (mut placed, mut launched) = (Bits::none(pods), Bits::none(pods));
        self.bins.iter().flat_map(|bin| &bin.pods).for_each(|pod| launched.insert(*pod));
        self.homes.iter().for_each(|(pod, _)| placed.insert(*pod));
        placed.unite(&launched);
        (placed, launched)
    }

    /// Gives bin `number` the devices of the pod that has just joined, and takes back those of types it cannot be
    /// any more.
    pub(super) fn equip(
        &mut self,
        number: usize,
        proposal: Option<Proposal>,
        compiled: &Compiled<'a>,
        caches: &Caches<'a>,
    ) {
        let Some(devices) = &mut self.devices else { return };
        let bin = &mut self.bins[number];
        if let Some(proposal) = proposal {
            devices.commit(proposal);
            bin.devices = Some(number);
        }
        if let Some(held) = bin.devices {
            let catalogue = &caches.catalogues[compiled.pools.spaces[bin.pool].catalogue];
            let shapes = bin.state.shapes.iter().map(|shape| &catalogue.shape(shape).instance_type.name);
            let names: std::collections::BTreeSet<_> = shapes.collect();
            devices.narrowed(held, |name| names.contains(name));
        }
    }

    /// Counts the pod that has just joined bin `number`.
    pub(super) fn record(
        &mut self,
        number: usize,
        want: WantId,
        compiled: &Compiled<'a>,
        caches: &mut Caches<'a>,
    ) {
        if let Some(profile) = compiled.wants.profile(want) {
            let bin = &self.bins[number];
            let requirements = caches.rules.whole(bin.state.rules);
            let space = &compiled.pools.spaces[bin.pool];
            self.topology.record_bin(profile, number, &requirements, space, caches.rules.registry());
        }
    }

    /// Decides which reservations the bins of this pass name.
    pub(super) fn settle_reservations(&mut self) {
        let mut settled = self.reservations.settled();
        for (number, bin) in self.bins.iter_mut().enumerate().skip(self.closed_bins) {
            bin.state.reserved = settled.remove(&number).unwrap_or_default();
        }
    }
}
