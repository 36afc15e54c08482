//! Co-located pod groups that placing one pod after the other has split up.
//!
//! Pods that must share a host are tried with all others, large ones first. The first of a group may get onto a new
//! node that other pods fill before the rest of the group is tried, or onto one of a pool whose nodes are too small
//! for the group. The rest may then have nowhere to go, in this pass and in every later one.
//!
//! So when a plan leaves a pod of a group behind although some instance type would hold the group, placement is
//! repeated with those groups first, each on a new node that has room for all of it; when that splits other groups,
//! once more with every group first. The new plan is taken only if it places more pods, every pod outside the groups
//! that had a place still has one, and no group has fewer pods placed: nothing gets worse.

use karpenter_model::{LabelValue, Snapshot};

use super::{Query, Solver, Tried};
use crate::bits::Bits;
use crate::index::{GroupIx, LevelIx, PodIx};
use crate::interning::{Interned, InternedMap};
use crate::place::in_flight;
use crate::place::level::Demand;
use crate::rules::RuleSetId;

/// Most combinations of places for volumes that are considered for a group.
const MOST_PLACES: usize = 64;

/// Pods that must share a host.
type CoLocated = Vec<PodIx>;

impl<'a> Solver<'a> {
    /// The solver, or one that has made a better plan of the same `snapshot`, where new nodes are `expected` in these domains.
    pub(super) fn co_located(mut self, snapshot: &'a Snapshot, expected: &[(GroupIx, LabelValue)]) -> Self {
        let pods = self.compiled.queue.len();
        if self.filling.placed == pods || self.filling.topology.is_empty() {
            return self;
        }
        let (placed, launched) = self.filling.whereabouts(pods);
        let groups = self.groups();
        // Those with a pod left behind, another on a new node, and an instance type that would hold all of them.
        let mut split = groups.clone();
        split.retain(|group| group.iter().any(|pod| !placed.contains(*pod)));
        split.retain(|group| group.iter().any(|pod| launched.contains(*pod)));
        split.retain(|group| self.query().combined(group).is_some());
        if split.is_empty() {
            return self;
        }
        // The split groups alone first: moving others as well changes more of the plan than is needed.
        for first in [&split, &groups] {
            let mut again = Self::expecting(snapshot, expected);
            let waiting = again.keep_promises(again.compiled.queue.positions().collect());
            let (kept, _) = again.filling.whereabouts(pods);
            // If some pods of a group are where they were promised a place, the rest must join them.
            for group in first.iter().filter(|group| group.iter().all(|pod| !kept.contains(*pod))) {
                again.open_for(group);
            }
            let (first, _) = again.filling.whereabouts(pods);
            again.place_all(waiting.into_iter().filter(|pod| !first.contains(*pod)).collect());
            let (placed_again, _) = again.filling.whereabouts(pods);
            if again.filling.placed > self.filling.placed
                && keeps_all(&placed, &placed_again, &groups)
                && again.filling.topology.broken().is_empty()
            {
                return again;
            }
        }
        self
    }

    /// All co-located groups, in the order of their first pods.
    pub(super) fn groups(&self) -> Vec<CoLocated> {
        let mut groups: InternedMap<GroupIx, CoLocated> = InternedMap::default();
        for index in self.compiled.queue.positions() {
            // The last level: a preference to share a host is no reason to repeat placement.
            let level = self.compiled.levels(index).last();
            let profile = level.and_then(|level| self.compiled.levels.profile(*level));
            if let Some(group) = profile.and_then(|id| self.filling.topology.co_located(id)) {
                groups.entry(group).or_default().push(index);
            }
        }
        groups.into_values().collect()
    }

    /// Opens an in-flight node for `group`, one for all of it if some instance type would do, and places the group.
    pub(super) fn open_for(&mut self, group: &[PodIx]) {
        let combined = self.query().combined(group);
        let Some((first, others)) = group.split_first() else { return };
        for step in 0.. {
            let Some(level) = self.compiled.levels(*first).get(step).copied() else { break };
            let bound = self.compiled.levels.profile(level);
            if let Tried::Placed = self.open_node(*first, level, bound, combined.as_ref()) {
                self.filling.has_placed(*first, &self.compiled);
                return self.place_all(others.to_vec());
            }
        }
    }
}

impl Query<'_, '_> {
    /// Returns the demand of all of `group` on one node together, if some instance type would do. `None` for pods with
    /// devices: those are allocated one pod after the other, so whether there are enough for all is not known beforehand.
    fn combined(&mut self, group: &[PodIx]) -> Option<Demand> {
        let Self { compiled, caches, .. } = self;
        let levels: Option<Vec<LevelIx>> =
            group.iter().map(|pod| compiled.levels(*pod).last().copied()).collect();
        let (first, others) = levels.as_deref()?.split_first()?;
        let mut combined = compiled.levels.demand(*first).clone();
        for level in others {
            let demand = compiled.levels.demand(*level);
            combined.claims.extend_from_slice(&demand.claims);
            combined.rules = Some(caches.rules.meet(combined.rules?, demand.rules?)?);
            combined.amounts.add(&demand.amounts);
            combined.tolerations.retain(|toleration| demand.tolerations.contains(toleration));
            combined.host_ports.extend_from_slice(&demand.host_ports);
            combined.shared.extend_from_slice(&demand.shared);
            let pairs = combined.places.iter().flat_map(|a| demand.places.iter().map(move |b| (*a, *b)));
            let both: Interned<RuleSetId> = pairs.filter_map(|(a, b)| caches.rules.meet(a, b)).collect();
            combined.places = both.into_iter().take(MOST_PLACES).collect();
        }
        if !combined.claims.is_empty() {
            return None;
        }
        let hosted = compiled.pools.spaces.iter().any(|space| {
            let catalogue = &mut caches.catalogues[space.catalogue];
            in_flight::hosting(&combined, space, catalogue, &mut caches.rules).is_some()
        });
        hosted.then_some(combined)
    }
}

/// Returns whether every pod placed `before` is placed `now`. Pods of one of `groups` are interchangeable: as many of
/// them as before must be placed, whichever those are.
fn keeps_all(before: &Bits<PodIx>, now: &Bits<PodIx>, groups: &[CoLocated]) -> bool {
    let mut alone = before.clone();
    groups.iter().flatten().for_each(|pod| alone.remove(*pod));
    let placed = |group: &CoLocated, of: &Bits<PodIx>| group.iter().filter(|pod| of.contains(**pod)).count();
    alone.is_within(now) && groups.iter().all(|group| placed(group, now) >= placed(group, before))
}
