//! Launches into capacity reservations (spec aws-provider 5.2.2 to 5.2.4).
//!
//! One launch uses reservations of one kind: ordinary ones, one capacity block, or interruptible ones, since each is
//! asked for differently. Capacity that is paid for is used before anything is bought on top.

use std::collections::BTreeMap;

use karpenter_model::names::label::aws;
use karpenter_model::{InstanceTypeName, Offering, Price, ReservationId, Zone};

use crate::launch::filter::Candidate;

/// Kind of a reservation. The order decides between equal prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservedKind {
    /// An on-demand capacity reservation.
    Default,
    /// Capacity for a fixed time.
    CapacityBlock,
    /// An on-demand capacity reservation whose owner may take it back.
    Interruptible,
}

impl ReservedKind {
    /// The value of the label that distinguishes types of reservations.
    pub(crate) const fn type_label(self) -> &'static str {
        match self {
            Self::Default | Self::Interruptible => "default",
            Self::CapacityBlock => "capacity-block",
        }
    }
}

/// The reservation an instance is launched into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reserved {
    pub id: ReservationId,
    pub kind: ReservedKind,
}

impl Reserved {
    /// The reservation behind an offering.
    pub fn of(offering: &Offering) -> Option<Self> {
        let id = offering.reservation.as_ref()?.id.clone();
        let is = |key: &str, wanted: &str| {
            let value = offering.requirements.get(key).and_then(karpenter_model::Requirement::any);
            value.is_some_and(|value| value.as_str() == wanted)
        };
        let kind = if is(aws::CAPACITY_RESERVATION_TYPE, "capacity-block") {
            ReservedKind::CapacityBlock
        } else if is(aws::CAPACITY_RESERVATION_INTERRUPTIBLE, "true") {
            ReservedKind::Interruptible
        } else {
            ReservedKind::Default
        };
        Some(Self { id, kind })
    }
}

/// Leaves the reserved offerings one launch may use, and nothing else; everything when there are none.
pub fn narrow(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let Some((_, kind)) = offered(&candidates).map(|one| (one.price, one.reserved.kind)).min() else {
        return candidates;
    };
    let of_kind = |offering: &Offering| Reserved::of(offering).is_some_and(|one| one.kind == kind);
    // On-demand and spot offerings go, too (spec aws-provider 5.2.2): what is paid for is used before
    // anything is bought.
    let candidates = keep(candidates, |_, offering| of_kind(offering));
    if kind == ReservedKind::CapacityBlock {
        only_cheapest(candidates)
    } else {
        roomiest_per_zone(candidates)
    }
}

/// An offering out of a reservation.
struct Offered<'a> {
    instance_type: &'a InstanceTypeName,
    zone: &'a Zone,
    price: Price,
    left: u32,
    reserved: Reserved,
}

fn offered(candidates: &[Candidate]) -> impl Iterator<Item = Offered<'_>> {
    candidates.iter().flat_map(|candidate| {
        candidate.offerings.iter().filter_map(|offering| {
            Some(Offered {
                instance_type: &candidate.instance_type.name,
                zone: &offering.zone,
                price: offering.price,
                left: offering.reservation.as_ref()?.count,
                reserved: Reserved::of(offering)?,
            })
        })
    })
}

/// EC2 takes one capacity block per request.
fn only_cheapest(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let cheapest = offered(&candidates)
        .min_by_key(|one| (one.price, one.instance_type.clone(), one.zone.clone(), one.reserved.clone()))
        .map(|one| (one.instance_type.clone(), one.reserved.id));
    keep(candidates, |instance_type, offering| {
        let reservation = offering.reservation.as_ref().map(|reservation| &reservation.id);
        cheapest.as_ref().is_some_and(|(name, id)| name == instance_type && reservation == Some(id))
    })
}

/// One reservation per type and zone: the one with the most instances left, by id when several have.
fn roomiest_per_zone(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut best: BTreeMap<(InstanceTypeName, Zone), (u32, ReservationId)> = BTreeMap::new();
    for one in offered(&candidates) {
        let key = (one.instance_type.clone(), one.zone.clone());
        let better = best
            .get(&key)
            .is_none_or(|(left, id)| one.left > *left || (one.left == *left && one.reserved.id < *id));
        if better {
            best.insert(key, (one.left, one.reserved.id));
        }
    }
    keep(candidates, |instance_type, offering| {
        let best = best.get(&(instance_type.clone(), offering.zone.clone()));
        let reservation = offering.reservation.as_ref().map(|reservation| &reservation.id);
        best.is_some_and(|(_, id)| reservation == Some(id))
    })
}

fn keep(candidates: Vec<Candidate>, wanted: impl Fn(&InstanceTypeName, &Offering) -> bool) -> Vec<Candidate> {
    let fewer = |mut candidate: Candidate| {
        candidate.offerings.retain(|offering| wanted(&candidate.instance_type.name, offering));
        (!candidate.offerings.is_empty()).then_some(candidate)
    };
    candidates.into_iter().filter_map(fewer).collect()
}

#[cfg(test)]
mod tests {
    use ReservedKind::{CapacityBlock, Default, Interruptible};
    use karpenter_model::{CapacityType, Requirement, Requirements, Reservation};

    use super::*;
    use crate::testing::candidate;

    fn is(key: &'static str, value: &str) -> Requirement {
        Requirement::one_of(key.into(), [value.into()])
    }

    fn offering(zone: &str, price: i64, reserved: Option<(&str, ReservedKind, u32)>) -> Offering {
        let labels: Requirements = reserved
            .iter()
            .flat_map(|(_, kind, _)| {
                [
                    is(aws::CAPACITY_RESERVATION_TYPE, kind.type_label()),
                    is(aws::CAPACITY_RESERVATION_INTERRUPTIBLE, &(*kind == Interruptible).to_string()),
                ]
            })
            .collect();
        let kind = if reserved.is_some() { CapacityType::Reserved } else { CapacityType::OnDemand };
        Offering {
            requirements: labels,
            reservation: reserved.map(|(id, _, count)| Reservation { id: id.into(), count }),
            ..Offering::new(zone, kind, Price::from_nanos(price))
        }
    }

    /// `type zone reservation` of everything left.
    fn left(candidates: Vec<Candidate>) -> Vec<String> {
        let text = |name: &InstanceTypeName, offering: &Offering| {
            let id = offering.reservation.as_ref().map_or("-", |reservation| reservation.id.as_str());
            format!("{name} {} {id}", offering.zone)
        };
        narrow(candidates)
            .iter()
            .flat_map(|one| one.offerings.iter().map(|offering| text(&one.instance_type.name, offering)))
            .collect()
    }

    #[test]
    fn without_reservations_everything_stays() {
        let plain = vec![offering("a", 2, None), offering("b", 1, None)];
        assert_eq!(left(vec![candidate("m5.large", plain)]), ["m5.large a -", "m5.large b -"]);
    }

    #[test]
    fn the_kind_with_the_cheapest_offering_is_launched_and_nothing_bought_beside_it() {
        let all = |default, block, interruptible| {
            vec![
                candidate(
                    "m5.large",
                    vec![offering("a", 9, None), offering("a", default, Some(("cr-d", Default, 1)))],
                ),
                candidate("p5.48xlarge", vec![offering("a", block, Some(("cr-b", CapacityBlock, 1)))]),
                candidate("c5.large", vec![offering("a", interruptible, Some(("cr-i", Interruptible, 1)))]),
                candidate("t3.large", vec![offering("a", 0, None)]),
            ]
        };
        for (prices, expected) in [
            ((2, 1, 3), "p5.48xlarge a cr-b"),
            ((2, 3, 1), "c5.large a cr-i"),
            ((1, 1, 1), "m5.large a cr-d"),
            ((2, 1, 1), "p5.48xlarge a cr-b"),
        ] {
            assert_eq!(left(all(prices.0, prices.1, prices.2)), [expected], "{prices:?}");
        }
    }

    #[test]
    fn one_capacity_block_is_asked_for() {
        let block = |zone, price, id| offering(zone, price, Some((id, CapacityBlock, 4)));
        let candidates = vec![
            candidate("p5.48xlarge", vec![block("a", 2, "cr-1"), block("b", 1, "cr-2")]),
            candidate("p4d.24xlarge", vec![block("a", 3, "cr-3")]),
        ];
        assert_eq!(left(candidates), ["p5.48xlarge b cr-2"]);
    }

    #[test]
    fn per_type_and_zone_the_roomiest_reservation_is_used() {
        let of = |zone, id, count| offering(zone, 1, Some((id, Default, count)));
        let candidates = vec![
            candidate("m5.large", vec![of("a", "cr-1", 1), of("a", "cr-2", 3), of("b", "cr-3", 1)]),
            candidate("c5.large", vec![of("a", "cr-5", 2), of("a", "cr-4", 2)]),
        ];
        assert_eq!(left(candidates), ["m5.large a cr-2", "m5.large b cr-3", "c5.large a cr-4"]);
    }
}
