//! Sums over machines: of the whole cluster, and of each pool.

use karpenter_model::{Price, Quantity};

use crate::machine::{Machine, Phase};

/// Sums over some machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) machines: usize,
    phases: [usize; Phase::ALL.len()],
    pub(crate) pods: usize,
    /// Price per hour, of those whose price is known.
    pub(crate) price: Price,
    /// Machines that have an instance and no price.
    pub(crate) unpriced: usize,
    /// Requests, in the order of the resources shown.
    pub(crate) requested: Vec<Quantity>,
    pub(crate) allocatable: Vec<Quantity>,
}

impl Totals {
    /// The sums over `machines`.
    pub(crate) fn of<'a, 'b: 'a>(machines: impl IntoIterator<Item = &'a Machine<'b>>) -> Self {
        let mut totals = Self::default();
        for machine in machines {
            totals.add(machine);
        }
        totals
    }

    /// Price per hour of those whose price is known; `None` when there are others alone.
    pub(crate) fn known_price(&self) -> Option<Price> {
        Some(self.price).filter(|price| self.unpriced == 0 || *price != Price::ZERO)
    }

    pub(crate) fn add(&mut self, machine: &Machine<'_>) {
        self.machines += 1;
        self.phases[machine.state.phase as usize] += 1;
        self.pods += machine.pods;
        match machine.price {
            Some(price) if machine.is_launched() => self.price = self.price.saturating_add(price),
            None if machine.is_launched() => self.unpriced += 1,
            _ => {}
        }
        if machine.node.is_some() {
            // Requests that a claim was made for come from pods that have no node yet.
            add(&mut self.requested, machine.requested);
            add(&mut self.allocatable, machine.allocatable);
        }
    }

    /// Returns the number of machines in each phase that has any, in the order of a life.
    pub(crate) fn by_phase(&self) -> impl Iterator<Item = (Phase, usize)> {
        Phase::ALL
            .into_iter()
            .map(|phase| (phase, self.phases[phase as usize]))
            .filter(|(_, count)| *count > 0)
    }
}

fn add(sums: &mut Vec<Quantity>, amounts: &[Quantity]) {
    if sums.len() < amounts.len() {
        sums.resize(amounts.len(), Quantity::ZERO);
    }
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        *sum = sum.saturating_add(*amount);
    }
}
