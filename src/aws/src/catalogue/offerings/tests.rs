//! Listed offerings and their availability.

use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::AmiFamily;
use karpenter_aws_api::ec2::PlacementStrategy;
use karpenter_model::ManualClock;

use super::*;
use crate::market::reservations::availability::Availability;
use crate::market::unavailable::{Cause, Subject, Unavailable};
use crate::testing::{class, machine};

fn reserving(state: &str) -> EC2NodeClass {
    let mut class = class(AmiFamily::Custom);
    let reservation = serde_json::json!({
        "availabilityZone": "a", "id": "cr-1", "instanceMatchCriteria": "open", "instanceType": "m5.large",
        "ownerID": "123456789012", "reservationType": "capacity-block", "state": state,
    });
    class.status.as_mut().unwrap().capacity_reservations = vec![serde_json::from_value(reservation).unwrap()];
    class
}

fn listed(view: &ClassView<'_>) -> Arc<InstanceType> {
    previewed(view, &BTreeMap::new())
}

fn previewed(view: &ClassView<'_>, previews: &BTreeMap<InstanceTypeName, Price>) -> Arc<InstanceType> {
    let mut info = machine("m5.large", 2, 8, 3, 10);
    info.placement_strategies = vec!["partition".to_owned()];
    let zones: BTreeSet<AwsZone> = ["a".into(), "b".into()].into();
    let region_zones: BTreeSet<&AwsZone> = zones.iter().collect();
    let prices = Book::default();
    let context = Context { view, region_zones: &region_zones, prices: &prices, previews };
    Arc::new(InstanceType::bare("m5.large", offerings(&info, &zones, context)))
}

fn reserved(instance_type: &InstanceType) -> Vec<(bool, u32)> {
    let of = |offering: &Offering| Some((offering.available, offering.reservation.as_ref()?.count));
    instance_type.offerings.iter().filter_map(of).collect()
}

#[test]
fn a_reserved_offering_is_available_unless_expiring_and_counts_what_is_left() {
    let left = Availability::new(Arc::new(ManualClock::default()));
    let unavailable = Unavailable::new(Arc::new(ManualClock::default()), Duration::from_mins(30));
    for (state, count, expected) in
        [("active", 2, (true, 2)), ("active", 0, (true, 0)), ("expiring", 2, (false, 2))]
    {
        left.counted("cr-1", count, 2);
        let class = reserving(state);
        let view = ClassView::new(&class);
        let now = Now { unavailable: &unavailable.view(), left: &left.left(), away: &BTreeSet::new() };
        let current = as_of_now(&listed(&view), &view, now);
        assert_eq!(reserved(&current), [expected], "{state}, {count} left");
    }
    let class = reserving("active");
    let view = ClassView::new(&class).reserving(false);
    assert_eq!(reserved(&listed(&view)), [], "none without the gate");
}

#[test]
fn full_subnets_take_out_reserved_offerings_too_but_lack_of_capacity_elsewhere_does_not() {
    let clock = Arc::new(ManualClock::default());
    let left = Availability::new(Arc::clone(&clock) as _);
    left.counted("cr-1", 2, 2);
    let unavailable = Unavailable::new(clock, Duration::from_mins(30));
    let class = reserving("active");
    let view = ClassView::new(&class);
    let available = |unavailable: &Unavailable| {
        let now = Now { unavailable: &unavailable.view(), left: &left.left(), away: &BTreeSet::new() };
        reserved(&as_of_now(&listed(&view), &view, now))[0].0
    };
    let key = OfferingKey {
        instance_type: "m5.large".into(),
        zone: "a".into(),
        capacity_type: CapacityType::OnDemand,
    };
    unavailable.mark(Subject::Offering(key), Cause::Lacking);
    assert!(available(&unavailable));
    unavailable.mark(Subject::Subnet("subnet-a".into()), Cause::Wanted);
    assert!(!available(&unavailable));
}

#[test]
fn a_zone_the_cluster_is_shifted_away_from_offers_nothing_reservations_included() {
    let left = Availability::new(Arc::new(ManualClock::default()));
    left.counted("cr-1", 2, 2);
    let class = reserving("active");
    let view = ClassView::new(&class);
    let mut listed = InstanceType::clone(&listed(&view));
    for offering in &mut listed.offerings {
        offering.available = true;
    }
    let listed = Arc::new(listed);
    let available = |away: &[&str]| {
        let away = away.iter().map(|id| ZoneId::from(*id)).collect();
        let now = Now { unavailable: &View::default(), left: &left.left(), away: &away };
        let current = as_of_now(&listed, &view, now);
        let zones = current.offerings.iter().filter(|one| one.available).map(|one| one.zone.to_string());
        zones.collect::<BTreeSet<_>>()
    };
    let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    assert_eq!(available(&[]), both);
    assert_eq!(available(&["id-of-another-cluster"]), both);
    assert_eq!(available(&["id-a"]), BTreeSet::from(["b".to_owned()]));
}

#[test]
fn nothing_new_gives_the_very_same_type() {
    let class = class(AmiFamily::Custom);
    let view = ClassView::new(&class);
    let listed = listed(&view);
    let now = Now { unavailable: &View::default(), left: &Left::default(), away: &BTreeSet::new() };
    assert!(Arc::ptr_eq(&listed, &as_of_now(&listed, &view, now)));
}

#[test]
fn partitions_multiply_offerings_and_each_has_its_own_memory_of_failures() {
    let group = |partitions| Group { id: "pg-1".into(), strategy: PlacementStrategy::Partition, partitions };
    let class = reserving("active");
    let plain = listed(&ClassView::new(&class)).offerings.len();
    let view = ClassView::new(&class).placed(Some(group(3)));
    let mut placed = InstanceType::clone(&listed(&view));
    assert_eq!(placed.offerings.len(), 3 * plain);
    for offering in &mut placed.offerings {
        offering.available = offering.reservation.is_none();
    }
    let unavailable = Unavailable::new(Arc::new(ManualClock::default()), Duration::from_mins(30));
    let key = OfferingKey {
        instance_type: "m5.large".into(),
        zone: "a".into(),
        capacity_type: CapacityType::OnDemand,
    };
    let place = Place { group: "pg-1".into(), partition: Some(2) };
    unavailable.mark(Subject::Placed(key, place), Cause::Lacking);
    let now = Now { unavailable: &unavailable.view(), left: &Left::default(), away: &BTreeSet::new() };
    let current = as_of_now(&Arc::new(placed), &view, now);
    let out: Vec<_> = current
        .offerings
        .iter()
        .filter(|one| one.reservation.is_none() && !one.available)
        .map(|one| (one.zone.to_string(), one.capacity_type, partition_of(one)))
        .collect();
    assert_eq!(out, [("a".to_owned(), CapacityType::OnDemand, Some(2))]);
}

/// Book without prices: EC2 names none.
#[test]
fn a_type_without_price_can_be_had_for_what_an_overlay_says_it_costs() {
    let class = class(AmiFamily::Custom);
    let view = ClassView::new(&class);
    let seen = |previews: &[(&str, i64)]| {
        let price = |(name, nanos): &(&str, i64)| ((*name).into(), Price::from_nanos(*nanos));
        let listed = previewed(&view, &previews.iter().map(price).collect());
        let offerings = listed.offerings.iter();
        offerings.map(|offering| (offering.price.nanos(), offering.available)).collect::<BTreeSet<_>>()
    };
    assert_eq!(seen(&[]), [(0, false)].into());
    assert_eq!(seen(&[("m5.xlarge", 7)]), [(0, false)].into());
    assert_eq!(seen(&[("m5.large", 7)]), [(7, true)].into());
}
