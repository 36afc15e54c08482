//! Assignment of units to the places of patterns, as rules about hosts allow.
//!
//! A pattern fixes the number of units of each size on a machine; which units these are is chosen here. Units that keep others
//! off come first, apart from each other, because they have the least choice. What finds no place of its size goes where
//! there is room.

use super::super::packing::{Machine, Size, fits};
use super::stock::{Stock, Unit};
use crate::index::UnitIx;
use crate::place::topology::{Tally, Topology, Turn};

/// A machine of a pattern while units are chosen for it.
#[derive(Default)]
pub(super) struct Slot {
    /// Sizes of which units are still to come, and the number of units.
    places: Vec<(usize, usize)>,
    /// Number of units in all by the pattern.
    planned: usize,
    units: Vec<UnitIx>,
    /// Number of units that keep others off.
    keeping_off: usize,
    tally: Tally,
    /// Room left on the machine, in the units of the packing.
    free: Vec<i64>,
    /// The kinds that may be on it.
    accepts: u64,
}

/// Input of the choice of units.
#[derive(Clone, Copy)]
pub(super) struct Choice<'c> {
    pub(super) stock: &'c Stock,
    /// The numbers in patterns and in `waiting` are positions in this list.
    pub(super) sizes: &'c [Size],
    pub(super) machines: &'c [Machine],
    pub(super) topology: &'c Topology,
}

impl Slot {
    /// Creates a slot for `machine` with `places`: sizes and their numbers of units.
    pub(super) fn new(machine: &Machine, places: Vec<(usize, usize)>) -> Self {
        let planned = places.iter().map(|(_, count)| count).sum();
        Self { places, planned, free: machine.room.clone(), accepts: machine.accepts, ..Self::default() }
    }

    /// Returns whether rules about hosts let `unit` join.
    fn admits(&self, unit: &Unit, topology: &Topology) -> bool {
        unit.profiles.iter().all(|id| topology.may_join(*id, &self.tally))
    }

    /// Returns whether there is room for a unit of `size`, places aside.
    fn has_room(&self, size: &Size) -> bool {
        fits(&size.amounts, &self.free) && self.accepts >> size.kind & 1 == 1
    }
}

impl Choice<'_> {
    /// The units on each machine: of `waiting`, those of each size, for the places of `slots` as far as there are any.
    pub(super) fn made(self, mut slots: Vec<Slot>, mut waiting: Vec<Vec<UnitIx>>) -> Vec<Vec<UnitIx>> {
        self.put_apart(&mut slots, &mut waiting);
        for turn in [Turn::Together, Turn::Spread, Turn::First, Turn::Then] {
            self.put_in_places(turn, &mut slots, &mut waiting);
        }
        self.put_where_there_is_room(&mut slots, waiting);
        slots.into_iter().map(|slot| slot.units).filter(|units| !units.is_empty()).collect()
    }

    /// Gives units that keep others off a place of their size on the smallest machine, but rather on one that has few of
    /// them.
    fn put_apart(self, slots: &mut [Slot], waiting: &mut [Vec<UnitIx>]) {
        // By size: machines with places for it, and which of their places that is. There are many machines, few of which
        // have places for one size.
        let mut places: Vec<Vec<(usize, usize)>> = vec![Vec::new(); waiting.len()];
        for (number, slot) in slots.iter().enumerate() {
            for (place, (size, _)) in slot.places.iter().enumerate() {
                places[*size].push((number, place));
            }
        }
        for (size, (units, places)) in waiting.iter_mut().zip(places).enumerate() {
            units.retain(|index| {
                let unit = &self.stock.units[*index];
                if unit.turn != Turn::Last {
                    return true;
                }
                let open = places.iter().filter_map(|(number, place)| {
                    let slot = &slots[*number];
                    let rank = slot.planned * (slot.keeping_off + 1);
                    let is_open = slot.places[*place].1 > 0 && slot.admits(unit, self.topology);
                    is_open.then_some((rank, *number, *place))
                });
                let Some((_, number, place)) = open.min() else { return true };
                slots[number].places[place].1 -= 1;
                self.put(*index, size, &mut slots[number]);
                false
            });
        }
    }

    /// Gives units whose `turn` it is places of their size, machine by machine.
    fn put_in_places(self, turn: Turn, slots: &mut [Slot], waiting: &mut [Vec<UnitIx>]) {
        for slot in slots {
            for place in 0..slot.places.len() {
                let (size, mut left) = slot.places[place];
                if left == 0 {
                    continue;
                }
                let mut next = 0;
                while left > 0 && next < waiting[size].len() {
                    let index = waiting[size][next];
                    let unit = &self.stock.units[index];
                    if unit.turn == turn && slot.admits(unit, self.topology) {
                        waiting[size].remove(next);
                        self.put(index, size, slot);
                        left -= 1;
                    } else {
                        next += 1;
                    }
                }
                slot.places[place].1 = left;
            }
        }
    }

    /// Puts what is still `waiting` where there is room, large units first, and where there is none on slots of its own.
    fn put_where_there_is_room(self, slots: &mut Vec<Slot>, waiting: Vec<Vec<UnitIx>>) {
        let sized = waiting.into_iter().enumerate();
        let mut left: Vec<(usize, UnitIx)> =
            sized.flat_map(|(size, units)| units.into_iter().map(move |unit| (size, unit))).collect();
        left.sort_by(|(a, _), (b, _)| self.sizes[*b].amounts.cmp(&self.sizes[*a].amounts));
        for (size, index) in left {
            let unit = &self.stock.units[index];
            let takes = |slot: &Slot| slot.has_room(&self.sizes[size]) && slot.admits(unit, self.topology);
            let number = slots.iter().position(takes).unwrap_or_else(|| {
                slots.push(self.slot_for(&self.sizes[size]));
                slots.len() - 1
            });
            self.put(index, size, &mut slots[number]);
        }
    }

    /// A slot that no pattern has, for a unit of `size` and others like it.
    fn slot_for(self, size: &Size) -> Slot {
        // The largest machine, which will be as small as what is put on it allows.
        let largest = self.machines.iter().filter(|machine| machine.takes(size)).max_by_key(|one| one.price);
        let free = largest.map(|machine| machine.room.clone()).unwrap_or_default();
        Slot { accepts: 1 << size.kind, free, ..Slot::default() }
    }

    /// Puts the unit at `index`, which is of `size`, on `slot`.
    fn put(self, index: UnitIx, size: usize, slot: &mut Slot) {
        let unit = &self.stock.units[index];
        slot.free.iter_mut().zip(&self.sizes[size].amounts).for_each(|(free, amount)| *free -= amount);
        unit.profiles.iter().for_each(|id| self.topology.count_on_host(*id, &mut slot.tally));
        slot.keeping_off += usize::from(unit.turn == Turn::Last);
        slot.units.push(index);
    }
}
