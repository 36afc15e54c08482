//! New nodes whose domain the plan leaves open, and spread constraints that would count it.
//!
//! The scheduler counts domains that have a node. One that comes up where no node was, for the sake of other pods, is a domain
//! without pods of the constraint: those that have a place in the plan would be too many elsewhere. Such a node keeps out of such
//! a domain, if it has another choice. Pinning it to one domain would cost more, and find less capacity.

use super::Solver;
use crate::place::constraint::min_values;

impl Solver<'_> {
    /// Keeps new nodes out of domains in which they would break a spread constraint of a pod that has a place.
    pub(super) fn keep_out(&mut self) {
        let Self { compiled, caches, filling } = self;
        let fragile = filling.topology.fragile();
        for node in filling.in_flight.iter_mut().filter(|_| !fragile.is_empty()) {
            // It is where its reservations are.
            if node.pods.is_empty() || !node.state.reserved.is_empty() {
                continue;
            }
            let space = &compiled.pools.spaces[node.pool];
            let catalogue = &mut caches.catalogues[space.catalogue];
            let requirements = caches.rules.whole(node.state.rules);
            let taints = &space.pool.template.taints;
            for harmless in filling.topology.harmless(&fragile, &requirements, taints) {
                let asked = caches.rules.set(&[harmless].into_iter().collect());
                let Some(set) = caches.rules.meet(node.state.rules, asked) else { continue };
                let variants = node.state.variants.and(&catalogue.mask(set, &caches.rules).both);
                let short = min_values::shortfalls(set, variants.iter(), catalogue, &caches.rules);
                if !variants.is_empty() && short.is_empty() {
                    (node.state.rules, node.state.variants) = (set, variants);
                }
            }
        }
    }
}
