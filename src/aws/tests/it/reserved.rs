//! Launches into capacity reservations, and what is known about them before and after.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::ec2nodeclass::CapacityReservationSelectorTerm;
use karpenter_aws::instances::drift;
use karpenter_aws_api::ec2::{
    CapacityReservation, CapacityReservationPreference, Instance as Ec2Instance, InstanceState, Lifecycle,
};
use karpenter_aws_api::id::ReservationId;
use karpenter_aws_sim::examples::capacity_reservation;
use karpenter_aws_sim::{Fault, Options};
use karpenter_cloud::{Instance, Kind, LaunchRequest, Provider, Read, Termination};
use karpenter_model::names::label::{self, aws};
use karpenter_model::{CapacityType, Claim, InstanceType};

use crate::world::{World, claim_of, one_of, pool, request, request_with};

/// A reservation for `m5.large` in the first zone, as the node class selects it.
fn reservation(id: &str, available: u32) -> CapacityReservation {
    let tags = [("team".to_owned(), "web".to_owned())].into();
    CapacityReservation { total: 4, available, tags, ..capacity_reservation(id) }
}

/// A world whose node class selects these reservations.
async fn selecting(reservations: &[CapacityReservation]) -> World {
    selecting_in(Options { zones: 2, ..Options::default() }, reservations).await
}

/// Returns a world in an account with `options`, whose class selects the reservations.
async fn selecting_in(options: Options, reservations: &[CapacityReservation]) -> World {
    let tags = Some([("team".to_owned(), "web".to_owned())].into());
    let term = CapacityReservationSelectorTerm { tags, ..Default::default() };
    let mut world = World::with(options, |spec| {
        spec.capacity_reservation_selector_terms = Some(vec![term]);
    })
    .await;
    for reservation in reservations {
        world.account.put_capacity_reservation(reservation.clone());
    }
    world.clock.advance(Duration::from_mins(1));
    world.resolve().await;
    world
}

/// A world with a machine in the reservation `cr-1`, which EC2 shows by now.
async fn in_reservation() -> (World, Claim) {
    let world = selecting(&[reservation("cr-1", 2)]).await;
    let instance = world.provider.launch(&reserved("web-1")).await.expect("launches");
    world.settle();
    world.provider.instances().await.expect("lists");
    (world, claim_of(&instance))
}

fn reserved(claim: &str) -> LaunchRequest {
    request_with(claim, one_of(label::CAPACITY_TYPE, &["reserved"]))
}

/// `id available count` of every reserved offering.
async fn offered(world: &World) -> Vec<String> {
    let types: Arc<[Arc<InstanceType>]> = world.provider.instance_types(&pool()).await.expect("lists");
    let mut all: Vec<String> = types
        .iter()
        .flat_map(|one| &one.offerings)
        .filter_map(|one| {
            let reservation = one.reservation.as_ref()?;
            Some(format!("{} {} {}", reservation.id, one.available, reservation.count))
        })
        .collect();
    all.sort();
    all
}

fn label<'a>(instance: &'a Instance, key: &str) -> Option<&'a str> {
    instance.labels.get(key).map(karpenter_model::LabelValue::as_str)
}

fn launched(world: &World) -> Ec2Instance {
    world.account.live_instances().remove(0)
}

#[tokio::test(start_paused = true)]
async fn what_is_reserved_of_the_smallest_type_costs_next_to_nothing_and_not_nothing() {
    let world = selecting(&[reservation("cr-1", 2)]).await;
    let price = async |on_demand: u64| {
        world.account.set_on_demand_price("m5.large", on_demand);
        world.provider.prices.refresh_on_demand().await.expect("prices are read");
        let types = world.provider.instance_types(&pool()).await.expect("lists");
        let mut offerings = types.iter().flat_map(|one| &one.offerings);
        offerings.find(|one| one.reservation.is_some()).map(|one| one.price.nanos())
    };
    assert_eq!(price(96_000_000).await, Some(9));
    assert_eq!(price(5_200_000).await, Some(1), "nothing would read as unknown");
}

#[tokio::test(start_paused = true)]
async fn reserved_capacity_comes_first_and_the_count_follows_launches_and_ends() {
    let world = selecting(&[reservation("cr-1", 2)]).await;
    assert_eq!(offered(&world).await, ["cr-1 true 2"]);
    let instance = world.provider.launch(&request("web-1")).await.expect("launches");
    assert_eq!(instance.capacity_type, CapacityType::Reserved, "before spot and on-demand");
    for (key, value) in [
        (label::CAPACITY_TYPE, "reserved"),
        (aws::CAPACITY_RESERVATION_ID, "cr-1"),
        (aws::CAPACITY_RESERVATION_TYPE, "default"),
        (aws::CAPACITY_RESERVATION_INTERRUPTIBLE, "false"),
    ] {
        assert_eq!(label(&instance, key), Some(value), "{key}");
    }
    assert_eq!(offered(&world).await, ["cr-1 true 1"]);
    let in_ec2 = launched(&world);
    assert_eq!(in_ec2.reservation.as_ref().map(ReservationId::as_str), Some("cr-1"));
    assert_eq!(in_ec2.reservation_preference, Some(CapacityReservationPreference::CapacityReservationsOnly));
    let read = world.provider.instance(&instance.provider_id, Read::Consistent).await.expect("is read");
    assert_eq!(read.labels, instance.labels, "the same from a description");
    let id = &instance.provider_id;
    assert_eq!(world.provider.terminate(id).await.expect("ends"), Termination::Started);
    world.settle();
    for _ in 0..2 {
        assert_eq!(world.provider.terminate(id).await.expect("is gone"), Termination::AlreadyGone);
        assert_eq!(offered(&world).await, ["cr-1 true 2"], "given back once");
    }
}

/// EC2 may not show the reservation of a machine that it is still launching, and a claim that says on-demand says so for
/// ever.
#[tokio::test(start_paused = true)]
async fn a_machine_is_not_taken_for_on_demand_before_its_reservation_is_shown() {
    let world = selecting(&[reservation("cr-1", 2)]).await;
    world.account.inject(Fault::lose_answer("CreateFleet").times(1));
    world.provider.launch(&reserved("web-1")).await.expect_err("the answer is lost");
    world.account.end_reservation(&"cr-1".into());
    let hidden = launched(&world);
    assert_eq!((hidden.state, hidden.reservation), (InstanceState::Pending, None));
    let early =
        world.provider.launch(&reserved("web-1")).await.expect_err("how it is paid for is not known yet");
    assert_eq!(early.kind, Kind::Transient, "{early}");
    assert!(!early.token_spent && early.to_string().contains(hidden.id.as_str()), "{early}");
    world.clock.advance(Duration::from_mins(2));
    let adopted = world.provider.launch(&reserved("web-1")).await.expect("is adopted");
    assert_eq!(adopted.instance_id.as_str(), hidden.id.as_str());
    assert_eq!(adopted.capacity_type, CapacityType::OnDemand, "the reservation has ended indeed");
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_launch_stays_out_of_every_reservation() {
    let world = selecting(&[reservation("cr-1", 2)]).await;
    let on_demand = request_with("web-1", one_of(label::CAPACITY_TYPE, &["on-demand"]));
    let instance = world.provider.launch(&on_demand).await.expect("launches");
    assert_eq!(instance.capacity_type, CapacityType::OnDemand);
    assert_eq!(label(&instance, aws::CAPACITY_RESERVATION_ID), None);
    let in_ec2 = launched(&world);
    assert_eq!(in_ec2.reservation_preference, Some(CapacityReservationPreference::None));
    assert_eq!(offered(&world).await, ["cr-1 true 2"]);
}

#[tokio::test(start_paused = true)]
async fn kinds_of_reservations_are_launched_each_in_its_way() {
    let block = || CapacityReservation { kind: Some("capacity-block".to_owned()), ..reservation("cr-1", 1) };
    let interruptible = || CapacityReservation { interruptible: Some(true), ..reservation("cr-1", 1) };
    for (reservation, lifecycle, kind, taken_back) in [
        (block(), Lifecycle::CapacityBlock, "capacity-block", "false"),
        (interruptible(), Lifecycle::InterruptibleCapacityReservation, "default", "true"),
    ] {
        let world = selecting(&[reservation]).await;
        let instance = world.provider.launch(&reserved("web-1")).await.expect("launches");
        assert_eq!(label(&instance, aws::CAPACITY_RESERVATION_TYPE), Some(kind));
        assert_eq!(label(&instance, aws::CAPACITY_RESERVATION_INTERRUPTIBLE), Some(taken_back));
        assert_eq!(launched(&world).lifecycle, Some(lifecycle));
        world.settle();
        let read = world.provider.instance(&instance.provider_id, Read::Consistent).await.expect("is read");
        assert_eq!(read.labels, instance.labels);
    }
}

#[tokio::test(start_paused = true)]
async fn four_reservations_of_which_two_share_type_and_zone_have_three_templates() {
    let of = |id, zone: &str, instance_type: &str, available| CapacityReservation {
        zone: zone.into(),
        instance_type: instance_type.into(),
        ..reservation(id, available)
    };
    let world = selecting(&[
        of("cr-1", "us-west-2a", "m5.large", 1),
        of("cr-2", "us-west-2a", "m5.large", 2),
        of("cr-3", "us-west-2b", "m5.large", 1),
        of("cr-4", "us-west-2a", "c5.large", 1),
    ])
    .await;
    world.provider.launch(&reserved("web-1")).await.expect("launches");
    assert_eq!(world.account.calls().count("CreateLaunchTemplate"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_ec2_has_nothing_left_of_is_out_until_it_is_counted_again() {
    let mut world = selecting(&[reservation("cr-1", 1)]).await;
    world.account.put_capacity_reservation(reservation("cr-1", 0));
    let failed = world.provider.launch(&reserved("web-1")).await.expect_err("nothing left");
    assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
    assert_eq!(offered(&world).await, ["cr-1 true 0"]);
    let failed = world.provider.launch(&reserved("web-2")).await.expect_err("not even tried");
    assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
    assert_eq!(world.account.calls().count("CreateFleet"), 1);
    let bought = world.provider.launch(&request("web-3")).await.expect("buys instead");
    assert_eq!(bought.capacity_type, CapacityType::Spot);
    // One refresh later what is left again is used.
    world.account.put_capacity_reservation(reservation("cr-1", 1));
    world.clock.advance(Duration::from_mins(1));
    world.resolve().await;
    let instance = world.provider.launch(&reserved("web-4")).await.expect("launches");
    assert_eq!(label(&instance, aws::CAPACITY_RESERVATION_ID), Some("cr-1"));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_was_not_tried_is_not_exhausted() {
    let options = Options { zones: 2, offerings_tried: Some(1), ..Options::default() };
    let second = CapacityReservation { zone: "us-west-2b".into(), ..reservation("cr-2", 1) };
    let world = selecting_in(options, &[reservation("cr-1", 1), second]).await;
    world.account.put_capacity_reservation(reservation("cr-1", 0));
    let failed = world.provider.launch(&reserved("web-1")).await.expect_err("the first has nothing left");
    assert_eq!(failed.kind, Kind::NoCapacity, "{failed}");
    assert_eq!(offered(&world).await, ["cr-1 true 0", "cr-2 true 1"]);
    let instance = world.provider.launch(&reserved("web-2")).await.expect("launches into the other");
    assert_eq!(label(&instance, aws::CAPACITY_RESERVATION_ID), Some("cr-2"));
}

#[tokio::test(start_paused = true)]
async fn throttling_exhausts_no_reservation() {
    let world = selecting(&[reservation("cr-1", 1)]).await;
    world.account.inject(Fault::fail("CreateFleet", "RequestLimitExceeded").times(1));
    let failed = world.provider.launch(&reserved("web-1")).await.expect_err("throttled");
    assert_eq!(failed.kind, Kind::Throttled);
    assert_eq!(offered(&world).await, ["cr-1 true 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_an_answer_leaves_out_is_not_drift() {
    let (mut world, claim) = in_reservation().await;
    // As an answer makes it in which the reservation is missing.
    world.class.status.get_or_insert_default().capacity_reservations.clear();
    world.provider.classes.replace_all([world.class.clone()]);
    let unknown = world.provider.drift(&claim).await.expect_err("it may not be concluded");
    assert_eq!(unknown.kind, Kind::Transient, "{unknown}");
    world.resolve().await;
    assert_eq!(world.provider.drift(&claim).await.expect("is known"), None);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_said_to_be_in_a_reservation_that_has_ended_has_not_drifted() {
    let (mut world, claim) = in_reservation().await;
    // EC2 is faster to forget the reservation than to say so of its instances.
    let expired = CapacityReservation { state: "expired".to_owned(), ..reservation("cr-1", 1) };
    world.account.put_capacity_reservation(expired);
    world.settle();
    world.resolve().await;
    let unknown = world.provider.drift(&claim).await.expect_err("it may not be concluded");
    assert_eq!(unknown.kind, Kind::Transient, "{unknown}");
    world.account.end_reservation(&"cr-1".into());
    assert_eq!(world.provider.drift(&claim).await.expect("is known"), None);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_no_longer_selected_is_drift_and_one_that_ended_is_not() {
    let (mut world, claim) = in_reservation().await;
    assert_eq!(world.provider.drift(&claim).await.expect("is known"), None);
    world
        .account
        .put_capacity_reservation(CapacityReservation { tags: Default::default(), ..reservation("cr-1", 1) });
    world.clock.advance(Duration::from_mins(1));
    world.resolve().await;
    let drifted = world.provider.drift(&claim).await.expect("is known");
    assert_eq!(drifted, Some(drift::CAPACITY_RESERVATION));
    world.account.end_reservation(&"cr-1".into());
    assert_eq!(world.provider.drift(&claim).await.expect("is known"), None, "it is on-demand by now");
}
