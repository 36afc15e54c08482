//! Fuller machines: pods move into room that is paid for anyway, where the machine they leave becomes cheaper or needless.
//!
//! A plan whose pods keep others off their hosts has many machines, and rules leave room on most of them. Two steps repeat
//! as long as they save anything:
//!
//! 1. *Empty.* Each machine is compared with cheaper ones, and with none: what would not be on those leaves. What saves
//!    most for the room it takes elsewhere comes first. A unit that leaves goes to a machine with room for it; where there
//!    is none, to one that others leave for machines with room; and where that does not help either, to the machine that
//!    becomes more expensive by least. All of a choice is undone unless it saves money.
//! 2. *Exchange.* Two units that keep others off cannot share a machine, so the large one of a machine with few units is
//!    exchanged for the small one of a machine with many, which may let the first machine become a cheaper one.
//!
//! Like [patterns](super::packing) these are wishes, in whole numbers and without chance: pods are then placed by the code
//! that places every pod. Of rules about hosts only those are known that
//! [`may_join`](crate::place::topology::Topology::may_join) knows.

mod loads;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use super::packing::{Machine, fits};
use crate::index::{IxVec, LoadIx, UnitIx};
use crate::place::topology::Turn;
pub(super) use loads::{Loads, Unit};

/// Number of rounds over all machines.
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

/// Moves units of `loads` as long as that saves anything.
pub(super) fn fill(loads: &mut Loads<'_>) {
    let mut search = Search { loads, looks: MOST_LOOKS };
    for _ in 0..ROUNDS {
        let before = search.loads.price();
        search.empty();
        search.exchange();
        if search.loads.price() == before || search.looks == 0 {
            break;
        }
    }
}

/// A search for moves that save money.
struct Search<'s, 'l> {
    loads: &'s mut Loads<'l>,
    /// Looks that are left.
    looks: usize,
}

/// Units that would have to leave a load for a cheaper machine, or none, to be enough.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    load: LoadIx,
    leaving: Vec<UnitIx>,
    saving: i64,
    /// The share of everything that leaves.
    share: i64,
}

/// A unit and where it is.
type At = (LoadIx, UnitIx);

impl Search<'_, '_> {
    /// Lets units leave machines for room that is free elsewhere.
    fn empty(&mut self) {
        let mut choices: Vec<Choice> = self.loads.positions().flat_map(|load| self.choices(load)).collect();
        choices.sort_by(|a, b| {
            let order = |choice: &Choice| (choice.load, choice.leaving.len());
            b.saving_by_share(a).cmp(&a.saving_by_share(b)).then_with(|| order(a).cmp(&order(b)))
        });
        // A choice is about its load as it was.
        let mut touched: IxVec<LoadIx, bool> = IxVec::filled(false, self.loads.positions().len());
        for choice in choices {
            if !touched[choice.load] && self.carry_out(&choice) {
                self.loads.changed().for_each(|load| touched[load] = true);
                self.loads.keep();
            }
        }
    }

    /// Returns what `load` could do without: all of it, and for each cheaper machine what that would not hold.
    fn choices(&self, load: LoadIx) -> Vec<Choice> {
        let units = self.loads.on(load);
        if units.is_empty() || units.len() > MOST_UNITS {
            return Vec::new();
        }
        // Units that keep others off find another place with most trouble, then large ones: they are to stay.
        let mut units = units.to_vec();
        units.sort_by_key(|unit| (!self.keeps_off(*unit), Reverse(self.loads.share_of(*unit)), *unit));
        let price = self.loads.price_of(load);
        let choice = |leaving: Vec<UnitIx>, cheaper: i64| {
            let share = leaving.iter().map(|unit| self.loads.share_of(*unit)).sum();
            Choice { load, leaving, saving: price - cheaper, share }
        };
        let kinds = self.loads.kinds(load);
        let cheaper: Vec<&Machine> =
            self.loads.cheaper(load).filter(|machine| machine.accepts & kinds != 0).collect();
        let mut choices = vec![choice(units.clone(), 0)];
        for machine in cheaper.into_iter().rev().take(MOST_CHEAPER) {
            let leaving = self.too_much_for(machine, &units);
            // Where all would leave, that is the first choice already.
            if leaving.len() < units.len() && choices.iter().all(|known| known.leaving != leaving) {
                choices.push(choice(leaving, machine.price));
            }
        }
        choices
    }

    /// Returns those of `units` that `machine` does not hold, if the first ones are put on it first.
    fn too_much_for(&self, machine: &Machine, units: &[UnitIx]) -> Vec<UnitIx> {
        let mut free = machine.room.clone();
        let leaves = |unit: &UnitIx| {
            let Unit { kind, amounts, .. } = self.loads.unit(*unit);
            let stays = machine.is_for(1 << kind) && fits(amounts, &free);
            if stays {
                subtract(&mut free, amounts);
            }
            !stays
        };
        units.iter().copied().filter(leaves).collect()
    }

    /// Lets what would leave by `choice` find other machines, if that saves anything; returns whether it does. If not, nothing has
    /// changed.
    fn carry_out(&mut self, choice: &Choice) -> bool {
        let (before, mark) = (self.loads.price(), self.loads.mark());
        choice.leaving.iter().for_each(|unit| self.loads.take_off(choice.load, *unit));
        let saves = self.loads.reprice(choice.load)
            && choice
                .leaving
                .iter()
                // A unit that is put on a machine never makes it cheaper, so a saving that is lost does not
                // come back.
                .all(|unit| self.settle(*unit, choice.load) && self.loads.price() < before);
        if !saves {
            self.loads.undo(mark);
        }
        saves
    }

    /// Puts `unit` on a load other than `except`: one with room, one that others leave for one with room, or the one that
    /// becomes more expensive by least; returns whether it is on one.
    fn settle(&mut self, unit: UnitIx, except: LoadIx) -> bool {
        if let Some(load) = self.place_for(unit, &[except]) {
            return self.loads.put(load, unit);
        }
        let mut others = self.loads.positions().filter(|load| *load != except);
        if others.any(|load| self.is_filled(load) && self.make_room(unit, load, except)) {
            return true;
        }
        self.least_growing(unit, except).is_some_and(|load| self.loads.put(load, unit))
    }

    /// The load whose room `unit` fills best, of those that may have it and stay as expensive as they are.
    fn place_for(&mut self, unit: UnitIx, except: &[LoadIx]) -> Option<LoadIx> {
        self.look_at_all();
        if self.looks == 0 {
            return None;
        }
        let takes = |load: &LoadIx| !except.contains(load) && self.takes(*load, unit);
        self.loads.positions().filter(takes).min_by_key(|load| (self.loads.left(*load), *load))
    }

    /// Returns whether `load` has room for `unit` at its price, and may have it.
    fn takes(&self, load: LoadIx, unit: UnitIx) -> bool {
        self.loads.has_room(load, unit) && self.loads.admits(load, unit)
    }

    /// Puts `unit` on `load`, which some leave for others that are not `except`, so that it becomes no more expensive;
    /// whether it is there. If not, nothing has changed.
    fn make_room(&mut self, unit: UnitIx, load: LoadIx, except: LoadIx) -> bool {
        if !self.loads.admits(load, unit) {
            return false;
        }
        let Some(missing) = self.loads.missing(load, unit) else { return false };
        let (price, mark) = (self.loads.price_of(load), self.loads.mark());
        let made = self.send_away(missing, load, except)
            && self.loads.put(load, unit)
            && self.loads.price_of(load) <= price;
        if !made {
            self.loads.undo(mark);
        }
        made
    }

    /// Moves units from `load` to others that are not `except` until nothing is `missing` on it; returns whether that is so.
    fn send_away(&mut self, mut missing: Vec<i64>, load: LoadIx, except: LoadIx) -> bool {
        let is_enough = |missing: &[i64]| missing.iter().all(|missing| *missing <= 0);
        let mut movable: Vec<UnitIx> =
            self.loads.on(load).iter().copied().filter(|unit| !self.keeps_off(*unit)).collect();
        movable.sort_by_key(|unit| (self.loads.share_of(*unit), *unit));
        for _ in 0..MOST_LEAVING {
            if is_enough(&missing) {
                break;
            }
            // The smallest that is enough, or else the largest of those that have another place.
            let (enough, less): (Vec<UnitIx>, Vec<UnitIx>) =
                movable.iter().partition(|unit| fits(&missing, &self.loads.unit(**unit).amounts));
            let mut asked = enough.into_iter().chain(less.into_iter().rev()).take(MOST_ASKED);
            let found = asked.find_map(|unit| Some((unit, self.place_for(unit, &[except, load])?)));
            let Some((unit, place)) = found else { break };
            self.loads.take_off(load, unit);
            self.loads.put(place, unit);
            movable.retain(|one| *one != unit);
            subtract(&mut missing, &self.loads.unit(unit).amounts);
        }
        is_enough(&missing)
    }

    /// The load that becomes more expensive by least if it takes `unit`.
    fn least_growing(&mut self, unit: UnitIx, except: LoadIx) -> Option<LoadIx> {
        self.look_at_all();
        let may_grow = |load: &LoadIx| {
            *load != except
                && !self.loads.on(*load).is_empty()
                && !self.is_filled(*load)
                && self.loads.admits(*load, unit)
        };
        let growing = self.loads.positions().filter(may_grow).filter_map(|load| {
            let price = self.loads.price_with(load, unit)?;
            Some((price - self.loads.price_of(load), load))
        });
        growing.min().map(|(_, load)| load)
    }

    /// Exchanges units that keep others off: one of a load that is not filled for one of a filled load that costs less on a
    /// machine of its own.
    fn exchange(&mut self) {
        let all = self.loads.positions();
        let all = all.flat_map(|load| self.loads.on(load).iter().map(move |unit| (load, *unit)));
        let keeping_off = all.filter(|(_, unit)| self.keeps_off(*unit));
        let (filled, others): (Vec<At>, Vec<At>) = keeping_off.partition(|(load, _)| self.is_filled(*load));
        for one in others {
            for other in &filled {
                let is_cheaper = self.loads.price_alone(other.1) < self.loads.price_alone(one.1);
                // Either may have moved since.
                if is_cheaper && self.is_at(one) && self.is_at(*other) && self.exchange_with(one, *other) {
                    self.loads.keep();
                }
            }
        }
    }

    /// Exchanges two units on loads, the second of which stays as expensive as it is, if that saves anything; returns whether it
    /// does. If not, nothing has changed.
    fn exchange_with(&mut self, one: At, filled: At) -> bool {
        let (before, mark) = (self.loads.price(), self.loads.mark());
        let saves = self.swap(one, filled) && {
            let mut choices = self.choices(one.0);
            choices.sort_by_key(|choice| Reverse(choice.saving));
            // The first one that saves anything; the exchange alone may do as well.
            let _emptier = choices.iter().any(|choice| self.carry_out(choice));
            self.loads.price() < before
        };
        if !saves {
            self.loads.undo(mark);
        }
        saves
    }

    /// Puts each of two units in the place of the other; returns whether both are there.
    fn swap(&mut self, (load, unit): At, (filled, instead): At) -> bool {
        self.loads.take_off(load, unit);
        self.loads.take_off(filled, instead);
        self.loads.admits(load, instead)
            && self.loads.admits(filled, unit)
            && self.loads.put(load, instead)
            && (self.takes(filled, unit) && self.loads.put(filled, unit)
                || self.make_room(unit, filled, load))
    }

    /// Counts a look at every load.
    fn look_at_all(&mut self) {
        self.looks = self.looks.saturating_sub(self.loads.positions().len());
    }

    /// Returns whether `load` is one of those that are to be filled.
    fn is_filled(&self, load: LoadIx) -> bool {
        self.loads.on(load).len() > MOST_UNITS
    }

    fn keeps_off(&self, unit: UnitIx) -> bool {
        self.loads.unit(unit).turn == Turn::Last
    }

    fn is_at(&self, (load, unit): At) -> bool {
        self.loads.on(load).contains(&unit)
    }
}

impl Choice {
    /// Returns the saving times the share of `other`: a choice saves more for its share than another one where this is
    /// more.
    fn saving_by_share(&self, other: &Self) -> i128 {
        // Small units may have a share that is rounded to zero.
        i128::from(self.saving) * i128::from(other.share.max(1))
    }
}

fn subtract(from: &mut [i64], amounts: &[i64]) {
    from.iter_mut().zip(amounts).for_each(|(left, amount)| *left -= amount);
}
