//! The third stage: mix the pods of in-flight nodes that are alike so that CPU and memory are both used.
//!
//! First-fit in order of size puts pods that need CPU together, and those that need memory after them. Each kind then
//! leaves the other resource of its nodes unused. Once every pod has its place, all pods of in-flight nodes of one pool
//! with the same requirements are packed again by [patterns](packing): which sizes of pods share which instance type. The
//! new nodes are taken where they save [`LEAST_SAVING`].
//!
//! Like [repacking](super::repack), this keeps the requirements of nodes, so what is true of those (zones, taints,
//! volumes, rules about domains) stays true, and no pod loses its place. Nodes for which other instance types or pods
//! could be wrong are left alone: reservations, `minValues`, host ports, shared volumes, devices, and pods with rules
//! about hosts. In a pool with limits, new nodes take no more of it than the old ones and what is left.
//!
//! Patterns that cannot pay are excluded before any pod is examined: the old nodes must cost clearly more
//! than [a bound](packing::least_price) on the price of all they hold.

mod certain;
mod fuller;
mod kinds;
mod packing;
mod targets;

use std::collections::BTreeMap;
use std::sync::Arc;

use packing::{AMOUNT_BITS, Machine, Pattern, ROUNDS, Size};

use super::compiled::Compiled;
use super::filling::Filling;
use super::repack::{self, Part};
use super::{Query, Solver};
use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::{DemandIx, InFlightIx, PodIx, PoolIx, ResourceIx, VariantIx};
use crate::interning::InternedMap;
use crate::place::in_flight::{self, InFlightNode};
use crate::place::pool::PoolSpace;
use crate::place::topology::HostRules;
use crate::rules::RuleSetId;

/// The share of the price, in percent, that must be saved to be worth other nodes than first-fit gives.
const LEAST_SAVING: i64 = 3;
/// Cost of each node in addition to its price, in percent of the average price of a node: start-up, another kubelet.
const NODE: i64 = 5;
/// Expected excess of patterns over the bound, in percent of the average price of a node, because the last nodes
/// are not full. Measured on worlds of 2 to 106 nodes, where it is between 6 and 74.
const UNUSED: i64 = 35;
/// Upper limit of the excess by [`UNUSED`], in percent of the bound.
const MOST_UNUSED: i64 = 4;
/// Sets of nodes with more sizes of pods are left alone: filling one machine looks at every size.
const MOST_SIZES: usize = 256;
/// Looks at a size while a machine is filled after which no further round is begun.
const MOST_LOOKS: usize = 10_000;
/// Least number of bits of a total in its fine units, which is more than a price has.
const FINE_BITS: u32 = 32;
/// Most sets of alike nodes that are packed again in a pass, those that cost most.
const MOST_SETS: usize = 16;

/// In-flight nodes of one pool with the same requirements.
struct Alike {
    nodes: Vec<InFlightIx>,
    /// Sum of the requests of their pods.
    total: Amounts,
    /// Sum of the prices of the nodes, in billionths of a dollar an hour.
    price: i64,
}

/// Conversion of amounts to the numbers of the packing: resources that are asked for, and the amount of each
/// that counts as one.
struct Units(Vec<(ResourceIx, i128)>);

impl Solver<'_> {
    /// Mixes the pods of alike in-flight nodes where that saves enough.
    pub(super) fn mix(&mut self) {
        for alike in self.alike() {
            self.mix_alike(&alike);
        }
    }

    /// Sets of at least two nodes whose pods may be mixed, the most expensive first.
    fn alike(&mut self) -> Vec<Alike> {
        let sets = self.by_rules(|_| true).into_values().filter(|nodes| nodes.len() > 1);
        let sets: Vec<Alike> = sets.filter_map(|nodes| self.mixable(nodes)).collect();
        let mut sets: Vec<Alike> = sets.into_iter().filter(|set| set.nodes.len() > 1).collect();
        sets.sort_by_key(|set| std::cmp::Reverse(set.price));
        sets.truncate(MOST_SETS);
        sets
    }

    /// Nodes with pods that `count`, in sets of one pool with the same requirements.
    fn by_rules(
        &self,
        count: impl Fn(&InFlightNode) -> bool,
    ) -> InternedMap<(PoolIx, RuleSetId), Vec<InFlightIx>> {
        let mut sets: InternedMap<(PoolIx, RuleSetId), Vec<InFlightIx>> = InternedMap::default();
        for (number, node) in self.filling.in_flight.enumerate() {
            if !node.pods.is_empty() && count(node) {
                sets.entry((node.pool, node.state.rules)).or_default().push(number);
            }
        }
        sets
    }

    /// Selects the `nodes` whose pods may be mixed; `None` where a price is not known.
    fn mixable(&mut self, mut nodes: Vec<InFlightIx>) -> Option<Alike> {
        nodes.retain(|number| {
            let node = &self.filling.in_flight[*number];
            self.may_change(node) && self.host_rules(node) == HostRules::None
        });
        let rules = self.query().unreserved(*nodes.first()?)?;
        let Self { compiled, caches, filling } = self;
        let (mut total, mut price) = (Amounts::default(), 0_i64);
        for number in &nodes {
            let node = &filling.in_flight[*number];
            let catalogue = &mut caches.catalogues[compiled.pools.spaces[node.pool].catalogue];
            let least = catalogue.least_price(rules, &node.state.variants, &caches.rules)?;
            price = price.saturating_add(least.nanos());
            total.add(&node.state.total);
        }
        Some(Alike { nodes, total, price })
    }

    /// Packs the pods of `alike` again if that saves enough.
    fn mix_alike(&mut self, alike: &Alike) {
        let like = alike.nodes[0];
        let mut query = self.query();
        let allowed = query.allowed(like);
        let enough = alike.price / 100 * (100 - LEAST_SAVING);
        let units = Units::fine(&alike.total);
        let offered = query.offered(like, &allowed, &units);
        let bound = packing::least_price(&units.ceiled(&alike.total), &offered);
        let number = i64::try_from(alike.nodes.len()).unwrap_or(i64::MAX);
        let unused = (alike.price / number * UNUSED / 100).min(bound / 100 * MOST_UNUSED);
        if bound.saturating_add(unused) > enough {
            return;
        }
        let compiled = Arc::clone(&self.compiled);
        let Some(sizes) = sizes(&alike.nodes, &compiled, &self.filling) else { return };
        let units = Units::exact(sizes.keys().copied(), &alike.total);
        let mut offered = self.query().offered(like, &allowed, &units);
        // Cost of a node in addition to its price, so that patterns with fewer nodes win where prices are close.
        let each = alike.price / number * NODE / 100;
        for machine in &mut offered {
            machine.price = machine.price.saturating_add(each);
        }
        let with_nodes = alike.price.saturating_add(each * number) / 100 * (100 - LEAST_SAVING);
        let known: Vec<Size> = sizes
            .iter()
            .map(|(amounts, pods)| Size {
                amounts: units.ceiled(amounts),
                count: pods.len(),
                kind: 0,
                cap: None,
            })
            .collect();
        let Some(patterns) = packing::patterns(&known, &offered, with_nodes, (ROUNDS, MOST_LOOKS)) else {
            return;
        };
        let mut waiting: Vec<_> = sizes.into_values().map(Vec::into_iter).collect();
        let mut parts = Vec::new();
        for Pattern { pods, times, .. } in patterns {
            for _ in 0..times {
                let mut members = Vec::new();
                for (size, count) in &pods {
                    members.extend(waiting[*size].by_ref().take(*count));
                }
                members.sort_unstable();
                let Some(part) = self.query().part(like, &allowed, members) else { return };
                parts.push(part);
            }
        }
        // In the order of the queue, like nodes that first-fit opens.
        parts.sort_by(|a, b| a.pods.cmp(&b.pods));
        if repack::price(&parts) <= enough && self.stays_within_limits(&alike.nodes, &mut parts) {
            self.put(&alike.nodes, parts);
        }
    }

    /// Returns whether the limits of the pool allow `parts` in place of `nodes`; they are charged for the parts
    /// then. Where they would not allow the largest instance types of parts, parts are kept to those that take no
    /// more than the cheapest.
    pub(super) fn stays_within_limits(&mut self, nodes: &[InFlightIx], parts: &mut [Part]) -> bool {
        let pool = self.filling.in_flight[nodes[0]].pool;
        if self.filling.limits[pool].is_unlimited() {
            return true;
        }
        let mut query = self.query();
        let unreserved: Vec<Option<RuleSetId>> =
            parts.iter().map(|part| query.without_reservation(pool, part.state.rules)).collect();
        let Query { compiled, filling, caches } = &mut query;
        let catalogue = &mut caches.catalogues[compiled.pools.spaces[pool].catalogue];
        let limits = &filling.limits[pool];
        let before: Vec<&Bits<VariantIx>> =
            nodes.iter().map(|node| &filling.in_flight[*node].state.variants).collect();
        let mut left = limits.exchanged(catalogue, &before, &variants_of(parts));
        if left.is_none() {
            for (part, rules) in parts.iter_mut().zip(unreserved) {
                let Some(rules) = rules else { return false };
                let ranked = catalogue.ranked(rules, &caches.rules);
                let variants = &mut part.state.variants;
                let cheapest = ranked.iter().map(|one| one.variant).find(|one| variants.contains(*one));
                let Some(cheapest) = cheapest else { return false };
                *variants = limits.no_larger(catalogue, variants, cheapest);
            }
            left = limits.exchanged(catalogue, &before, &variants_of(parts));
        }
        let Some(left) = left else { return false };
        self.filling.limits[pool] = left;
        true
    }
}

impl Query<'_, '_> {
    /// Instance types a node like in-flight node `like` may be, of those `allowed`, without those that another one has
    /// as much room as for no more money.
    fn offered(&mut self, like: InFlightIx, allowed: &Bits<VariantIx>, units: &Units) -> Vec<Machine> {
        let mut offered: Vec<Machine> = Vec::new();
        let Some(rules) = self.unreserved(like) else { return offered };
        let Self { compiled, filling, caches } = self;
        let space = &compiled.pools.spaces[filling.in_flight[like].pool];
        let catalogue = &mut caches.catalogues[space.catalogue];
        // Types that hold their daemons.
        let allowed = in_flight::fitting(&Amounts::default(), allowed, &[], space, catalogue);
        let ranked = catalogue.ranked(rules, &caches.rules);
        for one in ranked.iter().filter(|one| allowed.contains(one.variant)) {
            let Some(room) = room_of(one.variant, space, catalogue) else { continue };
            let room = units.floored(&room);
            let is_better = |known: &Machine| known.room.iter().zip(&room).all(|(known, own)| known >= own);
            if !offered.iter().any(is_better) {
                offered.push(Machine { room, price: one.cheapest.price.nanos(), accepts: 1 });
            }
        }
        offered
    }
}

/// Returns the room of an instance type for pods beside its daemons; `None` where it does not hold these.
fn room_of(variant: VariantIx, space: &PoolSpace<'_>, catalogue: &Catalogue<'_>) -> Option<Amounts> {
    let daemons = space.daemons.iter().find(|group| group.variants.contains(variant))?;
    let mut room = catalogue.allocatable(variant).clone();
    room.subtract(&daemons.overhead);
    Some(room)
}

/// The pods of `nodes` by what they request, in the order of the queue; `None` where there are too many sizes.
fn sizes<'c>(
    nodes: &[InFlightIx],
    compiled: &'c Compiled<'_>,
    filling: &Filling<'_>,
) -> Option<InternedMap<&'c Amounts, Vec<PodIx>>> {
    // By demand first: comparing amounts for each pod would take longer.
    let mut by_demand: InternedMap<DemandIx, (&Amounts, Vec<PodIx>)> = InternedMap::default();
    for pod in nodes.iter().flat_map(|node| &filling.in_flight[*node].pods) {
        let level = *compiled.levels(*pod).first()?;
        let amounts = &compiled.levels.demand(level).amounts;
        let demand = compiled.levels.level(level).demand;
        by_demand.entry(demand).or_insert_with(|| (amounts, Vec::new())).1.push(*pod);
    }
    let mut sizes: InternedMap<&Amounts, Vec<PodIx>> = InternedMap::default();
    for (amounts, pods) in by_demand.into_values() {
        sizes.entry(amounts).or_default().extend(pods);
        if sizes.len() > MOST_SIZES {
            return None;
        }
    }
    sizes.values_mut().for_each(|pods| pods.sort_unstable());
    Some(sizes)
}

fn variants_of(parts: &[Part]) -> Vec<&Bits<VariantIx>> {
    parts.iter().map(|part| &part.state.variants).collect()
}

impl Units {
    /// Units of which `total` is many, to compare it with room.
    fn fine(total: &Amounts) -> Self {
        let asked = total.iter().filter(|(_, amount)| *amount > 0);
        Self(asked.map(|(name, amount)| (name, (amount >> FINE_BITS).max(1))).collect())
    }

    /// Units in which each of `sizes`, which are `total` together, is a whole number, unless that would be too many.
    fn exact<'s>(sizes: impl Iterator<Item = &'s Amounts>, total: &Amounts) -> Self {
        let mut units: BTreeMap<ResourceIx, i128> = BTreeMap::new();
        for (name, amount) in sizes.flat_map(Amounts::iter).filter(|(_, amount)| *amount > 0) {
            let unit = units.entry(name).or_insert(0);
            *unit = common_divisor(*unit, amount);
        }
        let coarse = |name| total.at(name) >> (AMOUNT_BITS - 1);
        Self(units.into_iter().map(|(name, unit)| (name, unit.max(coarse(name)))).collect())
    }

    /// `amounts` in these units, rounded up.
    fn ceiled(&self, amounts: &Amounts) -> Vec<i64> {
        self.0.iter().map(|(name, unit)| number((amounts.at(*name) + unit - 1) / unit)).collect()
    }

    /// `amounts` in these units, rounded down.
    fn floored(&self, amounts: &Amounts) -> Vec<i64> {
        self.0.iter().map(|(name, unit)| number(amounts.at(*name) / unit)).collect()
    }
}

/// `amount` as the packing takes it: not below zero, and more than it can count is as much as it can.
fn number(amount: i128) -> i64 {
    i64::try_from(amount.clamp(0, (1 << AMOUNT_BITS) - 1)).unwrap_or(0)
}

fn common_divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
