//! The pods of one pool on nodes that may be others, as units that move together.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::amounts::Amounts;
use crate::index::{GroupIx, InFlightIx, IxVec, LevelIx, PodIx, ProfileIx, UnitIx};
use crate::interning::InternedMap;
use crate::place::solve::Query;
use crate::place::topology::Turn;
use crate::rules::{KeyId, RuleSetId};

/// A rule about hosts is part of patterns where its pods need at least one in this number of nodes of a plan.
const MATTERS: usize = 3;

/// View of the demand of pods that may move.
#[derive(Debug, Clone, Copy)]
pub(super) enum DemandView {
    /// Demand on a new node.
    AtBest,
    /// Demand that they could have where they are.
    AsPlaced,
}

/// The units of a pool.
#[derive(Default)]
pub(super) struct Stock {
    /// The requirements of each kind, those of the pool among them.
    pub(super) kinds: Vec<RuleSetId>,
    numbers: BTreeMap<RuleSetId, usize>,
    pub(super) units: IxVec<UnitIx, Unit>,
    pub(super) nodes: Vec<StockNode>,
    /// Sum of the requests of all units.
    pub(super) total: Amounts,
    /// Limits by the rule about hosts that sets them.
    pub(super) limits: BTreeMap<GroupIx, Limit>,
}

/// Pods that go to a node together: one, or a group that must share a host.
pub(super) struct Unit {
    pub(super) pods: Vec<PodIx>,
    /// The first level of its first pod.
    pub(super) level: LevelIx,
    /// Number of its requirements among [`Stock::kinds`].
    pub(super) kind: usize,
    /// Sum of the requests of its pods.
    pub(super) amounts: Amounts,
    /// The rule that limits it on a host.
    limit: Option<GroupIx>,
    /// Profiles of its pods, one by one.
    pub(super) profiles: Vec<ProfileIx>,
    pub(super) turn: Turn,
}

/// A node and the units on it.
pub(super) struct StockNode {
    pub(super) number: InFlightIx,
    pub(super) units: Range<UnitIx>,
}

/// Limit on the number of units that may share a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// Number of units.
    units: usize,
    /// Largest number of units on one host.
    pub(super) most_on_host: usize,
}

/// Properties of a unit that matter to patterns.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SizeKey<'s> {
    pub(super) kind: usize,
    /// The rule that limits it on a host, where that matters.
    pub(super) limit: Option<GroupIx>,
    pub(super) amounts: &'s Amounts,
}

impl Stock {
    /// Units by the properties that matter to patterns.
    pub(super) fn sizes(&self) -> InternedMap<SizeKey<'_>, Vec<UnitIx>> {
        let mut sizes: InternedMap<SizeKey<'_>, Vec<UnitIx>> = InternedMap::default();
        for (index, Unit { kind, limit, amounts, .. }) in self.units.enumerate() {
            let limit = limit.filter(|group| self.matters(self.limits[group]));
            sizes.entry(SizeKey { kind: *kind, limit, amounts }).or_default().push(index);
        }
        sizes
    }

    /// Returns whether units need about as many nodes as there are because of `limit`.
    fn matters(&self, limit: Limit) -> bool {
        limit.units * MATTERS > limit.most_on_host.saturating_mul(self.nodes.len())
    }

    /// The number of the kind that demands `rules`.
    fn kind(&mut self, rules: RuleSetId) -> usize {
        let Self { kinds, numbers, .. } = self;
        *numbers.entry(rules).or_insert_with(|| {
            kinds.push(rules);
            kinds.len() - 1
        })
    }
}

impl Query<'_, '_> {
    /// Adds the pods of in-flight node `number` to `stock`; `None` where one of them may be nowhere. They stay in the
    /// domains of `keys` where rules are about these.
    pub(super) fn take_stock(
        &mut self,
        number: InFlightIx,
        keys: &[KeyId],
        view: DemandView,
        stock: &mut Stock,
    ) -> Option<()> {
        let node = &self.filling.in_flight[number];
        let domains = self.caches.rules.about(node.state.rules, keys);
        stock.total.add(&node.state.total);
        let first = stock.units.end();
        for pods in self.moving_together(&node.pods) {
            let (rules, amounts) = self.asked_together(view, &pods, number, domains)?;
            let level = *self.compiled.levels(pods[0]).first()?;
            let profile = self.compiled.levels.profile(level);
            let topology = &self.filling.topology;
            let limit = profile.and_then(|id| topology.most_on_host(id)).map(|(group, most)| {
                let most_on_host = usize::try_from(most).unwrap_or(usize::MAX);
                stock.limits.entry(group).or_insert(Limit { units: 0, most_on_host }).units += 1;
                group
            });
            let levels = pods.iter().filter_map(|pod| self.compiled.levels(*pod).first());
            let profiles = levels.filter_map(|level| self.compiled.levels.profile(*level)).collect();
            let turn = profile.map(|id| topology.turn(id)).unwrap_or_default();
            let kind = stock.kind(rules);
            stock.units.push(Unit { pods, level, kind, amounts, limit, profiles, turn });
        }
        stock.nodes.push(StockNode { number, units: first..stock.units.end() });
        Some(())
    }

    /// `pods` of one node, those that must share a host together and others alone.
    fn moving_together(&self, pods: &[PodIx]) -> Vec<Vec<PodIx>> {
        let mut groups: InternedMap<Result<GroupIx, PodIx>, Vec<PodIx>> = InternedMap::default();
        for pod in pods {
            // The last level: a preference to share a host ties no pods together.
            let last = self.compiled.levels(*pod).last();
            let profile = last.and_then(|level| self.compiled.levels.profile(*level));
            let group = profile.and_then(|id| self.filling.topology.co_located(id));
            groups.entry(group.ok_or(*pod)).or_default().push(*pod);
        }
        groups.into_values().collect()
    }

    /// Returns the demand of all of `pods` together, which are on in-flight node `number` in `domains`.
    fn asked_together(
        &mut self,
        view: DemandView,
        pods: &[PodIx],
        number: InFlightIx,
        domains: RuleSetId,
    ) -> Option<(RuleSetId, Amounts)> {
        let (mut all, mut amounts) = (None, Amounts::default());
        for pod in pods {
            let (own, level) = self.asked(view, *pod, number, domains)?;
            all = Some(match all {
                None => own,
                Some(all) => self.caches.rules.meet(all, own)?,
            });
            amounts.add(&self.compiled.levels.demand(level).amounts);
        }
        Some((all?, amounts))
    }

    /// Returns the demand of the pod, which is on in-flight node `number` in `domains`, on a new node of its pool at the
    /// first level at which there is an instance type for it.
    fn asked(
        &mut self,
        view: DemandView,
        pod: PodIx,
        number: InFlightIx,
        domains: RuleSetId,
    ) -> Option<(RuleSetId, LevelIx)> {
        let node = &self.filling.in_flight[number];
        let space = &self.compiled.pools.spaces[node.pool];
        for level in self.compiled.levels(pod) {
            let demand = self.compiled.levels.demand(*level);
            // With a choice of places for volumes it stays with the one it has.
            let [place] = demand.places[..] else { return Some((node.state.rules, *level)) };
            let base = match self.compiled.levels.profile(*level) {
                Some(id) if self.keeps_domain(view, id) => self.caches.rules.meet(space.rules, domains),
                _ => Some(space.rules),
            };
            let own = base.and_then(|base| self.caches.rules.meet(base, demand.rules?));
            let Some(own) = own.and_then(|own| self.caches.rules.meet(own, place)) else { continue };
            let (there, variants) = match view {
                DemandView::AtBest => (Some(own), &space.base),
                DemandView::AsPlaced => (self.caches.rules.meet(own, node.state.rules), &node.state.variants),
            };
            let Some(there) = there else { continue };
            let catalogue = &mut self.caches.catalogues[space.catalogue];
            if variants.meets(&catalogue.mask(there, &self.caches.rules).both) {
                return Some((own, *level));
            }
        }
        match view {
            DemandView::AtBest => None,
            DemandView::AsPlaced => Some((node.state.rules, *self.compiled.levels(pod).first()?)),
        }
    }

    /// Returns whether pods of profile `id` stay in their domain: rules of their own are about it, or they come before
    /// pods whose rules are. On a new node they also stay for pods that must be with them.
    fn keeps_domain(&self, view: DemandView, id: ProfileIx) -> bool {
        let topology = &self.filling.topology;
        let is_about_it = match view {
            DemandView::AtBest => topology.asks_for_domains(id),
            DemandView::AsPlaced => topology.has_rules_about_domains(id),
        };
        is_about_it || topology.turn(id) <= Turn::First
    }
}
