//! Machines with units on them, while units move: what is on each, what it costs, and a way back.
//!
//! A load costs as much as the cheapest machine that holds its units. [`Loads::put`] looks that machine up; after
//! [`Loads::take_off`] the price stays until [`Loads::reprice`], because several units are taken off before it matters.
//! Whatever is put on or taken off is logged, and can be undone, until [`Loads::keep`].

use super::super::packing::{Machine, fits};
use crate::index::{Ix, IxVec, LoadIx, MachineIx, ProfileIx, UnitIx};
use crate::place::topology::{Tally, Topology, Turn};

/// Bits of a share of all that is requested.
const SHARE_BITS: u32 = 20;
/// Largest rounding error of a sum of shares, each of which is rounded down.
const ROUNDED: i64 = 16;

/// Pods that move together.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// Kind of the pods, below [`super::super::packing::MOST_KINDS`].
    pub(crate) kind: usize,
    /// Sum of their requests, by resource.
    pub(crate) amounts: Vec<i64>,
    /// Profiles of the pods, one by one.
    pub(crate) profiles: Vec<ProfileIx>,
    pub(crate) turn: Turn,
}

/// Machines with units on them.
pub(crate) struct Loads<'l> {
    units: &'l IxVec<UnitIx, Unit>,
    /// Machines that can be launched, the cheapest first.
    machines: &'l IxVec<MachineIx, Machine>,
    topology: &'l Topology,
    /// Sum of the requests of all units.
    total: Vec<i64>,
    worth: IxVec<UnitIx, Worth>,
    all: IxVec<LoadIx, Load>,
    /// Sum of the prices of all loads.
    price: i64,
    log: Vec<Change>,
}

/// Numbers of a unit that can be compared.
struct Worth {
    /// Share of the unit in everything that is requested.
    share: i64,
    /// Price of a machine of its own.
    price_alone: i64,
}

/// The units of one machine.
struct Load {
    units: Vec<UnitIx>,
    /// Sum of the requests of the units.
    amounts: Vec<i64>,
    /// Number of units of each kind.
    kinds: Vec<usize>,
    fit: Fit,
    /// The share of everything that there is room for, on the largest machine of the fit.
    left: i64,
    /// Units whose turn it is until each turn, by the rules about hosts that count them.
    tallies: [Tally; Turn::ALL.len()],
}

/// The machines a load needs; of no meaning for a load without units.
#[derive(Debug, Clone, Copy)]
struct Fit {
    /// The cheapest that holds it.
    cheapest: MachineIx,
    /// The largest that holds it and costs no more.
    largest: MachineIx,
}

/// A unit that was put on a load or taken off it.
struct Change {
    load: LoadIx,
    unit: UnitIx,
    kind: ChangeKind,
    /// Fit of the load before the change.
    fit: Fit,
}

#[derive(Clone, Copy)]
enum ChangeKind {
    Put,
    TakenOff,
}

/// A point in the log of changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

impl<'l> Loads<'l> {
    /// `units` on machines as `placed` has them; `None` where one of these is not for sale. `machines` are sorted by price.
    pub(crate) fn new(
        units: &'l IxVec<UnitIx, Unit>,
        machines: &'l IxVec<MachineIx, Machine>,
        topology: &'l Topology,
        placed: impl IntoIterator<Item = Vec<UnitIx>>,
    ) -> Option<Self> {
        let (worth, all, log) = Default::default();
        let total = total(units);
        let mut loads = Self { units, machines, topology, total, worth, all, price: 0, log };
        let worth: Option<Vec<Worth>> = units.iter().map(|unit| loads.worth_of(unit)).collect();
        loads.worth = worth?.into();
        let kinds = units.iter().map(|unit| unit.kind + 1).max().unwrap_or(0);
        for units in placed {
            let load = loads.all.push(Load::empty(loads.total.len(), kinds));
            for unit in units {
                loads.enter(load, unit);
            }
            loads.reprice(load).then_some(())?;
        }
        Some(loads)
    }

    /// Returns the price of all loads.
    pub(crate) fn price(&self) -> i64 {
        self.price
    }

    /// The units of each load that has some, in their order.
    pub(crate) fn placed(self) -> impl Iterator<Item = Vec<UnitIx>> {
        let used = self.all.into_iter().filter(|load| !load.units.is_empty());
        used.map(|mut load| {
            load.units.sort_unstable();
            load.units
        })
    }

    /// All loads, also those without units.
    pub(super) fn positions(&self) -> impl ExactSizeIterator<Item = LoadIx> + use<> {
        self.all.positions()
    }

    /// The unit at `unit`.
    pub(super) fn unit(&self, unit: UnitIx) -> &'l Unit {
        &self.units[unit]
    }

    /// The share of everything that `unit` requests.
    pub(super) fn share_of(&self, unit: UnitIx) -> i64 {
        self.worth[unit].share
    }

    /// Returns the price of `unit` on a machine of its own.
    pub(super) fn price_alone(&self, unit: UnitIx) -> i64 {
        self.worth[unit].price_alone
    }

    /// The units of `load`, in the order in which they came.
    pub(super) fn on(&self, load: LoadIx) -> &[UnitIx] {
        &self.all[load].units
    }

    /// A bit for each kind of units of `load`.
    pub(super) fn kinds(&self, load: LoadIx) -> u64 {
        self.all[load].kinds.iter().rev().fold(0, |bits, count| bits << 1 | u64::from(*count > 0))
    }

    /// The share of everything that `load` has room for at its price.
    pub(super) fn left(&self, load: LoadIx) -> i64 {
        self.all[load].left
    }

    /// Returns the price of `load`; zero without units.
    pub(super) fn price_of(&self, load: LoadIx) -> i64 {
        let Load { units, fit, .. } = &self.all[load];
        if units.is_empty() { 0 } else { self.machines[fit.cheapest].price }
    }

    /// Returns the price of `load` with `unit`; `None` where no machine would hold both.
    pub(super) fn price_with(&self, load: LoadIx, unit: UnitIx) -> Option<i64> {
        let sum: Vec<i64> = self.sums(load, unit).collect();
        let machine = self.cheapest(self.kinds_with(load, unit), &sum)?;
        Some(self.machines[machine].price)
    }

    /// Machines that cost less than `load`, the cheapest first.
    pub(super) fn cheaper(&self, load: LoadIx) -> impl Iterator<Item = &'l Machine> + use<'l> {
        let price = self.price_of(load);
        self.machines.iter().take_while(move |machine| machine.price < price)
    }

    /// Returns whether `load`, which has units, has room for `unit` at its price.
    pub(super) fn has_room(&self, load: LoadIx, unit: UnitIx) -> bool {
        let Load { units, kinds, fit, left, .. } = &self.all[load];
        // The share is quickly compared, and rules most machines out.
        if units.is_empty() || left + ROUNDED < self.share_of(unit) {
            return false;
        }
        let holds =
            |machine: &Machine| self.sums(load, unit).zip(&machine.room).all(|(sum, room)| sum <= *room);
        if kinds[self.units[unit].kind] > 0 {
            // The kinds stay what they are, so the largest machine of this price is known.
            return holds(&self.machines[fit.largest]);
        }
        let kinds = self.kinds_with(load, unit);
        self.affordable(load).any(|machine| machine.is_for(kinds) && holds(machine))
    }

    /// Returns whether rules about hosts let `unit` join `load` when its turn comes.
    pub(super) fn admits(&self, load: LoadIx, unit: UnitIx) -> bool {
        let Unit { profiles, turn, .. } = &self.units[unit];
        let tally = &self.all[load].tallies[turn.position()];
        profiles.iter().all(|id| self.topology.may_join(*id, tally))
    }

    /// Returns the amounts that would have to leave `load` so that it has room for `unit` at its price, by resource; not
    /// above zero where there is enough. `None` where no machine of that price is for both.
    pub(super) fn missing(&self, load: LoadIx, unit: UnitIx) -> Option<Vec<i64>> {
        let kinds = self.kinds_with(load, unit);
        let machines = self.affordable(load).filter(|machine| machine.is_for(kinds));
        let largest = machines.max_by_key(|machine| self.share(&machine.room))?;
        Some(self.sums(load, unit).zip(&largest.room).map(|(sum, room)| sum - room).collect())
    }

    /// Puts `unit` on `load`, at the price of the cheapest machine that holds it then; returns whether there is one.
    pub(super) fn put(&mut self, load: LoadIx, unit: UnitIx) -> bool {
        self.log.push(Change { load, unit, kind: ChangeKind::Put, fit: self.all[load].fit });
        self.enter(load, unit);
        self.reprice(load)
    }

    /// Takes `unit` off `load`, the price of which stays until [`Self::reprice`].
    pub(super) fn take_off(&mut self, load: LoadIx, unit: UnitIx) {
        self.log.push(Change { load, unit, kind: ChangeKind::TakenOff, fit: self.all[load].fit });
        self.leave(load, unit);
    }

    /// Looks up what `load` costs with what is on it; returns whether there is a machine for that.
    pub(super) fn reprice(&mut self, load: LoadIx) -> bool {
        let Some(fit) = self.fit(load) else { return false };
        self.set_fit(load, fit);
        true
    }

    /// The present point in the log, for [`Self::undo`].
    pub(super) fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Undoes what was changed since `mark`.
    pub(super) fn undo(&mut self, Mark(until): Mark) {
        while self.log.len() > until {
            let Some(Change { load, unit, kind, fit }) = self.log.pop() else { return };
            match kind {
                ChangeKind::Put => self.leave(load, unit),
                ChangeKind::TakenOff => self.enter(load, unit),
            }
            self.set_fit(load, fit);
        }
    }

    /// The loads on which something was changed since [`Self::keep`].
    pub(super) fn changed(&self) -> impl Iterator<Item = LoadIx> {
        self.log.iter().map(|change| change.load)
    }

    /// Keeps what was changed, for good.
    pub(super) fn keep(&mut self) {
        self.log.clear();
    }

    fn enter(&mut self, number: LoadIx, unit: UnitIx) {
        let (before, share) = (self.price_of(number), self.share_of(unit));
        let (load, Unit { kind, amounts, profiles, turn }) = (&mut self.all[number], &self.units[unit]);
        load.units.push(unit);
        load.kinds[*kind] += 1;
        load.left -= share;
        load.amounts.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        for tally in &mut load.tallies[turn.position()..] {
            for id in profiles {
                self.topology.count_on_host(*id, tally);
            }
        }
        self.price += self.price_of(number) - before;
    }

    fn leave(&mut self, number: LoadIx, unit: UnitIx) {
        let (before, share) = (self.price_of(number), self.share_of(unit));
        let (load, Unit { kind, amounts, profiles, turn }) = (&mut self.all[number], &self.units[unit]);
        load.units.retain(|one| *one != unit);
        load.kinds[*kind] -= 1;
        load.left += share;
        load.amounts.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum -= amount);
        for tally in &mut load.tallies[turn.position()..] {
            for id in profiles {
                self.topology.discount_on_host(*id, tally);
            }
        }
        self.price += self.price_of(number) - before;
    }

    /// The machines for what is on `load`.
    fn fit(&self, load: LoadIx) -> Option<Fit> {
        let Load { units, amounts, fit, .. } = &self.all[load];
        if units.is_empty() {
            // Without units the load costs nothing, whatever machine it had.
            return Some(*fit);
        }
        let kinds = self.kinds(load);
        let cheapest = self.cheapest(kinds, amounts)?;
        let price = self.machines[cheapest].price;
        let as_cheap = self.machines.enumerate().take_while(|(_, machine)| machine.price <= price);
        let holding = as_cheap.filter(|(_, machine)| machine.is_for(kinds) && fits(amounts, &machine.room));
        let (largest, _) = holding.max_by_key(|(_, machine)| self.share(&machine.room))?;
        Some(Fit { cheapest, largest })
    }

    fn set_fit(&mut self, load: LoadIx, fit: Fit) {
        let before = self.price_of(load);
        self.all[load].fit = fit;
        self.price += self.price_of(load) - before;
        let room = &self.machines[fit.largest].room;
        let free: Vec<i64> =
            room.iter().zip(&self.all[load].amounts).map(|(room, taken)| room - taken).collect();
        self.all[load].left = self.share(&free);
    }

    /// Machines that cost no more than `load`.
    fn affordable(&self, load: LoadIx) -> impl Iterator<Item = &'l Machine> + use<'l> {
        let price = self.price_of(load);
        self.machines.iter().take_while(move |machine| machine.price <= price)
    }

    /// The cheapest machine for these `kinds` with room for `amounts`.
    fn cheapest(&self, kinds: u64, amounts: &[i64]) -> Option<MachineIx> {
        let mut machines = self.machines.enumerate();
        machines
            .find(|(_, machine)| machine.is_for(kinds) && fits(amounts, &machine.room))
            .map(|(index, _)| index)
    }

    /// A bit for each kind that `load` would have with `unit`.
    fn kinds_with(&self, load: LoadIx, unit: UnitIx) -> u64 {
        self.kinds(load) | 1 << self.units[unit].kind
    }

    /// Returns the sum of the requests of `load` and `unit`, by resource.
    fn sums(&self, load: LoadIx, unit: UnitIx) -> impl Iterator<Item = i64> {
        self.all[load].amounts.iter().zip(&self.units[unit].amounts).map(|(taken, more)| taken + more)
    }

    /// `None` for a unit that no machine holds.
    fn worth_of(&self, unit: &Unit) -> Option<Worth> {
        let machine = self.cheapest(1 << unit.kind, &unit.amounts)?;
        Some(Worth { share: self.share(&unit.amounts), price_alone: self.machines[machine].price })
    }

    /// Returns the size of `amounts`, as the sum of the shares of each resource.
    fn share(&self, amounts: &[i64]) -> i64 {
        // A resource that nothing requests has a total of zero, and no share.
        let share = |(amount, total): (&i64, &i64)| (amount << SHARE_BITS).checked_div(*total).unwrap_or(0);
        amounts.iter().zip(&self.total).map(share).sum()
    }
}

impl Load {
    fn empty(resources: usize, kinds: usize) -> Self {
        let any = MachineIx::new(0);
        Self {
            units: Vec::new(),
            amounts: vec![0; resources],
            kinds: vec![0; kinds],
            fit: Fit { cheapest: any, largest: any },
            left: 0,
            tallies: Default::default(),
        }
    }
}

/// Returns the sum of the requests of all of `units`, by resource.
fn total(units: &IxVec<UnitIx, Unit>) -> Vec<i64> {
    let mut total = vec![0; units.iter().next().map_or(0, |unit| unit.amounts.len())];
    for unit in units.iter() {
        total.iter_mut().zip(&unit.amounts).for_each(|(total, amount)| *total += amount);
    }
    total
}
