//! Pods that must share a host, where placing one after the other has parted them.
//!
//! Pods of such a *circle* are tried with all others, large ones first. The first of them may get onto a new node
//! that others fill before its friends' turn comes, or that is of a pool whose nodes are too small for all. The
//! others may then be nowhere else, in this pass and in every later one.
//!
//! So a plan that leaves somebody of a circle behind, although some instance type would hold the whole circle, is made
//! once more, with those circles first, each on a new node that has room for all of it; when that parts others,
//! once more with every circle. Whatever it places more, a plan is not taken when anybody else loses the place the
//! first one gave, or a circle has fewer pods placed than there: nothing gets worse.

use karpenter_model::Snapshot;

use super::{Query, Solver, Tried};
use crate::bits::Bits;
use crate::index::{GroupIx, LevelIx, PodIx};
use crate::interning::{Interned, InternedMap};
use crate::place::in_flight;
use crate::place::level::Demand;
use crate::rules::RuleSetId;

/// Most places for volumes that are considered for a circle.
const MOST_PLACES: usize = 64;

/// Pods that must share a host, by position in the queue.
type Circle = Vec<PodIx>;

impl<'a> Solver<'a> {
    /// The solver, or one that has made a better plan of the same `snapshot`.
    pub(super) fn reunited(mut self, snapshot: &'a Snapshot) -> Self {
        let pods = self.compiled.queue.len();
        if self.filling.placed == pods || self.filling.topology.is_empty() {
            return self;
        }
        let (placed, launched) = self.filling.whereabouts(pods);
        let circles = self.circles();
        let mut parted = circles.clone();
        parted.retain(|circle| circle.iter().any(|pod| !placed.contains(*pod)));
        parted.retain(|circle| circle.iter().any(|pod| launched.contains(*pod)));
        parted.retain(|circle| self.query().whole(circle).is_some());
        if parted.is_empty() {
            return self;
        }
        for first in [&parted, &circles] {
            let mut again = Self::new(snapshot);
            for circle in first {
                again.seat(circle);
            }
            let (seated, _) = again.filling.whereabouts(pods);
            again.place_all(again.compiled.queue.positions().filter(|pod| !seated.contains(*pod)).collect());
            let (placed_again, _) = again.filling.whereabouts(pods);
            if again.filling.placed > self.filling.placed && loses_nobody(&placed, &placed_again, &circles) {
                return again;
            }
        }
        self
    }

    /// All circles, in the order of their first pods.
    fn circles(&self) -> Vec<Circle> {
        let mut circles: InternedMap<GroupIx, Circle> = InternedMap::default();
        for index in self.compiled.queue.positions() {
            // What it insists on, preferences aside.
            let level = self.compiled.levels(index).last();
            let profile = level.and_then(|level| self.compiled.levels.profile(*level));
            if let Some(group) = profile.and_then(|id| self.filling.topology.circle(id)) {
                circles.entry(group).or_default().push(index);
            }
        }
        circles.into_values().collect()
    }

    /// Gives `circle` a new node, one for all of it if there is any.
    fn seat(&mut self, circle: &[PodIx]) {
        let whole = self.query().whole(circle);
        let Some((first, others)) = circle.split_first() else { return };
        for step in 0.. {
            let Some(level) = self.compiled.levels(*first).get(step).copied() else { break };
            let bound = self.compiled.levels.profile(level);
            if let Tried::Placed = self.open_node(*first, level, bound, whole.as_ref()) {
                self.filling.placed += 1;
                return self.place_all(others.to_vec());
            }
        }
    }
}

impl Query<'_, '_> {
    /// What all of `circle` ask of one node together, if some instance type would do. Devices are found one pod
    /// after the other, so nobody knows beforehand whether a node has enough of them for all.
    fn whole(&mut self, circle: &[PodIx]) -> Option<Demand> {
        let Self { compiled, caches, .. } = self;
        let levels: Option<Vec<LevelIx>> =
            circle.iter().map(|pod| compiled.levels(*pod).last().copied()).collect();
        let (first, others) = levels.as_deref()?.split_first()?;
        let mut whole = compiled.levels.demand(*first).clone();
        for level in others {
            let demand = compiled.levels.demand(*level);
            whole.claims.extend_from_slice(&demand.claims);
            whole.rules = Some(caches.rules.meet(whole.rules?, demand.rules?)?);
            whole.amounts.add(&demand.amounts);
            whole.tolerations.retain(|toleration| demand.tolerations.contains(toleration));
            whole.host_ports.extend_from_slice(&demand.host_ports);
            whole.shared.extend_from_slice(&demand.shared);
            let pairs = whole.places.iter().flat_map(|a| demand.places.iter().map(move |b| (*a, *b)));
            let both: Interned<RuleSetId> = pairs.filter_map(|(a, b)| caches.rules.meet(a, b)).collect();
            whole.places = both.into_iter().take(MOST_PLACES).collect();
        }
        if !whole.claims.is_empty() {
            return None;
        }
        let hosted = compiled.pools.spaces.iter().any(|space| {
            let catalogue = &mut caches.catalogues[space.catalogue];
            in_flight::hosting(&whole, space, catalogue, &mut caches.rules).is_some()
        });
        hosted.then_some(whole)
    }
}

/// Whether who was placed `before` is placed `now`; of the pods of one of `circles` as many as before.
fn loses_nobody(before: &Bits<PodIx>, now: &Bits<PodIx>, circles: &[Circle]) -> bool {
    let mut alone = before.clone();
    circles.iter().flatten().for_each(|pod| alone.remove(*pod));
    let placed = |circle: &Circle, of: &Bits<PodIx>| circle.iter().filter(|pod| of.contains(**pod)).count();
    alone.is_within(now) && circles.iter().all(|circle| placed(circle, now) >= placed(circle, before))
}
