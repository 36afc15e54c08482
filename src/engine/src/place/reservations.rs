//! Reservations of which in-flight nodes hold an instance (spec scheduling 17).
//!
//! An in-flight node needs one instance, of any of the reservations it could be launched into. Which one stays open
//! as long as possible: an in-flight node that could use another one makes room for one that could not. So as many
//! in-flight nodes get an instance as can; the reference takes one of each for every in-flight node and leaves pods
//! waiting beside free instances.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use karpenter_model::names::label;
use karpenter_model::settings::ReservationPolicy;
use karpenter_model::{CapacityType, Claim, LabelRegistry, Requirement, ReservationId, Snapshot};

use crate::catalogue::Catalogue;
use crate::index::{CatalogueIx, InFlightIx, IxVec};

/// Reservations and the in-flight nodes that hold instances of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reservations {
    left: BTreeMap<ReservationId, u32>,
    /// Reservations that each in-flight node holds.
    held: BTreeMap<InFlightIx, Held>,
    policy: ReservationPolicy,
    /// Number of times an in-flight node gave an instance back.
    releases: u64,
}

/// The instance an in-flight node holds.
#[derive(Debug, Clone)]
struct Held {
    /// The reservations any of which would do.
    among: BTreeSet<ReservationId>,
    /// Reservation of the instance, for now.
    of: ReservationId,
}

/// A compatible reservation exists, but no instance is left; under the strict policy the pod waits for one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsedUp;

impl Reservations {
    /// The reservations of `catalogues`; where they disagree about a count, the least is true. What the claims of
    /// `snapshot` that are not launched yet will take is taken.
    pub(crate) fn new(
        catalogues: &IxVec<CatalogueIx, Catalogue<'_>>,
        snapshot: &Snapshot,
        policy: ReservationPolicy,
    ) -> Self {
        let mut left: BTreeMap<ReservationId, u32> = BTreeMap::new();
        for reservation in catalogues.iter().flat_map(Catalogue::reservations) {
            let known = left.entry(reservation.id.clone()).or_insert(reservation.count);
            *known = reservation.count.min(*known);
        }
        let mut reservations = Self { left, policy, ..Self::default() };
        for claim in snapshot.nodes.iter().filter_map(|node| node.unlaunched()) {
            reservations.take_for(claim, &snapshot.registry);
        }
        reservations
    }

    /// Takes an instance for a claim that will be reserved capacity and nothing else: of the first of its reservations
    /// that has one left.
    fn take_for(&mut self, claim: &Claim, registry: &LabelRegistry) {
        let values = |key: &str| claim.requirements.get(key).and_then(Requirement::concrete);
        let reserved = CapacityType::Reserved.as_str();
        if !values(label::CAPACITY_TYPE).is_some_and(|types| types.iter().all(|one| *one == reserved)) {
            return;
        }
        let named = registry.reservation_id.as_ref().and_then(|key| values(key.as_str()));
        let mut ids = named.into_iter().flatten().map(|id| ReservationId::from(id.as_str()));
        if let Some(id) = ids.find(|id| self.is_free(id)) {
            self.take(&id);
        }
    }

    /// Returns whether there is nothing to hold.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns whether an instance of `id` is left; always where reservations are not counted.
    pub(crate) fn has_left(&self, id: &ReservationId) -> bool {
        self.is_empty() || self.is_free(id)
    }

    fn is_free(&self, id: &ReservationId) -> bool {
        self.left.get(id).is_some_and(|left| *left > 0)
    }

    /// The reservations in-flight node `number` would hold an instance of one of when it can be launched into
    /// `compatible`; none when it holds nothing then.
    pub(crate) fn reservable(
        &self,
        number: InFlightIx,
        compatible: BTreeSet<ReservationId>,
    ) -> Result<BTreeSet<ReservationId>, UsedUp> {
        let wanted = !compatible.is_empty() || self.held.contains_key(&number);
        if self.moves(number, &compatible).is_some() {
            return Ok(compatible);
        }
        if wanted && self.policy == ReservationPolicy::Strict { Err(UsedUp) } else { Ok(BTreeSet::new()) }
    }

    /// In-flight node `number` holds an instance of one of `among` from now on, as [`Self::reservable`] has answered.
    pub(crate) fn hold(&mut self, number: InFlightIx, among: &BTreeSet<ReservationId>) {
        let moves = self.moves(number, among);
        if let Some(held) = self.held.remove(&number) {
            self.give_back(&held.of);
            // A node that takes another instance instead has released none.
            self.releases += u64::from(moves.is_none());
        }
        // The last one to move takes what is free, the one before it what that one has left, and so on.
        for (node, to) in moves.into_iter().flatten() {
            if node == number {
                self.take(&to);
                self.held.insert(node, Held { among: among.clone(), of: to });
            } else if let Some(held) = self.held.get_mut(&node) {
                let from = std::mem::replace(&mut held.of, to.clone());
                self.take(&to);
                self.give_back(&from);
            }
        }
    }

    fn take(&mut self, id: &ReservationId) {
        if let Some(left) = self.left.get_mut(id) {
            *left = left.saturating_sub(1);
        }
    }

    fn give_back(&mut self, id: &ReservationId) {
        if let Some(left) = self.left.get_mut(id) {
            *left += 1;
        }
    }

    /// Returns the in-flight nodes that have to move to another reservation, in this order, so that in-flight node
    /// `number` gets an instance of one of `among`: the shortest chain of in-flight nodes each of which makes room
    /// for the next; `None` when there is none.
    fn moves(
        &self,
        number: InFlightIx,
        among: &BTreeSet<ReservationId>,
    ) -> Option<Vec<(InFlightIx, ReservationId)>> {
        let own = self.held.get(&number).map(|held| &held.of);
        if let Some(own) = own.filter(|own| among.contains(*own)) {
            return Some(vec![(number, own.clone())]);
        }
        // By reservation: the in-flight node that could move there, and where it is now.
        let mut reached: BTreeMap<&ReservationId, Option<(InFlightIx, &ReservationId)>> =
            among.iter().map(|id| (id, None)).collect();
        let mut waiting: VecDeque<&ReservationId> = among.iter().collect();
        while let Some(id) = waiting.pop_front() {
            // The instance that it holds itself becomes free when it moves.
            if self.is_free(id) || own == Some(id) {
                let mut moves = Vec::new();
                let mut at = id;
                while let Some((node, before)) = reached[at] {
                    moves.push((node, at.clone()));
                    at = before;
                }
                moves.push((number, at.clone()));
                return Some(moves);
            }
            for (node, held) in self.held.iter().filter(|(node, held)| held.of == *id && **node != number) {
                for other in &held.among {
                    if !reached.contains_key(other) {
                        reached.insert(other, Some((*node, id)));
                        waiting.push_back(other);
                    }
                }
            }
        }
        None
    }

    /// Reservations that the claim of each in-flight node may name. The instance it holds, and one of each other that
    /// would do as long as any are left, so that a launch has a choice where that takes nothing from another.
    pub(crate) fn settled(&self) -> BTreeMap<InFlightIx, BTreeSet<ReservationId>> {
        let mut spare = self.left.clone();
        let named = self.held.iter().map(|(number, held)| {
            let mut named = BTreeSet::from([held.of.clone()]);
            for id in held.among.iter().filter(|id| **id != held.of) {
                if let Some(left) = spare.get_mut(id).filter(|left| **left > 0) {
                    *left -= 1;
                    named.insert(id.clone());
                }
            }
            (*number, named)
        });
        named.collect()
    }

    /// Grows whenever something can be held again.
    pub(crate) fn releases(&self) -> u64 {
        self.releases
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Ix;

    fn node(number: usize) -> InFlightIx {
        InFlightIx::new(number)
    }

    fn ids(names: &[&str]) -> BTreeSet<ReservationId> {
        names.iter().map(|name| (*name).into()).collect()
    }

    fn reservations(counts: &[(&str, u32)], policy: ReservationPolicy) -> Reservations {
        let left = counts.iter().map(|(name, count)| ((*name).into(), *count)).collect();
        Reservations { left, policy, ..Reservations::default() }
    }

    /// In-flight node `number` asks for one of `names`; returns whether it gets one.
    fn holds(reservations: &mut Reservations, number: usize, names: &[&str]) -> bool {
        let number = node(number);
        let Ok(among) = reservations.reservable(number, ids(names)) else { return false };
        reservations.hold(number, &among);
        !among.is_empty()
    }

    #[test]
    fn bins_make_room_for_those_that_have_no_choice() {
        let mut reservations =
            reservations(&[("one", 1), ("two", 1), ("three", 1)], ReservationPolicy::Strict);
        assert!(holds(&mut reservations, 1, &["one", "two"]));
        assert!(holds(&mut reservations, 2, &["one", "three"]));
        assert!(holds(&mut reservations, 3, &["one"]), "both others can do without it");
        assert!(!holds(&mut reservations, 4, &["one", "two", "three"]), "three instances for three nodes");
        let settled = reservations.settled();
        assert_eq!(
            settled,
            [(node(1), ids(&["two"])), (node(2), ids(&["three"])), (node(3), ids(&["one"]))].into()
        );
    }

    #[test]
    fn a_bin_that_gets_narrower_keeps_an_instance_if_it_can() {
        let mut reservations = reservations(&[("one", 1), ("two", 1)], ReservationPolicy::Strict);
        assert!(holds(&mut reservations, 1, &["one", "two"]));
        assert_eq!(reservations.settled()[&node(1)], ids(&["one", "two"]), "no other node wants the other");
        assert!(holds(&mut reservations, 1, &["two"]));
        assert!(holds(&mut reservations, 2, &["one", "two"]));
        assert!(!holds(&mut reservations, 2, &["two"]), "the other has nowhere to go");
        assert_eq!(reservations.settled(), [(node(1), ids(&["two"])), (node(2), ids(&["one"]))].into());
        assert_eq!(reservations.releases(), 0);
    }

    #[test]
    fn as_many_bins_hold_one_as_can() {
        // Every in-flight node asks for some of three reservations, compared with trying every assignment.
        let names = ["one", "two", "three"];
        let counts = [1, 1, 2];
        for asked in 0..7_usize.pow(4) {
            let levels: Vec<usize> = (0..4).map(|node| asked / 7_usize.pow(node) % 7 + 1).collect();
            let named = |level: usize| -> Vec<&str> {
                (0..3).filter(|id| level >> id & 1 == 1).map(|id| names[id]).collect()
            };
            let counted: Vec<(&str, u32)> = names.into_iter().zip(counts).collect();
            let mut reservations = reservations(&counted, ReservationPolicy::Strict);
            let served = (0..4).filter(|node| holds(&mut reservations, *node, &named(levels[*node]))).count();
            let most = (0..4_usize.pow(4)).filter_map(|choice| {
                let chosen: Vec<usize> = (0..4).map(|node| choice / 4_usize.pow(node) % 4).collect();
                let fits = (0..3).all(|id| {
                    let takers = chosen.iter().filter(|one| **one == id).count();
                    u32::try_from(takers).is_ok_and(|takers| takers <= counts[id])
                });
                let allowed =
                    chosen.iter().zip(&levels).all(|(one, level)| *one == 3 || level >> one & 1 == 1);
                (fits && allowed).then(|| chosen.iter().filter(|one| **one < 3).count())
            });
            assert_eq!(Some(served), most.max(), "{levels:?}");
        }
    }

    #[test]
    fn only_the_strict_policy_insists() {
        for (policy, insists) in [(ReservationPolicy::Strict, true), (ReservationPolicy::Fallback, false)] {
            let mut reservations = reservations(&[("one", 1), ("two", 1)], policy);
            assert!(holds(&mut reservations, 1, &["one"]));
            assert_eq!(reservations.reservable(node(2), ids(&["one"])).is_err(), insists, "used up");
            assert_eq!(reservations.reservable(node(1), ids(&[])).is_err(), insists, "lost it");
            assert!(reservations.reservable(node(2), ids(&[])).is_ok(), "never wanted one");
            assert!(
                reservations.reservable(node(2), ids(&["none"])).is_err() == insists,
                "there is no such thing"
            );
        }
        let mut reservations = reservations(&[("one", 1)], ReservationPolicy::Fallback);
        assert!(holds(&mut reservations, 1, &["one"]));
        assert!(!holds(&mut reservations, 1, &[]));
        assert_eq!(reservations.releases(), 1);
        assert!(holds(&mut reservations, 2, &["one"]), "it was given back");
    }
}
