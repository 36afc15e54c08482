//! Mixes the pods of all in-flight nodes of a pool, whatever they ask of their nodes.
//!
//! A node that a pod made a node of one zone, or of on-demand capacity, may have room for pods that would do with any.
//! Pods that ask for the same are one kind; an offering of an instance type is a machine that some kinds may be on. What
//! [the packing](super::packing) finds is put together by the code that places pods: requirements must meet, and the
//! instance types that are left must hold pods and daemons; if a single node fails, all stay as they are. The new nodes
//! are taken where they save [`LEAST_SAVING`].
//!
//! Nodes are left alone for the same reasons as when [nodes that are alike](super) are mixed. Where pods have rules about
//! domains, only nodes with the same domains exchange pods, and keep them, so every count stays as it is. A pod with
//! preferences, or with volumes that could be in several places, goes only where its node was.

use std::collections::BTreeMap;

use super::packing::{self, MOST_KINDS, Machine, Pattern, ROUNDS, Size};
use super::{NODE, Units};
use crate::amounts::Amounts;
use crate::index::{InFlightIx, PodIx, PoolIx};
use crate::interning::InternedMap;
use crate::place::in_flight::{self, State};
use crate::place::solve::repack::{self, Part};
use crate::place::solve::{Query, Solver};
use crate::place::topology::HostRules;
use crate::rules::{KeyId, RuleSetId};

/// The share of the price, in percent, that must be saved to be worth other nodes.
const LEAST_SAVING: i64 = 1;
/// Sets of nodes with more sizes of pods of all kinds are left alone: filling one machine looks at every size.
const MOST_SIZES: usize = 768;
/// Looks at a size while a machine is filled after which no further round is begun.
const MOST_LOOKS: usize = 60_000;
/// Machines that the same kinds may be on: those that hold most for their price.
const MOST_MACHINES: usize = 6;
/// Most sets of nodes that are packed again in a pass, those with most nodes.
const MOST_SETS: usize = 4;

/// In-flight nodes that may exchange pods.
struct Set {
    pool: PoolIx,
    /// Requirements of the pods about domains.
    domains: RuleSetId,
    nodes: Vec<InFlightIx>,
}

/// Pods of a set by what they ask of their node, and what they request.
#[derive(Default)]
struct Pods {
    /// The requirements of each kind, those of the pool among them.
    kinds: Vec<RuleSetId>,
    sizes: InternedMap<(usize, Amounts), Vec<PodIx>>,
}

impl Solver<'_> {
    /// Mixes the pods of in-flight nodes with different requirements where that saves enough.
    pub(in crate::place::solve) fn mix_kinds(&mut self) {
        let keys = self.filling.topology.keys();
        let keys: Vec<KeyId> = keys.iter().map(|key| self.caches.rules.key(key)).collect();
        for set in self.sets(&keys) {
            self.mix_set(&set, &keys);
        }
    }

    /// Sets of nodes that may exchange pods and do not all have the same requirements.
    fn sets(&mut self, keys: &[KeyId]) -> Vec<Set> {
        let mut sets: InternedMap<(PoolIx, RuleSetId), Vec<InFlightIx>> = InternedMap::default();
        for number in self.filling.in_flight.positions() {
            let node = &self.filling.in_flight[number];
            if node.pods.is_empty() || !self.may_change(node) || self.host_rules(node) != HostRules::None {
                continue;
            }
            let domains = self.caches.rules.about(node.state.rules, keys);
            sets.entry((node.pool, domains)).or_default().push(number);
        }
        let differ = |nodes: &[InFlightIx]| {
            let rules = |number: &InFlightIx| self.filling.in_flight[*number].state.rules;
            nodes.iter().any(|number| rules(number) != rules(&nodes[0]))
        };
        let mut sets: Vec<Set> = sets
            .into_iter()
            .filter(|(_, nodes)| differ(nodes))
            .map(|((pool, domains), nodes)| Set { pool, domains, nodes })
            .collect();
        sets.sort_by_key(|set| std::cmp::Reverse(set.nodes.len()));
        sets.truncate(MOST_SETS);
        sets
    }

    /// Packs the pods of `set` again if that saves enough.
    fn mix_set(&mut self, set: &Set, keys: &[KeyId]) {
        let Some((before, total)) = self.query().worth(set) else { return };
        let Some(pods) = self.query().kinds(set) else { return };
        let units = Units::exact(pods.sizes.keys().map(|(_, amounts)| amounts), &total);
        let mut machines = self.query().machines(set.pool, &pods.kinds, &units);
        keep_best(&mut machines, &units.ceiled(&total), 0);
        let number = i64::try_from(set.nodes.len()).unwrap_or(i64::MAX);
        let each = before / number * NODE / 100;
        for machine in &mut machines {
            machine.price = machine.price.saturating_add(each);
        }
        let sizes: Vec<Size> = pods
            .sizes
            .iter()
            .map(|((kind, amounts), pods)| Size {
                amounts: units.ceiled(amounts),
                count: pods.len(),
                kind: *kind,
                cap: None,
            })
            .collect();
        // Machines of parts may be cheaper than those of patterns, so what is too expensive by a little is looked at.
        let with_nodes = before.saturating_add(each * number);
        let Some(patterns) = packing::patterns(&sizes, &machines, with_nodes, (ROUNDS, MOST_LOOKS)) else {
            return;
        };
        let kinds: Vec<usize> = sizes.iter().map(|size| size.kind).collect();
        let mut waiting: Vec<_> = pods.sizes.into_values().map(Vec::into_iter).collect();
        let mut parts = Vec::new();
        for Pattern { pods: filled, times, .. } in patterns {
            for _ in 0..times {
                let mut rules = Some(pods.kinds[kinds[filled[0].0]]);
                let mut members = Vec::new();
                for (size, count) in &filled {
                    rules = rules.and_then(|rules| self.caches.rules.meet(rules, pods.kinds[kinds[*size]]));
                    members.extend(waiting[*size].by_ref().take(*count));
                }
                members.sort_unstable();
                let Some(rules) = rules else { return };
                // A node in other domains would change what the rules about these count.
                if self.caches.rules.about(rules, keys) != set.domains {
                    return;
                }
                let Some(part) = self.query().part_of(set.pool, rules, members) else { return };
                parts.push(part);
            }
        }
        parts.sort_by(|a, b| a.pods.cmp(&b.pods));
        let enough = before / 100 * (100 - LEAST_SAVING);
        if repack::price(&parts) <= enough && self.stays_within_limits(&set.nodes, &mut parts) {
            self.put(&set.nodes, parts);
        }
    }
}

impl Query<'_, '_> {
    /// Returns the price of the nodes of `set` without reservations, in billionths of a dollar an hour, and the requests
    /// of their pods.
    fn worth(&mut self, set: &Set) -> Option<(i64, Amounts)> {
        let (mut total, mut price) = (Amounts::default(), 0_i64);
        for number in &set.nodes {
            let rules = self.unreserved(*number)?;
            let node = &self.filling.in_flight[*number];
            let catalogue = &mut self.caches.catalogues[self.compiled.pools.spaces[node.pool].catalogue];
            let least = catalogue.least_price(rules, &node.state.variants, &self.caches.rules)?;
            price = price.saturating_add(least.nanos());
            total.add(&node.state.total);
        }
        Some((price, total))
    }

    /// The pods of `set` by kind and size, in the order of the queue; `None` where there are too many of either.
    fn kinds(&mut self, set: &Set) -> Option<Pods> {
        let mut pods = Pods::default();
        let mut known: BTreeMap<RuleSetId, usize> = BTreeMap::new();
        let space = &self.compiled.pools.spaces[set.pool];
        let base = self.caches.rules.meet(space.rules, set.domains)?;
        for number in &set.nodes {
            let node = &self.filling.in_flight[*number];
            for pod in &node.pods {
                let levels = self.compiled.levels(*pod);
                let demand = self.compiled.levels.demand(*levels.first()?);
                let rules = match &demand.places[..] {
                    [place] if levels.len() == 1 => {
                        let own = self.caches.rules.meet(base, demand.rules?)?;
                        self.caches.rules.meet(own, *place)?
                    }
                    // Other levels, or other places for volumes, could ask for something that the new node is
                    // not.
                    _ => node.state.rules,
                };
                let kind = *known.entry(rules).or_insert_with(|| {
                    pods.kinds.push(rules);
                    pods.kinds.len() - 1
                });
                pods.sizes.entry((kind, demand.amounts.clone())).or_default().push(*pod);
            }
            if pods.kinds.len() > MOST_KINDS || pods.sizes.len() > MOST_SIZES {
                return None;
            }
        }
        pods.sizes.values_mut().for_each(|pods| pods.sort_unstable());
        Some(pods)
    }

    /// Offerings of instance types of `pool`, without those that another one has as much room as for as many
    /// kinds and no more money.
    pub(super) fn machines(&mut self, pool: PoolIx, kinds: &[RuleSetId], units: &Units) -> Vec<Machine> {
        let kinds: Option<Vec<RuleSetId>> =
            kinds.iter().map(|rules| self.without_reservation(pool, *rules)).collect();
        let Some(kinds) = kinds else { return Vec::new() };
        let space = &self.compiled.pools.spaces[pool];
        let catalogue = &mut self.caches.catalogues[space.catalogue];
        let masks: Vec<_> = kinds.iter().map(|rules| catalogue.mask(*rules, &self.caches.rules)).collect();
        let allowed = in_flight::fitting(&Amounts::default(), &space.base, &[], space, catalogue);
        let mut all: Vec<Machine> = Vec::new();
        for variant in allowed.iter() {
            let Some(daemons) = space.daemons.iter().find(|group| group.variants.contains(variant)) else {
                continue;
            };
            let mut room = catalogue.allocatable(variant).clone();
            room.subtract(&daemons.overhead);
            let room = units.floored(&room);
            let mut cheapest: BTreeMap<u64, i64> = BTreeMap::new();
            for (offering, accepts) in catalogue.left_by(variant, &masks) {
                let price = cheapest.entry(accepts).or_insert(i64::MAX);
                *price = (*price).min(offering.price.nanos());
            }
            // Offerings that no kind may be on.
            cheapest.remove(&0);
            let machine = |(accepts, price)| Machine { room: room.clone(), price, accepts };
            all.extend(cheapest.into_iter().map(machine));
        }
        // By all there is of them: instance types are in the order of the input.
        all.sort_by(|a, b| {
            a.price.cmp(&b.price).then_with(|| (b.accepts, &b.room).cmp(&(a.accepts, &a.room)))
        });
        let mut kept: Vec<Machine> = Vec::new();
        for machine in all {
            let is_better = |known: &Machine| {
                known.accepts & machine.accepts == machine.accepts
                    && known.room.iter().zip(&machine.room).all(|(known, own)| known >= own)
            };
            if !kept.iter().any(is_better) {
                kept.push(machine);
            }
        }
        kept
    }

    /// A node of `pool` with requirements `rules` for `pods`; `None` when no instance type would do.
    fn part_of(&mut self, pool: PoolIx, rules: RuleSetId, pods: Vec<PodIx>) -> Option<Part> {
        let mut total = Amounts::default();
        for pod in &pods {
            total.add(&self.compiled.levels.demand(*self.compiled.levels(*pod).first()?).amounts);
        }
        let priced = self.without_reservation(pool, rules)?;
        let space = &self.compiled.pools.spaces[pool];
        let catalogue = &mut self.caches.catalogues[space.catalogue];
        let allowed = space.base.and(&catalogue.mask(priced, &self.caches.rules).both);
        let variants = in_flight::fitting(&total, &allowed, &[], space, catalogue);
        let price = catalogue.least_price(priced, &variants, &self.caches.rules)?;
        Some(Part { state: State::bare(rules, total, variants), pods, price })
    }
}

/// Keeps, of the machines that the same kinds may be on, those that hold most of `total` for their price, and the
/// `cheapest`, for pods that take a machine whatever they request.
pub(super) fn keep_best(machines: &mut Vec<Machine>, total: &[i64], cheapest: usize) {
    let weights = packing::weights(total, machines);
    let worth = |machine: &Machine| packing::worth(&machine.room, total, &weights);
    let keep = |machines: &[Machine], most: usize| -> Vec<Machine> {
        let (mut last, mut number) = (0, 0);
        let is_kept = |machine: &&Machine| {
            number = if machine.accepts == last { number + 1 } else { 1 };
            last = machine.accepts;
            number <= most
        };
        machines.iter().filter(is_kept).cloned().collect()
    };
    machines.sort_by_key(|machine| (machine.accepts, machine.price));
    let cheap = keep(machines, cheapest);
    machines.sort_by(|a, b| {
        let value = |one: &Machine, other: &Machine| worth(one) * i128::from(other.price);
        a.accepts.cmp(&b.accepts).then_with(|| value(b, a).cmp(&value(a, b)))
    });
    *machines = keep(machines, MOST_MACHINES);
    for machine in cheap {
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
}
