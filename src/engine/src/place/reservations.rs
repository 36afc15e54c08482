//! Capacity reservations within one pass (spec core-scheduling 17).
//!
//! A bin holds an instance of every reservation it may still be launched into: pessimistic, so that a pass
//! never promises an instance twice. What a bin gives up when it gets narrower can be held by others.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::ReservationId;
use karpenter_model::settings::ReservationPolicy;

use crate::catalogue::Catalogue;

/// Reservations and how many instances of each nobody holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reservations {
    left: BTreeMap<ReservationId, u32>,
    policy: ReservationPolicy,
    releases: u64,
}

/// Every reservation a bin could use is held by others.
#[derive(Debug)]
pub(crate) struct UsedUp;

impl Reservations {
    /// The reservations of `catalogues`; where they disagree about a count, the least is true.
    pub(crate) fn new(catalogues: &[Catalogue<'_>], policy: ReservationPolicy) -> Self {
        let mut left: BTreeMap<ReservationId, u32> = BTreeMap::new();
        for reservation in catalogues.iter().flat_map(Catalogue::reservations) {
            let known = left.entry(reservation.id.clone()).or_insert(reservation.count);
            *known = reservation.count.min(*known);
        }
        Self { left, policy, releases: 0 }
    }

    /// Whether there is nothing to hold.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Whether an instance of `id` is left.
    pub(crate) fn has_left(&self, id: &ReservationId) -> bool {
        self.left.is_empty() || self.left.get(id).is_some_and(|left| *left > 0)
    }

    /// What a bin that holds `held` would hold when it can be launched into `compatible`.
    pub(crate) fn reservable(
        &self,
        held: &BTreeSet<ReservationId>,
        compatible: BTreeSet<ReservationId>,
    ) -> Result<BTreeSet<ReservationId>, UsedUp> {
        let wanted = !compatible.is_empty() || !held.is_empty();
        let free = |id: &ReservationId| self.left.get(id).is_some_and(|left| *left > 0);
        let reservable: BTreeSet<_> =
            compatible.into_iter().filter(|id| held.contains(id) || free(id)).collect();
        if wanted && reservable.is_empty() && self.policy == ReservationPolicy::Strict {
            return Err(UsedUp);
        }
        Ok(reservable)
    }

    /// A bin that held `before` holds `after`.
    pub(crate) fn hold(&mut self, before: &BTreeSet<ReservationId>, after: &BTreeSet<ReservationId>) {
        for id in after.difference(before) {
            if let Some(left) = self.left.get_mut(id) {
                *left = left.saturating_sub(1);
            }
        }
        for id in before.difference(after) {
            if let Some(left) = self.left.get_mut(id) {
                *left += 1;
                self.releases += 1;
            }
        }
    }

    /// Grows whenever something can be held again.
    pub(crate) fn releases(&self) -> u64 {
        self.releases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(names: &[&str]) -> BTreeSet<ReservationId> {
        names.iter().map(|name| (*name).into()).collect()
    }

    fn reservations(policy: ReservationPolicy) -> Reservations {
        Reservations { left: [("one".into(), 1), ("two".into(), 2)].into(), policy, releases: 0 }
    }

    #[test]
    fn instances_are_held_once_and_given_back() {
        let mut reservations = reservations(ReservationPolicy::Strict);
        let first = reservations.reservable(&ids(&[]), ids(&["one", "two"])).expect("both are free");
        assert_eq!(first, ids(&["one", "two"]));
        reservations.hold(&ids(&[]), &first);
        reservations.hold(&first, &first);
        let second = reservations.reservable(&ids(&[]), ids(&["one", "two"])).expect("one is left");
        assert_eq!(second, ids(&["two"]));
        assert!(reservations.reservable(&ids(&[]), ids(&["one"])).is_err(), "it is held");
        assert_eq!(reservations.releases(), 0);
        reservations.hold(&first, &ids(&["two"]));
        assert_eq!(reservations.releases(), 1);
        assert!(reservations.reservable(&ids(&[]), ids(&["one"])).is_ok(), "it was given back");
    }

    #[test]
    fn only_the_strict_policy_insists() {
        for (policy, insists) in [(ReservationPolicy::Strict, true), (ReservationPolicy::Fallback, false)] {
            let mut reservations = reservations(policy);
            reservations.hold(&ids(&[]), &ids(&["one"]));
            assert_eq!(reservations.reservable(&ids(&[]), ids(&["one"])).is_err(), insists, "used up");
            assert_eq!(reservations.reservable(&ids(&["one"]), ids(&[])).is_err(), insists, "lost it");
            assert!(reservations.reservable(&ids(&[]), ids(&[])).is_ok(), "never wanted one");
        }
    }
}
