//! Which pods of a plan are to share a new node, those with rules about hosts among them: as [patterns](super::packing) have
//! it, or as they do with [machines filled up](super::fuller).
//!
//! Nothing is moved here. What comes out are wishes: each pod is then placed by the code that places every pod, which
//! refuses what a rule forbids. So rules need only be kept as far as it pays. Pods with rules about domains stay in their
//! domain, groups that must share a host are one thing, and of pods that may share a host only so many at a time no
//! pattern has more, where that matters: where they need about as many nodes as the plan has. Other rules about hosts
//! are looked at when pods are chosen for the places of a pattern.

use std::collections::BTreeMap;

use super::fuller::{self, Loads};
use super::kinds::keep_best;
use super::packing::{self, MOST_KINDS, Machine, Pattern, Size};
use super::{NODE, Units};
use crate::amounts::Amounts;
use crate::index::{GroupIx, InFlightIx, LevelIx, PodIx, PoolIx, ProfileIx};
use crate::interning::InternedMap;
use crate::place::solve::rearranged::Target;
use crate::place::solve::{Query, Solver};
use crate::place::topology::{Tally, Topology, Turn};
use crate::rules::{KeyId, RuleSetId};

/// Pools with more sizes of pods of all kinds are left as they are: filling one machine looks at every size.
const MOST_SIZES: usize = 1_024;
/// Looks at a size while a machine is filled after which no further round is begun: so many divided by the number of pods,
/// because a machine is looked at for longer where it holds more of them, but not more than [`MOST_LOOKS`].
const MOST_WORK: usize = 200_000_000;
/// Most of them.
const MOST_LOOKS: usize = 200_000;
/// Cheap machines that are looked at beside those that hold most for their price, where a rule limits pods on a host.
const CHEAPEST: usize = 6;
/// How often values of sizes are corrected.
const ROUNDS: usize = 24;
/// A rule about hosts is part of patterns where its pods need at least one in so many of the nodes of a plan.
const MATTERS: usize = 3;
/// With more pods none move to where there is room, so that the time of a pass stays what it is.
const MOST_MOVED: usize = 2_000;
/// The share of the price, in percent, that pods that move have to save.
const LEAST_SAVING: i64 = 1;

/// Pods that go to a node together: one, or a group that must share a host.
#[derive(Debug, Clone)]
struct Unit {
    pods: Vec<PodIx>,
    level: LevelIx,
    profiles: Vec<ProfileIx>,
    turn: Turn,
}

/// What patterns know of a unit: its kind, the rule that limits it on a host, and what it requests.
type Key = (usize, Option<GroupIx>, Amounts);

/// The pods of a pool on nodes that may be others.
#[derive(Default)]
struct Stock {
    /// The requirements of each kind, those of the pool among them.
    kinds: Vec<RuleSetId>,
    numbers: BTreeMap<RuleSetId, usize>,
    units: Vec<(Key, Unit)>,
    /// How many of the units, from the first on, are on the nodes up to each.
    up_to: Vec<usize>,
    total: Amounts,
    /// By the rule that limits pods on a host: how many there are, and how many may be on one.
    limited: BTreeMap<GroupIx, (usize, usize)>,
    nodes: Vec<InFlightIx>,
}

/// What pods ask of the nodes they may move to.
#[derive(Debug, Clone, Copy)]
enum Asked {
    /// What they would ask of a new node.
    AtBest,
    /// What they could ask for where they are.
    AsPlaced,
}

/// A machine of a pattern while pods are chosen for it.
#[derive(Default)]
struct Slot {
    /// How many of each size are still to come.
    places: Vec<(usize, usize)>,
    tally: Tally,
    /// How many units there are in all.
    all: usize,
    units: Vec<Unit>,
    kinds: Vec<usize>,
    /// Those of them that keep others off.
    keeping_off: usize,
    /// What is left of the machine, in the units of the packing.
    free: Vec<i64>,
    /// The kinds that may be on it.
    accepts: u64,
}

impl Slot {
    /// A `machine` with `places` of so many pods of each size.
    fn new(machine: &Machine, places: Vec<(usize, usize)>) -> Self {
        let all = places.iter().map(|(_, count)| count).sum();
        Self { places, all, free: machine.room.clone(), accepts: machine.accepts, ..Self::default() }
    }

    /// Where units of `size` still have a place.
    fn place_of(&self, size: usize) -> Option<usize> {
        self.places.iter().position(|(of, left)| *of == size && *left > 0)
    }

    /// Whether rules about hosts let `unit` join.
    fn admits(&self, unit: &Unit, topology: &Topology) -> bool {
        unit.profiles.iter().all(|id| topology.may_join(*id, &self.tally))
    }

    /// Whether there is room for a unit of `size`, places aside.
    fn has_room(&self, size: &Size) -> bool {
        packing::fits(&size.amounts, &self.free) && self.accepts >> size.kind & 1 == 1
    }

    /// Adds `unit`, which is of `size`.
    fn put(&mut self, unit: &Unit, size: &Size, topology: &Topology) {
        self.free.iter_mut().zip(&size.amounts).for_each(|(free, amount)| *free -= amount);
        self.kinds.push(size.kind);
        for id in &unit.profiles {
            topology.count_on_host(*id, &mut self.tally);
        }
        self.keeping_off += usize::from(unit.turn == Turn::Last);
        self.units.push(unit.clone());
    }
}

impl Stock {
    /// The units by what patterns know of them.
    fn sizes(&self) -> InternedMap<Key, Vec<&Unit>> {
        let mut sizes: InternedMap<Key, Vec<&Unit>> = InternedMap::default();
        for ((kind, group, amounts), unit) in &self.units {
            let matters = |group: &GroupIx| {
                let (count, most) = self.limited[group];
                count * MATTERS > most.saturating_mul(self.nodes.len())
            };
            sizes.entry((*kind, group.filter(matters), amounts.clone())).or_default().push(unit);
        }
        sizes
    }
}

impl Solver<'_> {
    /// Which pods of this plan are to share a new node, if patterns promise a cheaper plan.
    pub(in crate::place::solve) fn targets(&mut self) -> Option<Vec<Target>> {
        self.targets_by(Asked::AtBest, Self::packed)
    }

    /// Which pods of this plan are to share a new node, if filling what is paid for promises a cheaper plan.
    pub(in crate::place::solve) fn fuller_targets(&mut self) -> Option<Vec<Target>> {
        self.targets_by(Asked::AsPlaced, Self::fuller)
    }

    /// Nodes as `pack` has them, pool by pool; those of a pool for which it promises nothing stay. `None` where it promises
    /// nothing at all.
    fn targets_by(
        &mut self,
        asked: Asked,
        mut pack: impl FnMut(&mut Self, PoolIx, &Stock) -> Option<Vec<Target>>,
    ) -> Option<Vec<Target>> {
        let keys = self.filling.topology.keys();
        let keys: Vec<KeyId> = keys.iter().map(|key| self.caches.rules.key(key)).collect();
        let mut targets = Vec::new();
        let mut stocks: InternedMap<PoolIx, Stock> = InternedMap::default();
        for number in self.filling.in_flight.positions() {
            let node = &self.filling.in_flight[number];
            if node.pods.is_empty() {
                continue;
            }
            if !self.may_change(node) {
                targets.push(Target { demand: None, pods: node.pods.clone() });
                continue;
            }
            let stock = stocks.entry(node.pool).or_default();
            self.query().take_stock(number, &keys, asked, stock)?;
        }
        let mut promising = false;
        for (pool, stock) in stocks {
            match pack(self, pool, &stock) {
                Some(patterns) => {
                    promising = true;
                    targets.extend(patterns);
                }
                None => targets.extend(stock.nodes.iter().map(|number| {
                    let pods = self.filling.in_flight[*number].pods.clone();
                    Target { demand: None, pods }
                })),
            }
        }
        promising.then_some(targets)
    }

    /// The nodes of `stock`, of `pool`, as patterns have them; `None` where they promise nothing.
    fn packed(&mut self, pool: PoolIx, stock: &Stock) -> Option<Vec<Target>> {
        let sizes = stock.sizes();
        if stock.kinds.len() > MOST_KINDS || sizes.len() > MOST_SIZES || stock.nodes.len() < 2 {
            return None;
        }
        let units = Units::exact(sizes.keys().map(|(_, _, amounts)| amounts), &stock.total);
        let mut machines = self.query().machines(pool, &stock.kinds, &units);
        let cheapest = if sizes.keys().any(|(_, group, _)| group.is_some()) { CHEAPEST } else { 0 };
        keep_best(&mut machines, &units.ceiled(&stock.total), cheapest);
        let before = self.price_of(&stock.nodes)?;
        let number = i64::try_from(stock.nodes.len()).unwrap_or(i64::MAX);
        let each = before / number * NODE / 100;
        for machine in &mut machines {
            machine.price = machine.price.saturating_add(each);
        }
        let mut groups: BTreeMap<GroupIx, usize> = BTreeMap::new();
        let size = |((kind, group, amounts), pods): (&Key, &Vec<&Unit>)| {
            let cap = group.map(|group| {
                let number = groups.len();
                (*groups.entry(group).or_insert(number), stock.limited[&group].1)
            });
            Size { amounts: units.ceiled(amounts), count: pods.len(), kind: *kind, cap }
        };
        let known: Vec<Size> = sizes.iter().map(size).collect();
        let with_nodes = before.saturating_add(each * number);
        let looks = (MOST_WORK / stock.units.len().max(1)).min(MOST_LOOKS);
        let patterns = packing::patterns(&known, &machines, with_nodes, (ROUNDS, looks))?;
        let mut slots: Vec<Slot> = Vec::new();
        for Pattern { machine, pods, times } in patterns {
            slots.extend((0..times).map(|_| Slot::new(&machines[machine], pods.clone())));
        }
        let mut query = self.query();
        query.choose(&sizes, &known, &machines, &mut slots);
        let used = slots.into_iter().filter(|slot| !slot.units.is_empty());
        used.map(|slot| query.target(&slot.units, &slot.kinds, stock)).collect()
    }

    /// The nodes of `stock`, of `pool`, with pods moved to where there is room that is paid for; `None` where that saves too
    /// little.
    fn fuller(&mut self, pool: PoolIx, stock: &Stock) -> Option<Vec<Target>> {
        if stock.kinds.len() > MOST_KINDS || stock.units.len() > MOST_MOVED {
            return None;
        }
        let units = Units::exact(stock.units.iter().map(|((_, _, amounts), _)| amounts), &stock.total);
        let machines = self.query().machines(pool, &stock.kinds, &units);
        let known =
            stock.units.iter().map(|((kind, _, amounts), Unit { profiles, turn, .. })| fuller::Unit {
                kind: *kind,
                amounts: units.ceiled(amounts),
                profiles: profiles.clone(),
                turn: *turn,
            });
        let known: Vec<fuller::Unit> = known.collect();
        let mut from = 0;
        let placed = stock.up_to.iter().map(|to| (std::mem::replace(&mut from, *to)..*to).collect());
        let mut loads = Loads::new(&known, &machines, &self.filling.topology, placed)?;
        let before = loads.price();
        loads.fill();
        if before - loads.price() < (before / 100 * LEAST_SAVING).max(1) {
            return None;
        }
        let placed: Vec<Vec<usize>> = loads.placed().collect();
        let mut query = self.query();
        let target = |units: Vec<usize>| {
            let kinds: Vec<usize> = units.iter().map(|unit| known[*unit].kind).collect();
            let units: Vec<Unit> = units.iter().map(|unit| stock.units[*unit].1.clone()).collect();
            query.target(&units, &kinds, stock)
        };
        placed.into_iter().map(target).collect()
    }
}

impl Query<'_, '_> {
    /// Adds the pods of in-flight node `number` to `stock`; `None` where one of them may be nowhere.
    fn take_stock(
        &mut self,
        number: InFlightIx,
        keys: &[KeyId],
        asked: Asked,
        stock: &mut Stock,
    ) -> Option<()> {
        let node = &self.filling.in_flight[number];
        let domains = self.caches.rules.about(node.state.rules, keys);
        stock.nodes.push(number);
        stock.total.add(&node.state.total);
        let mut groups: InternedMap<Result<GroupIx, PodIx>, Vec<PodIx>> = InternedMap::default();
        for pod in &node.pods {
            let profile =
                self.compiled.levels(*pod).last().and_then(|level| self.compiled.levels.profile(*level));
            let group = profile.and_then(|id| self.filling.topology.co_located(id));
            groups.entry(group.ok_or(*pod)).or_default().push(*pod);
        }
        for pods in groups.into_values() {
            let (mut rules, mut amounts) = (None, Amounts::default());
            for pod in &pods {
                let (own, level) = self.asked(asked, *pod, number, domains)?;
                rules = Some(match rules {
                    None => own,
                    Some(rules) => self.caches.rules.meet(rules, own)?,
                });
                amounts.add(&self.compiled.levels.demand(level).amounts);
            }
            let (rules, first) = (rules?, pods[0]);
            let level = *self.compiled.levels(first).first()?;
            let profile = self.compiled.levels.profile(level);
            let limit = profile.and_then(|id| self.filling.topology.most_on_host(id));
            if let Some((group, most)) = limit {
                stock.limited.entry(group).or_insert((0, usize::try_from(most).unwrap_or(usize::MAX))).0 += 1;
            }
            let kinds = stock.kinds.len();
            let kind = *stock.numbers.entry(rules).or_insert(kinds);
            if kind == kinds {
                stock.kinds.push(rules);
            }
            let turn = profile.map(|id| self.filling.topology.turn(id)).unwrap_or_default();
            let levels = pods.iter().filter_map(|pod| self.compiled.levels(*pod).first());
            let profiles = levels.filter_map(|level| self.compiled.levels.profile(*level)).collect();
            let key = (kind, limit.map(|(group, _)| group), amounts);
            stock.units.push((key, Unit { pods, level, profiles, turn }));
        }
        stock.up_to.push(stock.units.len());
        Some(())
    }

    /// What the pod, which is on in-flight node `number` in `domains`, asks of a new node of its pool at the first level
    /// at which there is an instance type for it.
    fn asked(
        &mut self,
        asked: Asked,
        pod: PodIx,
        number: InFlightIx,
        domains: RuleSetId,
    ) -> Option<(RuleSetId, LevelIx)> {
        let node = &self.filling.in_flight[number];
        let space = &self.compiled.pools.spaces[node.pool];
        for level in self.compiled.levels(pod) {
            let demand = self.compiled.levels.demand(*level);
            let [place] = demand.places[..] else { return Some((node.state.rules, *level)) };
            let base = match self.compiled.levels.profile(*level) {
                Some(id) if self.keeps_domain(asked, id) => self.caches.rules.meet(space.rules, domains),
                _ => Some(space.rules),
            };
            let own = base.and_then(|base| self.caches.rules.meet(base, demand.rules?));
            let Some(own) = own.and_then(|own| self.caches.rules.meet(own, place)) else { continue };
            let (there, variants) = match asked {
                Asked::AtBest => (Some(own), &space.base),
                Asked::AsPlaced => (self.caches.rules.meet(own, node.state.rules), &node.state.variants),
            };
            let Some(there) = there else { continue };
            let catalogue = &mut self.caches.catalogues[space.catalogue];
            if variants.meets(&catalogue.mask(there, &self.caches.rules).both) {
                return Some((own, *level));
            }
        }
        match asked {
            Asked::AtBest => None,
            Asked::AsPlaced => Some((node.state.rules, *self.compiled.levels(pod).first()?)),
        }
    }

    /// Whether pods of profile `id` stay in their domain: rules of their own are about it, or they come before pods whose
    /// rules are. On a new node they also stay for pods that must be with them.
    fn keeps_domain(&self, asked: Asked, id: ProfileIx) -> bool {
        let topology = &self.filling.topology;
        let is_about_it = match asked {
            Asked::AtBest => topology.asks_for_domains(id),
            Asked::AsPlaced => topology.has_rules_about_domains(id),
        };
        is_about_it || topology.turn(id) <= Turn::First
    }

    /// Chooses units for the places of `slots`: those that keep others off first, apart from each other. What finds no place
    /// of its size goes where there is room, and what finds none goes to slots of its own at the end.
    fn choose(
        &mut self,
        sizes: &InternedMap<Key, Vec<&Unit>>,
        known: &[Size],
        machines: &[Machine],
        slots: &mut Vec<Slot>,
    ) {
        let topology = &self.filling.topology;
        let mut waiting: Vec<Vec<Option<&Unit>>> =
            sizes.values().map(|units| units.iter().copied().map(Some).collect()).collect();
        for (size, units) in waiting.iter_mut().enumerate() {
            for entry in units.iter_mut() {
                let Some(unit) = entry.filter(|unit| unit.turn == Turn::Last) else { continue };
                let open = slots.iter().enumerate().filter_map(|(number, slot)| {
                    let place = slot.place_of(size).filter(|_| slot.admits(unit, topology))?;
                    Some((slot.all * (slot.keeping_off + 1), number, place))
                });
                if let Some((_, number, place)) = open.min() {
                    slots[number].places[place].1 -= 1;
                    slots[number].put(unit, &known[size], topology);
                    *entry = None;
                }
            }
        }
        for turn in [Turn::Together, Turn::Spread, Turn::First, Turn::Then] {
            for slot in slots.iter_mut() {
                for place in 0..slot.places.len() {
                    let (size, _) = slot.places[place];
                    for entry in &mut waiting[size] {
                        if slot.places[place].1 == 0 {
                            break;
                        }
                        let fitting = entry.filter(|unit| unit.turn == turn && slot.admits(unit, topology));
                        if let Some(unit) = fitting {
                            slot.places[place].1 -= 1;
                            slot.put(unit, &known[size], topology);
                            *entry = None;
                        }
                    }
                }
            }
        }
        let mut left: Vec<(&Size, &Unit)> = Vec::new();
        for (size, units) in known.iter().zip(&waiting) {
            left.extend(units.iter().flatten().map(|unit| (size, *unit)));
        }
        left.sort_by(|a, b| b.0.amounts.cmp(&a.0.amounts));
        for (size, unit) in left {
            let takes = |slot: &Slot| slot.has_room(size) && slot.admits(unit, topology);
            let number = slots.iter().position(takes);
            let number = number.unwrap_or_else(|| {
                // The largest machine, which will be as small as what is put on it allows.
                let taking = machines.iter().filter(|machine| machine.takes(size));
                let room = taking.max_by_key(|machine| machine.price).map(|machine| machine.room.clone());
                slots.push(Slot {
                    accepts: 1 << size.kind,
                    free: room.unwrap_or_default(),
                    ..Slot::default()
                });
                slots.len() - 1
            });
            slots[number].put(unit, size, topology);
        }
    }

    /// The node that `units` of these `kinds` are to share.
    fn target(&mut self, units: &[Unit], kinds: &[usize], stock: &Stock) -> Option<Target> {
        let mut demand = self.compiled.levels.demand(units.first()?.level).clone();
        let mut rules = stock.kinds[*kinds.first()?];
        for kind in kinds {
            rules = self.caches.rules.meet(rules, stock.kinds[*kind])?;
        }
        let (mut pods, mut total) = (Vec::new(), Amounts::default());
        for unit in units {
            for pod in &unit.pods {
                total.add(&self.compiled.levels.demand(*self.compiled.levels(*pod).first()?).amounts);
                pods.push(*pod);
            }
        }
        demand.rules = Some(rules);
        demand.amounts = total;
        Some(Target { demand: Some(demand), pods })
    }
}
