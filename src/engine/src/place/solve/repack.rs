//! The second stage: repack the pods of similar in-flight nodes where that is cheaper.
//!
//! Placing fills open in-flight nodes before it opens others, as users of the reference expect. Where sizes are coarse
//! that is expensive: one pod too many turns a node of four cores into one of eight. Once every pod has its place,
//! similar in-flight nodes are compared with the cheapest way to pack their pods: every partition for a few pods, some
//! splits in order of size for many.
//!
//! Repacked nodes keep the requirements of the old ones, so whatever was true of those (zones, taints, volumes, rules
//! about domains) stays true. They are compared at their price without reservations; when all is packed, those that
//! could use an unreserved instance of one get it. Nodes for which other instance types could be wrong are left alone:
//! reservations, `minValues`, host ports, shared volumes, devices, daemons that not every instance type gets, and
//! co-located pods. Pods of
//! different nodes are mixed only where none has a rule about hosts. In a pool with limits, new nodes take no more of it
//! than the old ones and what is left.

use std::collections::BTreeMap;

use karpenter_model::{HostPorts, Price};

use super::{Query, Solver};
use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::index::{InFlightIx, Ix, PodIx, PoolIx, VariantIx};
use crate::place::claim;
use crate::place::in_flight::{self, InFlightNode, State};
use crate::place::topology::HostRules;
use crate::rules::RuleSetId;

/// Most candidate nodes that are priced in a pass, so that its time does not grow with the number of nodes.
const MOST_PRICED: usize = 8_000;
/// Up to this many pods every partition is considered: 2^7 subsets are priced, 3^7 pairs compared.
const FEW: usize = 7;
/// Most splits that are considered for more.
const MOST_SPLITS: usize = 15;
/// The share of the price, in percent, that must be saved to be worth another node.
const LEAST_SAVING: i64 = 5;

/// One node of a repacking: what it may be, its pods and its least price.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) state: State,
    pub(super) pods: Vec<PodIx>,
    pub(super) price: Price,
}

impl Solver<'_> {
    /// Repacks in-flight nodes where that saves money.
    pub(super) fn repack(&mut self) {
        let mut left = MOST_PRICED;
        let mut number = InFlightIx::new(0);
        // A split adds a node at the end, which is looked at in its turn.
        while number < self.filling.in_flight.end() && left > 0 {
            // The rest of a split may be worth another one.
            while self.filling.in_flight[number].pods.len() > FEW && self.split(number, &mut left) {}
            number = number.next();
        }
        for nodes in self.similar() {
            // One partition prices so many nodes at most.
            if (1 << FEW) > left {
                break;
            }
            self.partition(&nodes, &mut left);
        }
    }

    /// Gives in-flight nodes without a reservation an instance of one they could use, as long as any are left. Last of
    /// all, because prices of reserved instances would make every comparison of nodes depend on the order.
    pub(super) fn reserve_left(&mut self) {
        if self.filling.reservations.is_empty() {
            return;
        }
        for number in self.filling.in_flight.positions() {
            let node = &self.filling.in_flight[number];
            // Other instance types could take more of the limits than was charged.
            if node.pods.is_empty()
                || !self.filling.limits[node.pool].is_unlimited()
                || !self.may_change(node)
            {
                continue;
            }
            let Self { compiled, caches, filling } = self;
            let node = &mut filling.in_flight[number];
            let space = &compiled.pools.spaces[node.pool];
            let catalogue = &mut caches.catalogues[space.catalogue];
            let mask = catalogue.mask(node.state.rules, &caches.rules);
            let variants =
                in_flight::fitting(&node.state.total, &space.base.and(&mask.both), &[], space, catalogue);
            let compatible = catalogue.reservations_of(&variants, &mask);
            let Ok(reserved) = filling.reservations.reservable(number, compatible) else { continue };
            if !reserved.is_empty() {
                filling.reservations.hold(number, &reserved);
                (node.state.variants, node.state.reserved) = (variants, reserved);
            }
        }
    }

    /// In-flight nodes in sets of the same pool and requirements that have few pods together.
    fn similar(&self) -> Vec<Vec<InFlightIx>> {
        let mut sets: Vec<Vec<InFlightIx>> = Vec::new();
        let mut growing: BTreeMap<(PoolIx, RuleSetId), usize> = BTreeMap::new();
        for (number, node) in self.filling.in_flight.enumerate() {
            let rules = self.host_rules(node);
            if node.pods.len() > FEW || rules == HostRules::Together || !self.may_change(node) {
                continue;
            }
            // A pod with a rule about hosts may not meet others, so its node is a set of its own.
            let place = growing.get(&(node.pool, node.state.rules)).filter(|_| rules == HostRules::None);
            let pods = |set: &Vec<InFlightIx>| {
                set.iter().map(|node| self.filling.in_flight[*node].pods.len()).sum::<usize>()
            };
            if let Some(place) = place.filter(|place| pods(&sets[**place]) + node.pods.len() <= FEW) {
                sets[*place].push(number);
                continue;
            }
            if rules == HostRules::None {
                growing.insert((node.pool, node.state.rules), sets.len());
            }
            sets.push(vec![number]);
        }
        sets
    }

    /// Packs the pods of `nodes` in the cheapest way there is: dynamic programming over subsets, as bits.
    fn partition(&mut self, nodes: &[InFlightIx], left: &mut usize) {
        let mut pods: Vec<PodIx> =
            nodes.iter().flat_map(|node| self.filling.in_flight[*node].pods.clone()).collect();
        // In the order of the queue, so that the result does not depend on which node a pod came from.
        pods.sort_unstable();
        let like = nodes[0];
        let allowed = self.query().allowed(like);
        let full = (1usize << pods.len()) - 1;
        *left = left.saturating_sub(full);
        let prices = self.query().prices(like, &allowed, &pods);
        // Per set of pods: the least price, and the subset that shares the node of its first pod then.
        let mut best: Vec<Option<(i64, usize)>> = vec![None; full + 1];
        best[0] = Some((0, 0));
        for set in 1..=full {
            // The first pod is on some node: trying every node with it covers each partition once.
            let first = set & set.wrapping_neg();
            let others = set & !first;
            let mut rest = others;
            loop {
                let node = set & !rest;
                if let (Some(node_price), Some((price, _))) = (prices[node], best[rest]) {
                    let price = price.saturating_add(node_price.nanos());
                    if best[set].is_none_or(|(least, _)| price < least) {
                        best[set] = Some((price, node));
                    }
                }
                if rest == 0 {
                    break;
                }
                rest = (rest - 1) & others;
            }
        }
        let mut parts = Vec::new();
        let mut rest = full;
        while rest != 0 {
            let Some((_, node)) = best[rest] else { return };
            let members = (0..pods.len()).filter(|place| node >> place & 1 == 1).map(|place| pods[place]);
            parts.extend(self.query().part(like, &allowed, members.collect()));
            rest &= !node;
        }
        self.replace(nodes, parts);
    }

    /// Splits in-flight node `number` in two, in order of size, where that saves most; returns whether it saves anything.
    fn split(&mut self, number: InFlightIx, left: &mut usize) -> bool {
        let node = &self.filling.in_flight[number];
        // Pods that must share a host have no place on two nodes.
        if self.host_rules(node) == HostRules::Together || !self.may_change(node) {
            return false;
        }
        let mut pods = node.pods.clone();
        pods.sort_unstable();
        let mut query = self.query();
        let allowed = query.allowed(number);
        let mut best: Option<(i64, usize)> = None;
        for (place, totals) in query.split_totals(&pods) {
            *left = left.saturating_sub(2);
            let [staying, leaving] = totals.map(|total| query.fitting_at(number, &allowed, &total));
            let (Some((_, staying)), Some((_, leaving))) = (staying, leaving) else { continue };
            let price = staying.nanos().saturating_add(leaving.nanos());
            if best.is_none_or(|(least, _)| price < least) {
                best = Some((price, place));
            }
        }
        let Some((_, place)) = best else { return false };
        let (staying, leaving) = pods.split_at(place);
        let parts = [staying, leaving].map(|pods| query.part(number, &allowed, pods.to_vec()));
        let parts = parts.into_iter().flatten().collect();
        self.replace(&[number], parts)
    }

    /// Puts `parts` in place of `nodes` if that saves enough; returns whether it does.
    fn replace(&mut self, nodes: &[InFlightIx], mut parts: Vec<Part>) -> bool {
        let mut query = self.query();
        let now = nodes.iter().filter_map(|node| {
            let allowed = query.allowed(*node);
            query.part(*node, &allowed, query.filling.in_flight[*node].pods.clone())
        });
        let before = price(&now.collect::<Vec<_>>());
        let saving = before - price(&parts);
        // One more node has costs that are in no price (start-up, another kubelet), so a trifle is not enough.
        let enough = if parts.len() > nodes.len() { before / 100 * LEAST_SAVING } else { 1 };
        if saving < enough.max(1) {
            return false;
        }
        if !self.stays_within_limits(nodes, &mut parts) {
            return false;
        }
        self.put(nodes, parts);
        true
    }

    /// Puts `parts` in place of `nodes`.
    pub(super) fn put(&mut self, nodes: &[InFlightIx], parts: Vec<Part>) {
        let pool = self.filling.in_flight[nodes[0]].pool;
        // Nodes that are left over stay in the list without pods: positions are used elsewhere.
        for node in nodes {
            self.filling.in_flight[*node].pods.clear();
        }
        let mut free = nodes.iter();
        for Part { state, pods, .. } in parts {
            let node = InFlightNode { pool, state, ports: HostPorts::default(), pods, devices: None };
            match free.next() {
                Some(number) => self.filling.in_flight[*number] = node,
                None => drop(self.filling.in_flight.push(node)),
            }
        }
    }

    /// Returns whether other instance types would do as well for `node`, rules about hosts and limits aside.
    pub(super) fn may_change(&self, node: &InFlightNode) -> bool {
        let State { rules, attached, reserved, .. } = &node.state;
        reserved.is_empty()
            && attached.is_empty()
            && !self.caches.rules.has_min_values(*rules)
            && node.ports.is_empty()
            && node.devices.is_none()
            && !self.minds_daemons(node)
    }

    /// Returns whether other instance types could have daemons that do not suit the pods of `node`.
    fn minds_daemons(&self, node: &InFlightNode) -> bool {
        let space = &self.compiled.pools.spaces[node.pool];
        let profiles = node.pods.iter().filter_map(|pod| self.compiled.profile(*pod));
        let mut profiles =
            profiles.filter(|id| self.filling.topology.minds_daemons(*id, space, &self.caches.rules));
        profiles.next().is_some()
    }

    /// Returns the rules of the pods of `node` about sharing a host.
    pub(super) fn host_rules(&self, node: &InFlightNode) -> HostRules {
        let levels = node.pods.iter().flat_map(|pod| self.compiled.levels(*pod));
        let profiles = levels.filter_map(|level| self.compiled.levels.profile(*level));
        profiles.map(|id| self.filling.topology.host_rules(id)).max().unwrap_or_default()
    }
}

impl Query<'_, '_> {
    /// The requirements a node like in-flight node `like` has as long as it holds no reservation.
    pub(super) fn unreserved(&mut self, like: InFlightIx) -> Option<RuleSetId> {
        let node = &self.filling.in_flight[like];
        self.without_reservation(node.pool, node.state.rules)
    }

    /// Returns the rest of the requirements `rules` of a node of `pool` as long as it holds no reservation.
    pub(super) fn without_reservation(&mut self, pool: PoolIx, rules: RuleSetId) -> Option<RuleSetId> {
        let catalogue = &self.caches.catalogues[self.compiled.pools.spaces[pool].catalogue];
        if self.filling.reservations.is_empty() || !catalogue.has_reservations() {
            return Some(rules);
        }
        let unreserved = claim::unreserved(&mut self.caches.rules);
        self.caches.rules.meet(rules, unreserved)
    }

    /// The instance types a node like in-flight node `like` may be without a reservation, whatever its pods
    /// request.
    pub(super) fn allowed(&mut self, like: InFlightIx) -> Bits<VariantIx> {
        let Some(rules) = self.unreserved(like) else { return Bits::default() };
        let space = &self.compiled.pools.spaces[self.filling.in_flight[like].pool];
        let catalogue = &mut self.caches.catalogues[space.catalogue];
        space.base.and(&catalogue.mask(rules, &self.caches.rules).both)
    }

    /// Returns per set of `pods`, as bits, the least price of a node like in-flight node `like`, which may be any of
    /// `allowed`, for them.
    fn prices(&mut self, like: InFlightIx, allowed: &Bits<VariantIx>, pods: &[PodIx]) -> Vec<Option<Price>> {
        let Some(rules) = self.unreserved(like) else { return vec![None; 1 << pods.len()] };
        let Self { compiled, filling, caches } = self;
        let space = &compiled.pools.spaces[filling.in_flight[like].pool];
        let catalogue = &mut caches.catalogues[space.catalogue];
        let (mut fitting, mut scratch) = (Bits::default(), Bits::default());
        let mut totals = vec![Amounts::default()];
        let mut prices = vec![None];
        for set in 1..1usize << pods.len() {
            let first = pods[set.trailing_zeros() as usize];
            let mut total = totals[set & (set - 1)].clone();
            if let Some(level) = compiled.levels(first).first() {
                total.add(&compiled.levels.demand(*level).amounts);
            }
            in_flight::fit(&total, allowed, &[], space, catalogue, &mut fitting, &mut scratch);
            prices.push(catalogue.least_price(rules, &fitting, &caches.rules));
            totals.push(total);
        }
        prices
    }

    /// A node like in-flight node `like`, which may be any of `allowed`, for `pods`; `None` when no instance type
    /// would do.
    pub(super) fn part(
        &mut self,
        like: InFlightIx,
        allowed: &Bits<VariantIx>,
        pods: Vec<PodIx>,
    ) -> Option<Part> {
        let mut total = Amounts::default();
        for pod in &pods {
            self.add_amounts(*pod, &mut total);
        }
        let (variants, price) = self.fitting_at(like, allowed, &total)?;
        let rules = self.filling.in_flight[like].state.rules;
        Some(Part { state: State::bare(rules, total, variants), pods, price })
    }

    /// Returns the instance types of `allowed` that hold `total`, for a node like in-flight node `like`, and the least
    /// price of one; `None` when there is none.
    fn fitting_at(
        &mut self,
        like: InFlightIx,
        allowed: &Bits<VariantIx>,
        total: &Amounts,
    ) -> Option<(Bits<VariantIx>, Price)> {
        let unreserved = self.unreserved(like)?;
        let space = &self.compiled.pools.spaces[self.filling.in_flight[like].pool];
        let catalogue = &mut self.caches.catalogues[space.catalogue];
        let variants = in_flight::fitting(total, allowed, &[], space, catalogue);
        let price = catalogue.least_price(unreserved, &variants, &self.caches.rules)?;
        Some((variants, price))
    }

    /// The places where `pods` are split, with what those before and those after each of them request together.
    fn split_totals(&self, pods: &[PodIx]) -> Vec<(usize, [Amounts; 2])> {
        let places = splits(pods.len());
        // Each sum goes on from the one before it, so that no pod is added twice.
        let mut total = Amounts::default();
        let mut added = 0;
        let before = places.iter().map(|place| {
            pods[added..*place].iter().for_each(|pod| self.add_amounts(*pod, &mut total));
            added = *place;
            total.clone()
        });
        let before: Vec<Amounts> = before.collect();
        let mut total = Amounts::default();
        let mut left = pods.len();
        let after = places.iter().rev().map(|place| {
            pods[*place..left].iter().for_each(|pod| self.add_amounts(*pod, &mut total));
            left = *place;
            total.clone()
        });
        let after: Vec<Amounts> = after.collect();
        let totals = before.into_iter().zip(after.into_iter().rev()).map(<[Amounts; 2]>::from);
        places.into_iter().zip(totals).collect()
    }

    /// Adds what the pod at `index` requests to `total`.
    fn add_amounts(&self, index: PodIx, total: &mut Amounts) {
        if let Some(level) = self.compiled.levels(index).first() {
            total.add(&self.compiled.levels.demand(*level).amounts);
        }
    }
}

/// Returns the sum of the prices of `parts`, in nano-dollars.
pub(super) fn price(parts: &[Part]) -> i64 {
    parts.iter().fold(0, |sum, part| part.price.nanos().saturating_add(sum))
}

/// Returns the positions at which `pods` pods are split in two.
fn splits(pods: usize) -> Vec<usize> {
    let mut splits: Vec<usize> = (1..=MOST_SPLITS).map(|split| pods * split / (MOST_SPLITS + 1)).collect();
    splits.dedup();
    splits.retain(|split| *split > 0);
    splits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_leave_something_on_both_sides() {
        for pods in 0..300 {
            let splits = splits(pods);
            assert!(splits.len() <= MOST_SPLITS);
            assert!(splits.iter().all(|split| (1..pods).contains(split)), "{pods}: {splits:?}");
            assert_eq!(splits.is_empty(), pods < 2, "{pods}");
        }
    }
}
