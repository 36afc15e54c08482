//! Pods that must share a host, where placing one after the other has parted them.
//!
//! Pods of such a *circle* are tried with all others, large ones first. The first of them may get onto a new machine
//! that others fill before its friends' turn comes, or that is of a pool whose machines are too small for all. The
//! others may then be nowhere else, in this pass and in every later one.
//!
//! So a plan that leaves somebody of a circle behind, although some instance type would hold the whole circle, is made
//! once more, with those circles first, each on a new machine that has room for all of it; when that parts others,
//! once more with every circle. Whatever it places more, a plan is not taken when anybody else loses the place the
//! first one gave, or a circle has fewer pods placed than there: nothing gets worse.

use karpenter_model::Snapshot;

use super::{Solver, Tried};
use crate::bits::Bits;
use crate::interning::{Interned, InternedMap};
use crate::place::ask::{Ask, WantId};
use crate::place::bin;
use crate::rules::RuleSetId;

/// Most places for volumes that are considered for a circle.
const MOST_PLACES: usize = 64;

/// Pods that must share a host, by position in the queue.
type Circle = Vec<usize>;

impl<'a> Solver<'a> {
    /// The solver, or one that has made a better plan of the same `snapshot`.
    pub(super) fn reunited(mut self, snapshot: &'a Snapshot) -> Self {
        if self.placed == self.queue.len() || self.topology.is_empty() {
            return self;
        }
        let (placed, launched) = self.whereabouts();
        let circles = self.circles();
        let mut parted = circles.clone();
        parted.retain(|circle| circle.iter().any(|pod| !placed.contains(*pod)));
        parted.retain(|circle| circle.iter().any(|pod| launched.contains(*pod)));
        parted.retain(|circle| self.whole(circle).is_some());
        if parted.is_empty() {
            return self;
        }
        for first in [&parted, &circles] {
            let mut again = Self::new(snapshot);
            for circle in first {
                again.seat(circle);
            }
            let (seated, _) = again.whereabouts();
            again.place_all((0..again.queue.len()).filter(|pod| !seated.contains(*pod)).collect());
            if again.placed > self.placed && loses_nobody(&placed, &again.whereabouts().0, &circles) {
                return again;
            }
        }
        self
    }

    /// Pods that have a place, and those of them that have it on a new machine; by position in the queue.
    fn whereabouts(&self) -> (Bits, Bits) {
        let (mut placed, mut launched) = (Bits::none(self.queue.len()), Bits::none(self.queue.len()));
        self.bins.iter().flat_map(|bin| &bin.pods).for_each(|pod| launched.insert(*pod));
        self.homes.iter().for_each(|(pod, _)| placed.insert(*pod));
        placed.unite(&launched);
        (placed, launched)
    }

    /// All circles, in the order of their first pods.
    fn circles(&self) -> Vec<Circle> {
        let mut circles: InternedMap<usize, Circle> = InternedMap::default();
        for (index, (_, class)) in self.queue.iter().enumerate() {
            // What it insists on, preferences aside.
            let profile = self.classes[*class].wants().last().and_then(|want| self.wants.profile(*want));
            if let Some(group) = profile.and_then(|id| self.topology.circle(id)) {
                circles.entry(group).or_default().push(index);
            }
        }
        circles.into_values().collect()
    }

    /// What all of `circle` ask of one machine together, if some instance type would do. Devices are found one pod after
    /// the other, so nobody knows beforehand whether a machine has enough of them for all.
    fn whole(&mut self, circle: &[usize]) -> Option<Ask> {
        let wants: Option<Vec<WantId>> =
            circle.iter().map(|pod| self.classes[self.queue[*pod].1].wants().last().copied()).collect();
        let (first, others) = wants.as_deref()?.split_first()?;
        let mut whole = self.wants.ask(*first).clone();
        for want in others {
            let ask = self.wants.ask(*want);
            whole.claims.extend_from_slice(&ask.claims);
            whole.rules = Some(self.rules.meet(whole.rules?, ask.rules?)?);
            whole.amounts.add(&ask.amounts);
            whole.tolerations.retain(|toleration| ask.tolerations.contains(toleration));
            whole.host_ports.extend_from_slice(&ask.host_ports);
            whole.shared.extend_from_slice(&ask.shared);
            let pairs = whole.places.iter().flat_map(|a| ask.places.iter().map(move |b| (*a, *b)));
            let both: Interned<RuleSetId> = pairs.filter_map(|(a, b)| self.rules.meet(a, b)).collect();
            whole.places = both.into_iter().take(MOST_PLACES).collect();
        }
        if !whole.claims.is_empty() {
            return None;
        }
        let hosted = self.pools.spaces.iter().any(|space| {
            let catalogue = &mut self.pools.catalogues[space.catalogue];
            bin::hosting(&whole, space, catalogue, &mut self.rules).is_some()
        });
        hosted.then_some(whole)
    }

    /// Gives `circle` a new machine, one for all of it if there is any.
    fn seat(&mut self, circle: &[usize]) {
        let whole = self.whole(circle);
        let Some((first, others)) = circle.split_first() else { return };
        let wants = self.classes[self.queue[*first].1].wants();
        let opened = wants.iter().any(|want| {
            let bound = self.wants.profile(*want);
            matches!(self.open_bin(*first, *want, bound, whole.as_ref()), Tried::Placed)
        });
        if opened {
            self.placed += 1;
            self.place_all(others.to_vec());
        }
    }
}

/// Whether who was placed `before` is placed `now`; of the pods of one of `circles` as many as before.
fn loses_nobody(before: &Bits, now: &Bits, circles: &[Circle]) -> bool {
    let mut alone = before.clone();
    circles.iter().flatten().for_each(|pod| alone.remove(*pod));
    let placed = |circle: &Circle, of: &Bits| circle.iter().filter(|pod| of.contains(**pod)).count();
    alone.is_within(now) && circles.iter().all(|circle| placed(circle, now) >= placed(circle, before))
}
