//! Fuller machines: pods move into room that is paid for anyway, where the machine they leave becomes cheaper or needless.
//!
//! A plan whose pods keep others off their hosts has many machines, and rules leave room on most of them. Each machine is
//! compared with cheaper ones, and with none: what would not be on those moves to other machines, which stay as expensive
//! as they are. Where none has room, others may have to move on first; where that does not help either, the machine that
//! grows by least takes it, as long as all of it saves money. What saves most for the room it takes comes first. Two units
//! that keep others off, and so cannot share a machine, may be exchanged on the way.
//!
//! Like [patterns](super::packing) these are wishes, in whole numbers and without chance: pods are then placed by the code
//! that places every pod. Of rules about hosts only those are known that [`Topology::may_join`] knows.

use std::cmp::Reverse;

use super::packing::{Machine, fits};
use crate::index::ProfileIx;
use crate::place::topology::{Tally, Topology, Turn};

/// How often all machines are looked at.
const ROUNDS: usize = 8;
/// Looks at a machine for a unit, in all.
const MOST_LOOKS: usize = 3_000_000;
/// Machines with more units are not emptied: they are what is to be filled.
const MOST_UNITS: usize = 32;
/// Cheaper machines that a machine is compared with.
const MOST_CHEAPER: usize = 12;
/// Most units that leave a machine to make room for one.
const MOST_LEAVING: usize = 12;
/// Most units that are asked whether they can, for each that leaves.
const MOST_ASKED: usize = 24;
/// Bits of a share of all that is requested.
const SHARE_BITS: u32 = 20;
/// What a sum of shares may be too small by, because each is rounded down.
const ROUNDED: i64 = 16;

/// Pods that move together.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// Which kind of pods they are, below [`super::packing::MOST_KINDS`].
    pub(super) kind: usize,
    /// What they request, by resource.
    pub(super) amounts: Vec<i64>,
    /// What they are to others, one by one.
    pub(super) profiles: Vec<ProfileIx>,
    /// When they are tried.
    pub(super) turn: Turn,
}

/// Machines with units on them, while units move.
pub(super) struct Loads<'l> {
    units: &'l [Unit],
    /// The cheapest first.
    machines: &'l [Machine],
    topology: &'l Topology,
    /// What all units request together.
    total: Vec<i64>,
    /// By unit: the share of everything it is, and what it costs on a machine of its own.
    worth: Vec<(i64, i64)>,
    all: Vec<Load>,
    /// What all loads cost.
    price: i64,
    /// What was done since a choice was begun.
    steps: Vec<Step>,
    /// Looks that are left.
    looks: usize,
}

/// One machine with units.
#[derive(Debug, Clone)]
struct Load {
    units: Vec<usize>,
    amounts: Vec<i64>,
    /// By kind: how many units.
    kinds: Vec<usize>,
    /// The cheapest machine that holds them, and the largest that costs no more; without units the first.
    machines: (usize, usize),
    /// The share of everything that this has room for.
    left: i64,
    /// By turn: the units whose turn it is until then, by the rules about hosts that count them.
    tallies: [Tally; Turn::ALL.len()],
}

/// A unit came to a machine, or left it.
#[derive(Debug, Clone, Copy)]
struct Step {
    load: usize,
    unit: usize,
    came: bool,
    /// What the machine was before.
    machines: (usize, usize),
}

/// What would leave a machine for a cheaper one to be enough.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    load: usize,
    leaving: Vec<usize>,
    saving: i64,
    /// The share of everything that leaves.
    share: i64,
}

impl<'l> Loads<'l> {
    /// `units` on machines as `placed` has them; `None` where one of these is not for sale. `machines` are sorted by price.
    pub(super) fn new(
        units: &'l [Unit],
        machines: &'l [Machine],
        topology: &'l Topology,
        placed: impl IntoIterator<Item = Vec<usize>>,
    ) -> Option<Self> {
        let mut total = vec![0; units.first().map_or(0, |unit| unit.amounts.len())];
        for unit in units {
            total.iter_mut().zip(&unit.amounts).for_each(|(total, amount)| *total += amount);
        }
        let kinds = units.iter().map(|unit| unit.kind + 1).max().unwrap_or(0);
        let (worth, all, steps) = Default::default();
        let mut made =
            Self { units, machines, topology, total, worth, all, price: 0, steps, looks: MOST_LOOKS };
        let alone =
            |unit: &Unit| made.cheapest(1 << unit.kind, &unit.amounts).map(|number| machines[number].price);
        made.worth = units
            .iter()
            .map(|unit| Some((made.share(&unit.amounts), alone(unit)?)))
            .collect::<Option<_>>()?;
        for units in placed {
            let load = made.all.len();
            let amounts = vec![0; made.total.len()];
            let (machines, left, tallies) = Default::default();
            made.all.push(Load {
                units: Vec::new(),
                amounts,
                kinds: vec![0; kinds],
                machines,
                left,
                tallies,
            });
            for unit in units {
                made.count(load, unit, true);
            }
            let machines = made.priced(load)?;
            made.become_of(load, machines);
        }
        Some(made)
    }

    /// What all machines cost.
    pub(super) fn price(&self) -> i64 {
        self.price
    }

    /// The units of each machine that has some, in their order.
    pub(super) fn placed(self) -> impl Iterator<Item = Vec<usize>> {
        let used = self.all.into_iter().filter(|load| !load.units.is_empty());
        used.map(|mut load| {
            load.units.sort_unstable();
            load.units
        })
    }

    /// Moves units as long as that saves anything.
    pub(super) fn fill(&mut self) {
        for _ in 0..ROUNDS {
            let before = self.price;
            self.empty();
            self.exchange();
            if self.price == before || self.looks == 0 {
                break;
            }
        }
    }

    /// Lets units leave machines for room that is free elsewhere.
    fn empty(&mut self) {
        let mut choices: Vec<Choice> = (0..self.all.len()).flat_map(|load| self.choices(load)).collect();
        // What saves most for the room it takes.
        choices.sort_by(|a, b| {
            let worth =
                |one: &Choice, other: &Choice| i128::from(one.saving) * i128::from(other.share.max(1));
            worth(b, a)
                .cmp(&worth(a, b))
                .then_with(|| (a.load, a.leaving.len()).cmp(&(b.load, b.leaving.len())))
        });
        // A choice is about its machine as it was.
        let mut touched = vec![false; self.all.len()];
        for choice in choices {
            if !touched[choice.load] && self.carry_out(&choice) {
                self.steps.iter().for_each(|step| touched[step.load] = true);
            }
            self.steps.clear();
        }
    }

    /// What machine `number` could do without: for each cheaper machine what it would not hold, and all of it.
    fn choices(&self, number: usize) -> Vec<Choice> {
        let load = &self.all[number];
        if load.units.is_empty() || load.units.len() > MOST_UNITS {
            return Vec::new();
        }
        // Who keeps others off finds another place with most trouble, then what is large.
        let mut units = load.units.clone();
        units.sort_by_key(|unit| (self.units[*unit].turn != Turn::Last, Reverse(self.worth[*unit].0), *unit));
        let price = self.price_of(number);
        let choice = |leaving: Vec<usize>, cheaper: i64| {
            let share = leaving.iter().map(|unit| self.worth[*unit].0).sum();
            Choice { load: number, leaving, saving: price - cheaper, share }
        };
        let kinds = load.accepted();
        let cheaper = self.machines.iter().take_while(|machine| machine.price < price);
        let cheaper: Vec<&Machine> = cheaper.filter(|machine| machine.accepts & kinds != 0).collect();
        let mut choices = vec![choice(units.clone(), 0)];
        for machine in cheaper.iter().rev().take(MOST_CHEAPER) {
            let mut free = machine.room.clone();
            let leaving = units.iter().copied().filter(|unit| {
                let Unit { kind, amounts, .. } = &self.units[*unit];
                let stays = machine.is_for(1 << kind) && fits(amounts, &free);
                if stays {
                    free.iter_mut().zip(amounts).for_each(|(free, amount)| *free -= amount);
                }
                !stays
            });
            let leaving: Vec<usize> = leaving.collect();
            if leaving.len() < units.len() && choices.iter().all(|known| known.leaving != leaving) {
                choices.push(choice(leaving, machine.price));
            }
        }
        choices
    }

    /// Lets what would leave by `choice` find other machines, if that saves anything; whether it does.
    fn carry_out(&mut self, choice: &Choice) -> bool {
        let (before, began) = (self.price, self.steps.len());
        choice.leaving.iter().for_each(|unit| self.moves(choice.load, *unit, false));
        let saves = self.reprice(choice.load)
            && choice.leaving.iter().all(|unit| self.settle(*unit, choice.load) && self.price < before);
        if !saves {
            self.take_back(began);
        }
        saves
    }

    /// Puts `unit` on a machine other than `except`: one with room, one that others leave for one with room, or the one that
    /// becomes more expensive by least; whether it is on one.
    fn settle(&mut self, unit: usize, except: usize) -> bool {
        if let Some(number) = self.place_for(unit, &[except]) {
            return self.add(number, unit);
        }
        let filled = (0..self.all.len())
            .filter(|number| *number != except && self.all[*number].units.len() > MOST_UNITS);
        let filled: Vec<usize> = filled.collect();
        if filled.into_iter().any(|number| self.make_room(unit, number, except)) {
            return true;
        }
        self.least_growing(unit, except).is_some_and(|number| self.add(number, unit))
    }

    /// The machine whose room `unit` fills best of those that take it and stay as expensive as they are.
    fn place_for(&mut self, unit: usize, except: &[usize]) -> Option<usize> {
        self.looks = self.looks.saturating_sub(self.all.len());
        if self.looks == 0 {
            return None;
        }
        let takes = |number: &usize| !except.contains(number) && self.takes(*number, unit);
        (0..self.all.len()).filter(takes).min_by_key(|number| (self.all[*number].left, *number))
    }

    /// Whether machine `number` has room for `unit`, stays as expensive as it is with it, and may have it.
    fn takes(&self, number: usize, unit: usize) -> bool {
        let load = &self.all[number];
        if load.units.is_empty() || load.left + ROUNDED < self.worth[unit].0 {
            return false;
        }
        let Unit { kind, amounts, .. } = &self.units[unit];
        let room = |machine: &Machine| {
            load.amounts
                .iter()
                .zip(amounts)
                .zip(&machine.room)
                .all(|((taken, more), room)| taken + more <= *room)
        };
        let has_room = if load.kinds[*kind] > 0 {
            room(&self.machines[load.machines.1])
        } else {
            let kinds = load.accepted() | 1 << kind;
            self.affordable(number).any(|machine| machine.is_for(kinds) && room(machine))
        };
        has_room && self.admits(number, unit)
    }

    /// Whether rules about hosts let `unit` come to machine `number` when its turn comes.
    fn admits(&self, number: usize, unit: usize) -> bool {
        let unit = &self.units[unit];
        let tally = &self.all[number].tallies[unit.turn.position()];
        unit.profiles.iter().all(|id| self.topology.may_join(*id, tally))
    }

    /// Puts `unit` on machine `number`, from which some leave for others that are not `except`; whether it is there.
    fn make_room(&mut self, unit: usize, number: usize, except: usize) -> bool {
        let load = &self.all[number];
        let Unit { kind, amounts, .. } = &self.units[unit];
        let kinds = load.accepted() | 1 << kind;
        let machines = self.affordable(number).filter(|machine| machine.is_for(kinds));
        let Some(machine) = machines.max_by_key(|machine| self.share(&machine.room)) else { return false };
        if !self.admits(number, unit) {
            return false;
        }
        let sums = load.amounts.iter().zip(amounts).zip(&machine.room);
        let mut missing: Vec<i64> = sums.map(|((taken, more), room)| taken + more - room).collect();
        let others = load.units.iter().copied().filter(|other| self.units[*other].turn != Turn::Last);
        let mut others: Vec<usize> = others.collect();
        others.sort_by_key(|other| (self.worth[*other].0, *other));
        let (price, began) = (self.price_of(number), self.steps.len());
        for _ in 0..MOST_LEAVING {
            if missing.iter().all(|missing| *missing <= 0) {
                break;
            }
            // The smallest that is enough, or else the largest of those that have another place.
            let is_enough = |other: &&usize| fits(&missing, &self.units[**other].amounts);
            let (enough, less): (Vec<usize>, Vec<usize>) = others.iter().partition(is_enough);
            let mut asked = enough.into_iter().chain(less.into_iter().rev()).take(MOST_ASKED);
            let found = asked.find_map(|other| Some((other, self.place_for(other, &[except, number])?)));
            let Some((other, place)) = found else { break };
            self.moves(number, other, false);
            self.add(place, other);
            others.retain(|one| *one != other);
            missing
                .iter_mut()
                .zip(&self.units[other].amounts)
                .for_each(|(missing, amount)| *missing -= amount);
        }
        if missing.iter().all(|missing| *missing <= 0)
            && self.add(number, unit)
            && self.price_of(number) <= price
        {
            return true;
        }
        self.take_back(began);
        false
    }

    /// The machine that becomes more expensive by least if it takes `unit`.
    fn least_growing(&mut self, unit: usize, except: usize) -> Option<usize> {
        self.looks = self.looks.saturating_sub(self.all.len());
        let Unit { kind, amounts, .. } = &self.units[unit];
        let growing = (0..self.all.len()).filter_map(|number| {
            let load = &self.all[number];
            if number == except
                || load.units.is_empty()
                || load.units.len() > MOST_UNITS
                || !self.admits(number, unit)
            {
                return None;
            }
            let sum: Vec<i64> = load.amounts.iter().zip(amounts).map(|(taken, more)| taken + more).collect();
            let machine = self.cheapest(load.accepted() | 1 << kind, &sum)?;
            Some((self.machines[machine].price - self.price_of(number), number))
        });
        growing.min().map(|(_, number)| number)
    }

    /// Exchanges units that keep others off: one of a machine that is filled for one that costs more on a machine of its own.
    fn exchange(&mut self) {
        let keeping_off = (0..self.all.len())
            .flat_map(|number| self.all[number].units.iter().map(move |unit| (number, *unit)));
        let keeping_off = keeping_off.filter(|(_, unit)| self.units[*unit].turn == Turn::Last);
        let (filled, others): (Vec<_>, Vec<_>) =
            keeping_off.partition(|(number, _)| self.all[*number].units.len() > MOST_UNITS);
        for one in others {
            for other in &filled {
                let here = |(number, unit): (usize, usize)| self.all[number].units.contains(&unit);
                if self.worth[other.1].1 < self.worth[one.1].1
                    && here(one)
                    && here(*other)
                    && !self.exchange_with(one, *other)
                {
                    self.take_back(0);
                }
                self.steps.clear();
            }
        }
    }

    /// Exchanges two units on machines, the second of which stays as expensive as it is, if that saves anything; whether it
    /// does. If not, what was done has to be taken back.
    fn exchange_with(&mut self, (number, unit): (usize, usize), (filled, instead): (usize, usize)) -> bool {
        let before = self.price;
        self.moves(number, unit, false);
        self.moves(filled, instead, false);
        if !self.admits(number, instead) || !self.admits(filled, unit) {
            return false;
        }
        if !self.add(number, instead)
            || !(self.takes(filled, unit) && self.add(filled, unit) || self.make_room(unit, filled, number))
        {
            return false;
        }
        let mut choices = self.choices(number);
        choices.sort_by_key(|choice| Reverse(choice.saving));
        let _cheaper = choices.iter().any(|choice| self.carry_out(choice));
        self.price < before
    }

    /// Puts `unit` on machine `number`, at the price of the cheapest that holds it then; whether there is one.
    fn add(&mut self, number: usize, unit: usize) -> bool {
        self.moves(number, unit, true);
        self.reprice(number)
    }

    /// Lets `unit` come to machine `number` or leave it, whose price stays until [`Self::reprice`].
    fn moves(&mut self, number: usize, unit: usize, came: bool) {
        let machines = self.all[number].machines;
        self.steps.push(Step { load: number, unit, came, machines });
        self.count(number, unit, came);
    }

    /// What machine `number` costs with what is on it now; whether there is one.
    fn reprice(&mut self, number: usize) -> bool {
        let Some(machines) = self.priced(number) else { return false };
        self.become_of(number, machines);
        true
    }

    /// Undoes what was done after the first `began` steps.
    fn take_back(&mut self, began: usize) {
        while self.steps.len() > began {
            let Some(Step { load, unit, came, machines }) = self.steps.pop() else { return };
            self.count(load, unit, !came);
            self.become_of(load, machines);
        }
    }

    fn become_of(&mut self, number: usize, machines: (usize, usize)) {
        // Its price counts while units are on it, which `count` sees to.
        let before = self.price_of(number);
        self.all[number].machines = machines;
        self.price += self.price_of(number) - before;
        self.all[number].left = self.left(number);
    }

    fn count(&mut self, number: usize, unit: usize, comes: bool) {
        let before = self.price_of(number);
        let (load, what) = (&mut self.all[number], &self.units[unit]);
        if comes {
            load.units.push(unit);
            load.kinds[what.kind] += 1;
            load.left -= self.worth[unit].0;
        } else {
            load.units.retain(|one| *one != unit);
            load.kinds[what.kind] -= 1;
            load.left += self.worth[unit].0;
        }
        for (sum, amount) in load.amounts.iter_mut().zip(&what.amounts) {
            *sum += if comes { *amount } else { -amount };
        }
        for tally in &mut load.tallies[what.turn.position()..] {
            for id in &what.profiles {
                if comes {
                    self.topology.count_on_host(*id, tally);
                } else {
                    self.topology.discount_on_host(*id, tally);
                }
            }
        }
        self.price += self.price_of(number) - before;
    }

    /// What machine `number` costs; nothing without units.
    fn price_of(&self, number: usize) -> i64 {
        let load = &self.all[number];
        if load.units.is_empty() { 0 } else { self.machines[load.machines.0].price }
    }

    /// The cheapest machine for what is on machine `number`, and the largest of those that cost no more.
    fn priced(&self, number: usize) -> Option<(usize, usize)> {
        let load = &self.all[number];
        if load.units.is_empty() {
            return Some(load.machines);
        }
        let kinds = load.accepted();
        let cheapest = self.cheapest(kinds, &load.amounts)?;
        let price = self.machines[cheapest].price;
        let as_cheap = self.machines.iter().enumerate().take_while(|(_, machine)| machine.price <= price);
        let holding =
            as_cheap.filter(|(_, machine)| machine.is_for(kinds) && fits(&load.amounts, &machine.room));
        let largest = holding.max_by_key(|(_, machine)| self.share(&machine.room))?;
        Some((cheapest, largest.0))
    }

    /// The share of everything that machine `number` has room for.
    fn left(&self, number: usize) -> i64 {
        let load = &self.all[number];
        let room = &self.machines[load.machines.1].room;
        let free: Vec<i64> = room.iter().zip(&load.amounts).map(|(room, taken)| room - taken).collect();
        self.share(&free)
    }

    /// Machines that cost no more than machine `number`.
    fn affordable(&self, number: usize) -> impl Iterator<Item = &'l Machine> {
        let price = self.price_of(number);
        self.machines.iter().take_while(move |machine| machine.price <= price)
    }

    /// The cheapest machine for these `kinds` with room for `amounts`.
    fn cheapest(&self, kinds: u64, amounts: &[i64]) -> Option<usize> {
        self.machines.iter().position(|machine| machine.is_for(kinds) && fits(amounts, &machine.room))
    }

    /// How much of everything `amounts` are, as the sum of the shares of each resource.
    fn share(&self, amounts: &[i64]) -> i64 {
        let share = |(amount, total): (&i64, &i64)| (amount << SHARE_BITS).checked_div(*total).unwrap_or(0);
        amounts.iter().zip(&self.total).map(share).sum()
    }
}

impl Load {
    /// A bit for each kind that is on it.
    fn accepted(&self) -> u64 {
        self.kinds.iter().rev().fold(0, |bits, count| bits << 1 | u64::from(*count > 0))
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn unit(amounts: [i64; 2], turn: Turn) -> Unit {
        Unit { kind: 0, amounts: amounts.to_vec(), profiles: Vec::new(), turn }
    }

    fn machine(room: [i64; 2], price: i64) -> Machine {
        Machine { room: room.to_vec(), price, accepts: 1 }
    }

    /// The price and the units of each machine after all moves.
    fn filled(units: &[Unit], machines: &[Machine], placed: &[Vec<usize>]) -> (i64, Vec<Vec<usize>>) {
        let topology = Topology::default();
        let mut loads =
            Loads::new(units, machines, &topology, placed.to_vec()).expect("every machine is for sale");
        loads.fill();
        (loads.price(), loads.placed().collect())
    }

    #[test]
    fn a_machine_whose_units_have_room_elsewhere_is_needless() {
        let units = [unit([6, 1], Turn::Then), unit([2, 1], Turn::Then), unit([2, 1], Turn::Then)];
        let machines = [machine([4, 4], 40), machine([10, 10], 100)];
        assert_eq!(filled(&units, &machines, &[vec![0], vec![1, 2]]), (100, vec![vec![0, 1, 2]]));
    }

    #[test]
    fn a_machine_that_loses_one_unit_may_be_a_cheaper_one() {
        // The first has room for one of the units of the second, which is enough for the cheaper machine.
        let units = [unit([8, 1], Turn::Then), unit([4, 1], Turn::Last), unit([2, 1], Turn::Then)];
        let machines = [machine([4, 4], 40), machine([10, 10], 100)];
        assert_eq!(filled(&units, &machines, &[vec![0], vec![1, 2]]), (140, vec![vec![0, 2], vec![1]]));
    }

    #[test]
    fn a_machine_grows_where_that_is_cheaper_than_another_one() {
        let units = [unit([3, 1], Turn::Then), unit([2, 1], Turn::Then)];
        let machines = [machine([4, 4], 50), machine([6, 6], 70)];
        assert_eq!(filled(&units, &machines, &[vec![0], vec![1]]), (70, vec![vec![0, 1]]));
    }

    #[test]
    fn others_make_room_on_a_machine_that_is_filled() {
        // Forty small units of kind 0 fill a machine for both kinds, forty are on one for their kind alone, with room for
        // twenty more. The large unit is of kind 1.
        let large = Unit { kind: 1, ..unit([10, 10], Turn::Then) };
        let units: Vec<Unit> =
            std::iter::once(large).chain((0..80).map(|_| unit([1, 1], Turn::Then))).collect();
        let for_both = |room, price| Machine { accepts: 0b11, ..machine(room, price) };
        let machines = [for_both([10, 10], 50), for_both([40, 40], 200), machine([60, 60], 200)];
        let placed = [vec![0], (1..41).collect(), (41..81).collect()];
        let (price, placed) = filled(&units, &machines, &placed);
        assert_eq!(price, 400, "the machine of the large unit is needless");
        let with = placed.iter().find(|units| units.contains(&0)).expect("it is somewhere");
        assert_eq!(with.len(), 31, "thirty stay with it, ten have moved on");
    }

    #[test]
    fn no_unit_is_lost_and_no_machine_too_small_or_dearer_than_before() {
        for seed in 0..400 {
            let mut rng = Rng::with_seed(seed);
            let turns = Turn::ALL;
            let units: Vec<Unit> = (0..rng.usize(2..90))
                .map(|_| Unit {
                    kind: rng.usize(0..3),
                    ..unit([rng.i64(1..12), rng.i64(0..12)], turns[rng.usize(0..5)])
                })
                .collect();
            let mut machines: Vec<Machine> = (0..12)
                .map(|_| {
                    let room = [rng.i64(12..60), rng.i64(12..60)];
                    Machine {
                        price: room[0] * 3 + room[1] + rng.i64(0..40),
                        accepts: rng.u64(1..8),
                        ..machine(room, 0)
                    }
                })
                .collect();
            machines.push(Machine { accepts: 7, ..machine([600, 600], 900) });
            machines.sort_by_key(|machine| machine.price);
            let mut placed: Vec<Vec<usize>> = vec![Vec::new(); 12];
            (0..units.len()).for_each(|unit| placed[rng.usize(0..12)].push(unit));
            placed.retain(|units| !units.is_empty());
            let topology = Topology::default();
            let mut loads =
                Loads::new(&units, &machines, &topology, placed).expect("one machine holds everything");
            let before = loads.price();
            loads.fill();
            let price = loads.price();
            assert!(price <= before, "seed {seed}: {price} is more than {before}");
            let placed: Vec<Vec<usize>> = loads.placed().collect();
            let mut all: Vec<usize> = placed.iter().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..units.len()).collect::<Vec<_>>(), "seed {seed}");
            let least = |members: &Vec<usize>| {
                let of = |name: usize| members.iter().map(|unit| units[*unit].amounts[name]).sum::<i64>();
                let kinds = members.iter().fold(0, |kinds, unit| kinds | 1 << units[*unit].kind);
                let holds = |machine: &&Machine| {
                    machine.accepts & kinds == kinds && of(0) <= machine.room[0] && of(1) <= machine.room[1]
                };
                machines.iter().find(holds).expect("a machine holds them").price
            };
            assert_eq!(
                placed.iter().map(least).sum::<i64>(),
                price,
                "seed {seed}: the price is that of the machines"
            );
        }
    }
}
