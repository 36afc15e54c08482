//! Counters and shared devices.

use karpenter_model::device::{AllocatedDevice, Allocation, CapacityPolicy, CapacityValues};
use karpenter_model::{Quantity, ResourceClaim};

use super::world::*;
use crate::Spot;

#[test]
fn devices_of_one_chip_share_its_counters() {
    let mut pool = slice(
        "pool",
        vec![drawing(device("half"), 5), drawing(device("rest"), 5), drawing(device("whole"), 10)],
    );
    pool.counters = vec![chip(10)];
    let has = |device| allocated("has", "pool", &[device], &["pod"]);
    for (taken, left) in [("whole", 0), ("half", 1)] {
        let world = world().slice(pool.clone()).claim(has(taken));
        let world = (0..3)
            .fold(world, |world, number| world.claim(claim(&format!("c{number}"), vec![request("gpu", 1)])));
        let mut run = world.start();
        let served =
            (0..3).filter(|number| run.launch(&[&format!("c{number}")], *number, &["small"]).is_ok());
        assert_eq!(served.count(), left, "beside `{taken}`");
    }
}

#[test]
fn counters_may_come_in_a_slice_of_their_own() {
    let mut counters = slice("pool", Vec::new());
    (counters.name, counters.counters, counters.slice_count) = ("a-counters".to_owned(), vec![chip(9)], 2);
    let mut devices = slice("pool", vec![drawing(device("half"), 5), drawing(device("rest"), 5)]);
    devices.slice_count = 2;
    let world = world().slice(counters).slice(devices);
    let world =
        world.claim(claim("one", vec![request("gpu", 1)])).claim(claim("two", vec![request("gpu", 2)]));
    let mut run = world.start();
    assert!(run.launch(&["two"], 0, &["small"]).is_err(), "ten are more than nine");
    assert!(run.launch(&["one"], 0, &["small"]).is_ok());
}

#[test]
fn shared_devices_are_given_away_in_portions() {
    let world = world().slice(slice("pool", vec![shared("big", 10)]));
    let asked = [("a", 4), ("b", 4), ("c", 4), ("d", 2)];
    let world = asked
        .iter()
        .fold(world, |world, (name, amount)| world.claim(claim(name, vec![portion("m", *amount)])));
    let mut run = world.start();
    let served: Vec<&str> = asked
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| run.launch(&[name], 0, &["small"]).is_ok())
        .collect();
    assert_eq!(served, ["a", "b", "d"]);
}

#[test]
fn what_is_consumed_of_a_shared_device_is_not_there_any_more() {
    let consumed = |name: &str, amount, pods: &[&str]| {
        let mut claim = allocated(name, "pool", &[], pods);
        let name = karpenter_model::QualifiedName::within("memory", DRIVER);
        let device = AllocatedDevice {
            driver: DRIVER.into(),
            pool: "pool".into(),
            device: "big".into(),
            consumed: [(name, Quantity::from_units(amount))].into(),
        };
        claim.allocation = Some(Allocation { devices: vec![device], places: None });
        claim
    };
    let world = world()
        .slice(slice("pool", vec![shared("big", 10)]))
        .claim(consumed("x", 4, &["leaves"]))
        .claim(consumed("y", 4, &["stays"]))
        .claim(claim("wants", vec![portion("m", 5)]));
    let mut run = world.start();
    assert!(run.ask(&["wants"], 0, &["small"], |_, _| true).is_err());
    run.ledger = run.allocator.ledger(["leaves".into()], &[]);
    assert!(
        run.ask(&["wants"], 0, &["small"], |_, _| true).is_ok(),
        "the share of the pod that leaves is free"
    );
}

#[test]
fn amounts_follow_the_policy_and_unknown_capacities_match_nothing() {
    let mut rounded = shared("rounded", 10);
    for capacity in rounded.capacity.values_mut() {
        let values = CapacityValues::OneOf(vec![Quantity::from_units(2), Quantity::from_units(6)]);
        capacity.policy = Some(CapacityPolicy { default: Some(Quantity::from_units(2)), values });
    }
    let mut unknown = portion("m", 1);
    if let karpenter_model::device::RequestKind::Exactly(exact) = &mut unknown.kind {
        exact.capacity = [("cores".to_owned(), Quantity::ONE)].into();
    }
    let world = world().slice(slice("pool", vec![rounded]));
    let world =
        [portion("m", 3), portion("m", 7), unknown, request("m", 1), request("m", 2), request("m", 1)]
            .into_iter()
            .enumerate()
            .fold(world, |world, (number, request)| world.claim(claim(&format!("c{number}"), vec![request])));
    let mut run = world.start();
    let mut serve = |name: &str| run.launch(&[name], 0, &["small"]).is_ok();
    assert!(serve("c0"), "three become six");
    assert!(!serve("c1"), "seven are more than any value");
    assert!(!serve("c2"), "it has no cores");
    assert!(serve("c3"), "the default is two");
    assert!(!serve("c4"), "twice two are more than is left");
    assert!(serve("c5"));
}

#[test]
fn an_exclusive_device_must_have_what_is_asked_for() {
    let mut whole = shared("whole", 10);
    whole.shareable = false;
    let world = world().slice(slice("pool", vec![whole]));
    let world =
        world.claim(claim("much", vec![portion("m", 11)])).claim(claim("some", vec![portion("m", 1)]));
    let world = world.claim(ResourceClaim { ..claim("more", vec![portion("m", 1)]) });
    let mut run = world.start();
    assert!(run.launch(&["much"], 0, &["small"]).is_err());
    assert!(run.launch(&["some"], 0, &["small"]).is_ok());
    assert!(run.launch(&["more"], 0, &["small"]).is_err(), "it is taken whole");
    assert_eq!(run.taken(&Spot::Launch(0)), ["small:some=whole"]);
}
