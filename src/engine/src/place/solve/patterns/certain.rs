//! New nodes that need not wait for the rest of a batch, because pods that come later could hardly make them cheaper.
//!
//! A node is certain when it costs hardly more than [a bound](super::packing::least_price) on what its pods cost on any
//! machines, however full. It may cost somewhat more if no pod like its own would fit beside them: the rest of its room is
//! for smaller pods that may still come. A small node may be as cheap, and would still be one node too many if others like
//! its pods followed: so it must have [`MANY`] pods, or no machine may have room for twice as much. Left out are nodes for
//! which other instance types could be wrong, as in [repacking](crate::place::solve::repack), and pods with rules about
//! others: where those belong depends on pods that may still come.

use std::collections::BTreeSet;

use super::packing::{self, Machine};
use super::{Query, Solver, Units, room_of};
use crate::amounts::Amounts;
use crate::index::InFlightIx;
use crate::place::in_flight::InFlightNode;

/// Largest excess of the price of a node over the bound, in percent.
const ABOVE_BOUND: i64 = 2;
/// Largest excess where no pod like those of the node would fit beside them, in percent.
const ABOVE_BOUND_IF_FULL: i64 = 10;
/// Number of pods that make a node worth having, whatever its size.
const MANY: usize = 32;

impl Solver<'_> {
    /// The new nodes that are certain.
    pub(in crate::place::solve) fn certain(&mut self) -> BTreeSet<InFlightIx> {
        let alike = self.by_rules(|node| self.may_change(node) && !self.minds_others(node));
        let mut certain = BTreeSet::new();
        for nodes in alike.into_values() {
            let mut total = Amounts::default();
            for number in &nodes {
                total.add(&self.filling.in_flight[*number].state.total);
            }
            let units = Units::fine(&total);
            let mut query = self.query();
            let allowed = query.allowed(nodes[0]);
            let offered = query.offered(nodes[0], &allowed, &units);
            certain.extend(nodes.into_iter().filter(|number| query.is_certain(*number, &units, &offered)));
        }
        certain
    }

    /// Returns whether a pod of `node` has a rule about other pods, or others have one about it.
    fn minds_others(&self, node: &InFlightNode) -> bool {
        let bound = |pod| self.filling.topology.bound(self.compiled.profile(pod)).is_some();
        node.pods.iter().any(|pod| bound(*pod))
    }
}

impl Query<'_, '_> {
    /// Returns whether new node `number`, in the place of which any of `offered` could be, is certain.
    fn is_certain(&mut self, number: InFlightIx, units: &Units, offered: &[Machine]) -> bool {
        let Some(rules) = self.unreserved(number) else { return false };
        let Self { compiled, filling, caches } = self;
        let node = &filling.in_flight[number];
        let amounts = units.ceiled(&node.state.total);
        let holds_twice =
            |machine: &Machine| amounts.iter().zip(&machine.room).all(|(amount, room)| 2 * amount <= *room);
        if node.pods.len() < MANY && offered.iter().any(holds_twice) {
            return false;
        }
        let space = &compiled.pools.spaces[node.pool];
        let catalogue = &mut caches.catalogues[space.catalogue];
        let ranked = catalogue.ranked(rules, &caches.rules);
        let Some(least) = ranked.iter().find(|one| node.state.variants.contains(one.variant)) else {
            return false;
        };
        let (price, variant) = (least.cheapest.price.nanos(), least.variant);
        let bound = packing::least_price(&amounts, offered);
        let is_within = |percent: i64| price <= bound.saturating_add(bound / 100 * percent);
        if is_within(ABOVE_BOUND) || !is_within(ABOVE_BOUND_IF_FULL) {
            return is_within(ABOVE_BOUND);
        }
        let Some(mut left) = room_of(variant, space, catalogue) else { return false };
        left.subtract(&node.state.total);
        let demands = node.pods.iter().filter_map(|pod| compiled.levels(*pod).first());
        demands.map(|level| &compiled.levels.demand(*level).amounts).all(|amounts| !amounts.fits(&left))
    }
}
