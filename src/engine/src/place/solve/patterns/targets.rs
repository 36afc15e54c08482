//! Pods of a plan that are to share a new node, those with rules about hosts among them: as [patterns](super::packing) have
//! it, or as they do with [machines filled up](super::fuller).
//!
//! Nothing is moved here, and targets are only proposals: each pod is then placed by the code that places every pod, which
//! refuses what a rule forbids. So rules are kept here only as far as that makes targets come true. Pods with rules about
//! domains stay in their domain, groups that must share a host are one unit, and a pattern has no more pods of a kind than
//! may share a host, if such pods need about as many nodes as the plan has. Other rules about hosts are looked at when pods
//! are chosen for the places of a pattern.
//!
//! Nodes are looked at pool by pool: their pods become a [`Stock`] of units, and a packing of these becomes targets.

mod slots;
mod stock;

use std::collections::BTreeMap;

use super::fuller::{self, Loads};
use super::kinds::keep_best;
use super::packing::{self, MOST_KINDS, Machine, Pattern, Size};
use super::{NODE, Units};
use crate::amounts::Amounts;
use crate::index::{GroupIx, InFlightIx, IxVec, MachineIx, PoolIx, UnitIx, each};
use crate::interning::InternedMap;
use crate::place::solve::rearranged::Target;
use crate::place::solve::{Query, Solver};
use crate::rules::KeyId;
use slots::{Choice, Slot};
use stock::{DemandView, SizeKey, Stock, Unit};

/// Pools with more sizes of pods of all kinds are left as they are: filling one machine looks at every size.
const MOST_SIZES: usize = 1_024;
/// Looks at a size, times the number of pods, after which no further round of filling a machine is begun, because a
/// machine with more pods takes more looks; the number of looks alone is at most [`MOST_LOOKS`].
const MOST_WORK: usize = 200_000_000;
/// Largest number of looks at a size, whatever the number of pods.
const MOST_LOOKS: usize = 200_000;
/// Cheap machines that are looked at beside those that hold most for their price, where a rule limits pods on a host.
const CHEAPEST: usize = 6;
/// Number of corrections of the values of sizes.
const ROUNDS: usize = 24;
/// Number of pods above which none moves to where there is room, so that the time of a pass stays what it is.
const MOST_MOVED: usize = 2_000;
/// The share of the price, in percent, that pods that move have to save.
const LEAST_SAVING: i64 = 1;

impl Solver<'_> {
    /// Returns the pods of this plan that are to share a new node, if patterns promise a cheaper plan.
    pub(in crate::place::solve) fn targets(&mut self) -> Option<Vec<Target>> {
        self.targets_by(DemandView::AtBest, Self::packed)
    }

    /// Returns the pods of this plan that are to share a new node, if filling what is paid for promises a cheaper plan.
    pub(in crate::place::solve) fn fuller_targets(&mut self) -> Option<Vec<Target>> {
        self.targets_by(DemandView::AsPlaced, Self::fuller)
    }

    /// Nodes as `pack` has them, pool by pool; those of a pool for which it promises nothing stay. `None` where it promises
    /// nothing at all.
    fn targets_by(
        &mut self,
        view: DemandView,
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
                targets.push(self.as_it_is(number));
                continue;
            }
            let stock = stocks.entry(node.pool).or_default();
            self.query().take_stock(number, &keys, view, stock)?;
        }
        let mut promising = false;
        for (pool, stock) in stocks {
            match pack(self, pool, &stock) {
                Some(packed) => {
                    promising = true;
                    targets.extend(packed);
                }
                None => targets.extend(stock.nodes.iter().map(|node| self.as_it_is(node.number))),
            }
        }
        promising.then_some(targets)
    }

    /// In-flight node `number` once more.
    fn as_it_is(&self, number: InFlightIx) -> Target {
        Target { demand: None, pods: self.filling.in_flight[number].pods.clone() }
    }

    /// The nodes of `stock`, of `pool`, as patterns have them; `None` where they promise nothing.
    fn packed(&mut self, pool: PoolIx, stock: &Stock) -> Option<Vec<Target>> {
        let sizes = stock.sizes();
        if stock.kinds.len() > MOST_KINDS || sizes.len() > MOST_SIZES || stock.nodes.len() < 2 {
            return None;
        }
        let units = Units::exact(sizes.keys().map(|size| size.amounts), &stock.total);
        let mut machines = self.query().machines(pool, &stock.kinds, &units);
        let cheapest = if sizes.keys().any(|size| size.limit.is_some()) { CHEAPEST } else { 0 };
        keep_best(&mut machines, &units.ceiled(&stock.total), cheapest);
        let nodes: Vec<InFlightIx> = stock.nodes.iter().map(|node| node.number).collect();
        let before = self.price_of(&nodes)?;
        let number = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
        // Cost of a node in addition to its price, so that patterns with fewer nodes win where prices are close.
        let each = before / number * NODE / 100;
        for machine in &mut machines {
            machine.price = machine.price.saturating_add(each);
        }
        let known = packing_sizes(&sizes, &units, stock);
        let with_nodes = before.saturating_add(each * number);
        let looks = (MOST_WORK / stock.units.len().max(1)).min(MOST_LOOKS);
        let patterns = packing::patterns(&known, &machines, with_nodes, (ROUNDS, looks))?;
        let mut slots: Vec<Slot> = Vec::new();
        for Pattern { machine, pods, times } in patterns {
            slots.extend((0..times).map(|_| Slot::new(&machines[machine], pods.clone())));
        }
        let topology = &self.filling.topology;
        let choice = Choice { stock, sizes: &known, machines: &machines, topology };
        let chosen = choice.made(slots, sizes.into_values().collect());
        self.query().targets_for(&chosen, stock)
    }

    /// The nodes of `stock`, of `pool`, with pods moved to where there is room that is paid for; `None` where that saves too
    /// little.
    fn fuller(&mut self, pool: PoolIx, stock: &Stock) -> Option<Vec<Target>> {
        if stock.kinds.len() > MOST_KINDS || stock.units.len() > MOST_MOVED {
            return None;
        }
        let units = Units::exact(stock.units.iter().map(|unit| &unit.amounts), &stock.total);
        let machines: IxVec<MachineIx, Machine> = self.query().machines(pool, &stock.kinds, &units).into();
        let known = stock.units.iter().map(|Unit { kind, amounts, profiles, turn, .. }| fuller::Unit {
            kind: *kind,
            amounts: units.ceiled(amounts),
            profiles: profiles.clone(),
            turn: *turn,
        });
        let known: IxVec<UnitIx, fuller::Unit> = known.collect();
        let placed = stock.nodes.iter().map(|node| each(&node.units).collect());
        let mut loads = Loads::new(&known, &machines, &self.filling.topology, placed)?;
        let before = loads.price();
        fuller::fill(&mut loads);
        if before - loads.price() < (before / 100 * LEAST_SAVING).max(1) {
            return None;
        }
        let placed: Vec<Vec<UnitIx>> = loads.placed().collect();
        self.query().targets_for(&placed, stock)
    }
}

impl Query<'_, '_> {
    /// The node that each of `placed`, units of `stock`, are to share.
    fn targets_for(&mut self, placed: &[Vec<UnitIx>], stock: &Stock) -> Option<Vec<Target>> {
        placed.iter().map(|units| self.target(units, stock)).collect()
    }

    /// The node that `units` of `stock` are to share.
    fn target(&mut self, units: &[UnitIx], stock: &Stock) -> Option<Target> {
        let first = &stock.units[*units.first()?];
        let mut demand = self.compiled.levels.demand(first.level).clone();
        let mut rules = stock.kinds[first.kind];
        let (mut pods, mut total) = (Vec::new(), Amounts::default());
        for unit in units.iter().map(|unit| &stock.units[*unit]) {
            rules = self.caches.rules.meet(rules, stock.kinds[unit.kind])?;
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

/// `sizes` of `stock` as the packing takes them, with the rules that limit them numbered from zero.
fn packing_sizes(sizes: &InternedMap<SizeKey<'_>, Vec<UnitIx>>, units: &Units, stock: &Stock) -> Vec<Size> {
    let mut groups: BTreeMap<GroupIx, usize> = BTreeMap::new();
    let size = |(SizeKey { kind, limit, amounts }, of_size): (&SizeKey<'_>, &Vec<UnitIx>)| {
        let cap = limit.map(|group| {
            let number = groups.len();
            (*groups.entry(group).or_insert(number), stock.limits[&group].most_on_host)
        });
        Size { amounts: units.ceiled(amounts), count: of_size.len(), kind: *kind, cap }
    };
    sizes.iter().map(size).collect()
}
