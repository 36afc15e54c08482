//! Demands of claims, and claims that have devices already.

use karpenter_model::device::{
    Consumer, Device, DeviceConstraint, DeviceCount, DeviceRequest, Reach, RequestKind,
};
use karpenter_model::{Effect, Requirements, ResourceClaim, Taint, Toleration};

use super::world::*;
use crate::{Refusal, Spot};

#[test]
fn pods_get_distinct_devices_until_none_are_left() {
    let names = ["a", "b", "c"];
    let world =
        names.iter().fold(world().slice(slice("pool", vec![device("x"), device("y")])), |world, name| {
            world.claim(claim(name, vec![request("gpu", 1)]))
        });
    let mut run = world.start();
    assert!(run.launch(&["a"], 0, &["small"]).is_ok());
    assert!(run.launch(&["b"], 1, &["small"]).is_ok());
    assert_eq!(
        (run.taken(&Spot::Launch(0)), run.taken(&Spot::Launch(1))),
        (vec!["small:a=x".to_owned()], vec!["small:b=y".to_owned()])
    );
    assert!(matches!(run.launch(&["c"], 2, &["small"]), Err(Refusal::NoDevices { .. })));
}

#[test]
fn what_cannot_be_planned_for_is_named() {
    let odd =
        |field: &str| DeviceRequest { name: "r".into(), kind: RequestKind::Unsupported(field.to_owned()) };
    let mut distinct = claim("distinct", vec![request("gpu", 1)]);
    distinct.constraints = vec![DeviceConstraint::Unsupported("distinctAttribute".to_owned())];
    let mut classless = request("gpu", 1);
    if let RequestKind::Exactly(exact) = &mut classless.kind {
        exact.class = "nothing".into();
    }
    let broken = request_of("gpu", DeviceCount::Exactly(1), &["device.driver =="]);
    let world = world().claim(distinct).claim(claim("first", vec![odd("firstAvailable")]));
    let world = world.claim(claim("classless", vec![classless])).claim(claim("broken", vec![broken]));
    let run = world.start();
    for (name, expected) in [
        ("missing", "resource claim `default/missing` does not exist"),
        ("first", "resource claim `default/first` uses `firstAvailable`, which is not supported"),
        ("distinct", "resource claim `default/distinct` uses `distinctAttribute`, which is not supported"),
        (
            "classless",
            "resource claim `default/classless` asks for device class `nothing`, which does not exist",
        ),
        ("broken", "selector `device.driver ==` of resource claim `default/broken` cannot be compiled"),
    ] {
        let refusal = run.allocator.claims_of(&pod(&[name]), &[]).expect_err(name).to_string();
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}

#[test]
fn devices_nobody_may_have_are_named_and_others_are_taken() {
    let mut tainted = device("tainted");
    tainted.taints.push(Taint::new("broken", "", Effect::NoExecute));
    let mut bound = device("bound");
    bound.unsupported = Some("bindingConditions".to_owned());
    let asking = |name: &str, count, tolerant: bool| {
        let mut request = request_of("gpu", count, &[]);
        if let (RequestKind::Exactly(exact), true) = (&mut request.kind, tolerant) {
            exact.tolerations.push(Toleration::everything());
        }
        claim(name, vec![request])
    };
    let one = DeviceCount::Exactly(1);
    let said = |devices: &[&Device], claim: ResourceClaim| {
        let name = claim.key.name.to_string();
        let devices = devices.iter().map(|device| (*device).clone()).collect();
        let world = world().slice(slice("pool", devices)).claim(claim);
        let mut run = world.start();
        match run.launch(&[&name], 0, &["small"]) {
            Ok(_) => run.taken(&Spot::Launch(0)).join(" "),
            Err(refusal) => refusal.to_string(),
        }
    };
    let plain = device("plain");
    let refused = |name: &str, why: &str| format!("resource claim `default/{name}` cannot have device {why}");
    let intolerant = refused("c", "`tainted`: taint `broken:NoExecute` is not tolerated");
    assert_eq!(said(&[&tainted], asking("c", one, false)), intolerant);
    assert_eq!(said(&[&tainted, &plain], asking("c", one, false)), "small:c=plain");
    assert_eq!(said(&[&tainted, &plain], asking("c", DeviceCount::All, false)), intolerant);
    assert_eq!(
        said(&[&tainted, &plain], asking("c", DeviceCount::All, true)),
        "small:c=tainted small:c=plain"
    );
    let conditions = refused("c", "`bound`: it has `bindingConditions`, which is not supported");
    assert_eq!(said(&[&bound], asking("c", one, true)), conditions);
    assert_eq!(said(&[&bound, &plain], asking("c", one, true)), "small:c=plain");
}

#[test]
fn the_first_alternative_wins_under_which_the_other_requests_and_claims_can_be_served() {
    let of = |name: &str, count: u32| DeviceRequest {
        name: name.into(),
        kind: RequestKind::FirstAvailable(vec![request("more", count), request("less", 1)]),
    };
    let pool = slice("pool", vec![device("a"), device("b"), device("c")]);
    let taken = |claims: Vec<ResourceClaim>| {
        let names: Vec<String> = claims.iter().map(|claim| claim.key.name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let world = claims.into_iter().fold(world().slice(pool.clone()), World::claim);
        let mut run = world.start();
        match run.launch(&names, 0, &["small"]) {
            Ok(_) => run.requests(&Spot::Launch(0)).join(" "),
            Err(refusal) => refusal.to_string(),
        }
    };
    assert_eq!(taken(vec![claim("c", vec![of("x", 2)])]), "x/more x/more");
    assert_eq!(taken(vec![claim("c", vec![of("x", 4)])]), "x/less");
    assert_eq!(taken(vec![claim("c", vec![of("x", 2), request("y", 2)])]), "x/less y y");
    assert_eq!(taken(vec![claim("c", vec![of("x", 2), of("y", 2)])]), "x/more x/more y/less");
    assert_eq!(
        taken(vec![claim("c", vec![of("x", 3)]), claim("d", vec![request("y", 2)])]),
        "x/less y y",
        "a later claim of the pod counts"
    );
    assert_eq!(
        taken(vec![claim("c", vec![of("x", 4), of("y", 4), request("z", 2)])]),
        "no devices are left for resource claim `default/c`"
    );
}

#[test]
fn who_only_looks_takes_nothing_and_may_have_what_others_hold() {
    let mut looking = request("look", 2);
    if let RequestKind::Exactly(exact) = &mut looking.kind {
        exact.admin = true;
    }
    let mut portions = shared("b", 10);
    portions.draws.push(chip(5));
    let mut pool = slice("pool", vec![device("a"), portions]);
    pool.counters = vec![chip(5)];
    let claims = [claim("looks", vec![looking]), claim("takes", vec![request("both", 2)])];
    let world = claims.into_iter().fold(world().slice(pool), World::claim);
    for order in [["looks", "takes"], ["takes", "looks"]] {
        let mut run = world.start();
        for (number, name) in order.iter().enumerate() {
            assert!(run.launch(&[name], number, &["small"]).is_ok(), "{name} of {order:?}");
        }
    }
}

#[test]
fn devices_of_a_claim_share_the_attribute_it_names() {
    let numa = |name, node| with(device(name), "numa", node);
    let pool = slice("pool", vec![numa("a", "0"), numa("b", "1"), numa("c", "1"), device("d")]);
    let mut pair = claim("pair", vec![request("x", 1), request("y", 1)]);
    pair.constraints = vec![matching("numa")];
    let triple = ResourceClaim { requests: vec![request("x", 3)], ..pair.clone() };
    let triple = ResourceClaim { key: claim("triple", vec![]).key, ..triple };
    let world = world().slice(pool).claim(pair).claim(triple);
    let mut run = world.start();
    assert!(run.launch(&["triple"], 0, &["small"]).is_err(), "no three are on one node");
    assert!(run.launch(&["pair"], 0, &["small"]).is_ok(), "the first choice is undone");
    assert_eq!(run.taken(&Spot::Launch(0)), ["small:pair=b", "small:pair=c"]);
}

#[test]
fn values_of_different_kinds_do_not_match() {
    let mut number = device("number");
    let name = karpenter_model::QualifiedName::within("numa", DRIVER);
    number.attributes.insert(name, karpenter_model::device::AttributeValue::Int(1));
    let mut pair = claim("pair", vec![request("x", 2)]);
    pair.constraints = vec![matching("numa")];
    let world = world().slice(slice("pool", vec![number, with(device("text"), "numa", "1")])).claim(pair);
    assert!(world.start().launch(&["pair"], 0, &["small"]).is_err());
}

#[test]
fn devices_that_claims_have_are_not_given_again() {
    let gpus = || slice("pool", vec![device("x"), device("y")]);
    let build = |reserved_for: Vec<Consumer>| {
        let has = ResourceClaim { reserved_for, ..allocated("has", "pool", &["x"], &[]) };
        world().slice(gpus()).claim(has).claim(claim("two", vec![request("gpu", 2)]))
    };
    for (reserved_for, free) in [
        (vec![], false),
        (vec![Consumer::Pod("stays".into())], false),
        (vec![Consumer::Pod("leaves".into()), Consumer::Pod("stays".into())], false),
        (vec![Consumer::Other], false),
        (vec![Consumer::Gone("gone".into())], true),
        (vec![Consumer::Pod("leaves".into())], true),
    ] {
        let world = build(reserved_for.clone());
        let mut run = world.start();
        run.ledger = run.allocator.ledger(["leaves".into()], &[]);
        assert_eq!(run.launch(&["two"], 0, &["small"]).is_ok(), free, "{reserved_for:?}");
    }
}

#[test]
fn pods_that_leave_later_give_their_devices_back_until_that_is_undone() {
    let world = world()
        .slice(slice("pool", vec![device("x")]))
        .claim(allocated("has", "pool", &["x"], &["mover"]))
        .claim(claim("wants", vec![request("gpu", 1)]));
    let mut run = world.start();
    assert!(run.ask(&["wants"], 0, &["small"], |_, _| true).is_err());
    let before = run.ledger.clone();
    run.allocator.evacuate(&mut run.ledger, None, ["mover".into()]);
    assert!(run.ask(&["wants"], 0, &["small"], |_, _| true).is_ok());
    let moved = run.launch(&["has"], 0, &["small"]);
    assert!(moved.is_ok(), "the mover's own claim is allocated again");
    assert!(run.ask(&["wants"], 1, &["small"], |_, _| true).is_err(), "and has the device again");
    run.ledger = before;
    assert!(run.ask(&["wants"], 0, &["small"], |_, _| true).is_err());
}

#[test]
fn alternatives_of_an_allocated_claim_are_kept_apart() {
    let mut has = allocated("has", "elsewhere", &["x"], &["pod"]);
    if let Some(allocation) = &mut has.allocation {
        allocation.places = Some(vec![zone(&["a"]), zone(&["b"])]);
    }
    let world = world().claim(has);
    let mut run = world.start();
    // Anded, the two terms would exclude each other.
    let sold_in_b = run.ask(&["has"], 0, &["small"], |_, zone| zone == "b").expect("the second term holds");
    assert_eq!(sold_in_b.requirements.value_of(&ZONE.into()).values().len(), 1);
    assert!(run.join(&["has"], "node-1", "b").is_ok());
    assert!(matches!(run.join(&["has"], "node-2", "c"), Err(Refusal::Elsewhere(_))));
}

#[test]
fn requirements_of_allocated_claims_hold_beside_claims_that_have_nothing_yet() {
    let mut has = allocated("has", "elsewhere", &["x"], &["pod"]);
    if let Some(allocation) = &mut has.allocation {
        allocation.places = Some(vec![zone(&["b"])]);
    }
    let fresh = claim("fresh", vec![request("gpu", 1)]);
    let world = world().claim(has).claim(fresh).slice(slice("pool", vec![device("y")]));
    let mut run = world.start();
    let (zones, _) = run.launch(&["fresh", "has"], 0, &["small"]).expect("both can be served");
    assert_eq!(zones, ["b"]);
}

#[test]
fn devices_on_a_node_are_of_use_on_that_node_only() {
    let mut has = allocated("has", "node-1", &["x"], &["pod"]);
    if let Some(allocation) = &mut has.allocation {
        allocation.places = Some(vec![named("node-1")]);
    }
    let world = world().claim(has);
    let mut run = world.start();
    assert!(run.join(&["has"], "node-1", "a").is_ok());
    assert!(matches!(run.join(&["has"], "node-2", "a"), Err(Refusal::Elsewhere(_))));
    assert!(matches!(run.launch(&["has"], 0, &["small"]), Err(Refusal::Elsewhere(_))));
}

#[test]
fn pods_that_share_a_claim_share_its_devices() {
    let mut zonal = slice("zonal", vec![device("x")]);
    zonal.reach = Reach::Selected(vec![zone(&["a"]), zone(&["b"])]);
    let world = world()
        .slice(zonal)
        .template("small", vec![device("promised")], &[])
        .claim(claim("cluster", vec![request("gpu", 1)]))
        .claim(claim("local", vec![request("gpu", 1)]));
    let mut run = world.start();
    let (zones, _) = run.launch(&["cluster"], 0, &["bare"]).expect("the zonal one");
    assert_eq!(zones, ["a"]);
    let (zones, _) =
        run.launch(&["cluster"], 1, &["bare"]).expect("the same device, from elsewhere in the zone");
    assert_eq!(zones, ["a"]);
    assert!(run.join(&["cluster"], "node-1", "b").is_err());
    assert!(run.launch(&["local"], 2, &["small"]).is_ok());
    assert!(run.launch(&["local"], 2, &["small"]).is_ok(), "on the same machine");
    assert!(matches!(run.launch(&["local"], 3, &["small"]), Err(Refusal::Elsewhere(_))));
}

#[test]
fn zones_without_an_offering_are_passed_over() {
    let zonal = |name: &str, zone_name: &str| {
        let mut slice = slice(name, vec![device(name)]);
        slice.reach = Reach::Selected(vec![zone(&[zone_name])]);
        slice
    };
    let world = world().slice(zonal("one", "a")).slice(zonal("other", "b"));
    let world =
        world.claim(claim("c", vec![request("gpu", 1)])).claim(claim("both", vec![request("gpu", 2)]));
    let run = world.start();
    let proposal = run.ask(&["c"], 0, &["small"], |_, zone| zone == "b").expect("there is one in zone b");
    let zone = Requirements::value_of(&proposal.requirements, &ZONE.into());
    assert!(zone.allows("b") && !zone.allows("a"));
    assert!(run.ask(&["both"], 0, &["small"], |_, _| true).is_err(), "no machine is in two zones");
}
