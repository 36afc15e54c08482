//! A second plan in which pods that ask for different nodes do not share one, taken where it is much cheaper.
//!
//! An in-flight node is narrowed by every pod that joins it: one pod that wants on-demand makes a node of pods that would
//! do with spot an expensive one, and one that wants a certain type keeps all others from the cheapest. First-fit cannot
//! see that, because it compares no prices. Keeping such pods apart costs room at the end of each kind of node instead, so
//! neither plan is the better one in general: both are made, by the same code, and the first is kept unless the second
//! saves [`LEAST_SAVING`]. A pod that has a place in the first has one in the second, and in no lighter pool.
//!
//! Only where pods with different requirements share an in-flight node, and nothing is reserved: reserved instances have
//! prices that depend on their holders.

use super::Solver;
use super::filling::Filling;
use crate::index::InFlightIx;

/// The share of the price, in percent, that must be saved to be worth more nodes and another plan than before.
const LEAST_SAVING: i64 = 15;

impl<'a> Solver<'a> {
    /// Takes the plan in which pods that ask for different nodes share none, if it is cheaper. `empty` is the filling
    /// before any pod had a place.
    pub(super) fn keep_apart(&mut self, empty: &Filling<'a>) {
        if !self.may_keep_apart() || !self.mixes() {
            return;
        }
        let Some(price) = self.price() else { return };
        let apart = self.attempt(empty, |solver| {
            solver.filling.apart = true;
            let waiting = solver.keep_promises(solver.compiled.queue.positions().collect());
            solver.place_all(waiting);
            solver.repack();
        });
        if let Some((cheaper, filling)) = apart
            // At least something, because the share of a very low price is zero in whole billionths.
            && price - cheaper >= (price / 100 * LEAST_SAVING).max(1)
        {
            self.filling = filling;
        }
    }

    /// Returns whether there may be pods to keep apart: some ask for different nodes, and nothing is reserved.
    pub(super) fn may_keep_apart(&self) -> bool {
        let mut rules = self.compiled.levels.demands().map(|demand| demand.rules);
        let first = rules.next();
        self.filling.reservations.is_empty() && rules.any(|other| Some(other) != first)
    }

    /// Returns whether pods that ask for different nodes share one.
    fn mixes(&self) -> bool {
        self.filling.in_flight.iter().any(|node| {
            let levels = node.pods.iter().filter_map(|pod| self.compiled.levels(*pod).first());
            let mut rules = levels.map(|level| self.compiled.levels.demand(*level).rules);
            let first = rules.next();
            rules.any(|other| Some(other) != first)
        })
    }

    /// Returns the least total price of all in-flight nodes, in billionths of a dollar an hour; `None` where a price
    /// is not known.
    pub(super) fn price(&mut self) -> Option<i64> {
        let numbers: Vec<InFlightIx> = self.filling.in_flight.positions().collect();
        self.price_of(&numbers)
    }

    /// Returns the least total price of these in-flight nodes, in billionths of a dollar an hour; `None`
    /// where a price is not known.
    pub(super) fn price_of(&mut self, numbers: &[InFlightIx]) -> Option<i64> {
        let Self { compiled, caches, filling } = self;
        let mut total: i64 = 0;
        let nodes = numbers.iter().map(|number| &filling.in_flight[*number]);
        for node in nodes.filter(|node| !node.pods.is_empty()) {
            let catalogue = &mut caches.catalogues[compiled.pools.spaces[node.pool].catalogue];
            let least = catalogue.least_price(node.state.rules, &node.state.variants, &caches.rules)?;
            total = total.saturating_add(least.nanos());
        }
        Some(total)
    }
}
