//! Undo log: what a simulation changes of the filling, and how it is undone.
//!
//! Existing nodes and topology log single changes; the rest is small enough to be copied before a simulation, and only
//! where it can change.

use std::collections::BTreeMap;

use super::filling::Filling;
use crate::index::{InFlightIx, NodeIx, PodIx, PoolIx, VolumeIx};
use crate::place::constraint::limits::Limits;
use crate::place::devices::{HeldBefore, Holdings};
use crate::place::reservations::Reservations;

/// The filling before a simulation.
#[derive(Debug)]
pub(crate) struct Before {
    /// Nodes the simulation removes.
    pub(super) away: Vec<NodeIx>,
    limits: Vec<(PoolIx, Limits)>,
    reservations: Option<Reservations>,
    devices: Option<HeldBefore>,
    in_flight: InFlightIx,
    placed: usize,
    users: BTreeMap<VolumeIx, PodIx>,
}

impl Filling<'_> {
    /// The filling as it is, with no node removed yet.
    pub(super) fn before(&self) -> Before {
        let limits = self.limits.enumerate().filter(|(_, limits)| !limits.is_unlimited());
        Before {
            away: Vec::new(),
            limits: limits.map(|(pool, limits)| (pool, limits.clone())).collect(),
            reservations: (!self.reservations.is_empty()).then(|| self.reservations.clone()),
            devices: self.devices.as_ref().map(Holdings::before),
            in_flight: self.in_flight.end(),
            placed: self.placed,
            users: self.users.clone(),
        }
    }

    /// Makes the filling what it was `before`.
    pub(super) fn take_back(&mut self, before: Before) {
        self.existing.revert(&before.away);
        self.topology.revert();
        self.in_flight.truncate(before.in_flight);
        self.placed = before.placed;
        self.users = before.users;
        for (pool, limits) in before.limits {
            self.limits[pool] = limits;
        }
        if let Some(reservations) = before.reservations {
            self.reservations = reservations;
        }
        if let (Some(devices), Some(before)) = (&mut self.devices, before.devices) {
            devices.restore(before);
        }
    }
}
