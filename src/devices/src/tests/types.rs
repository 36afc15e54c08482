//! Machines whose type is still open.

use karpenter_model::device::{Reach, RequestKind};

use super::world::*;
use crate::{ComingUp, Refusal, Spot};

#[test]
fn types_without_the_devices_are_pruned() {
    let world = world()
        .template("one", vec![device("g0")], &[])
        .template("two", vec![device("g0"), device("g1")], &[])
        .claim(claim("a", vec![request("gpu", 1)]))
        .claim(claim("b", vec![request("gpu", 1)]))
        .claim(claim("c", vec![request("gpu", 1)]));
    let mut run = world.start();
    let types = ["bare", "one", "two"];
    assert_eq!(run.launch(&["a"], 0, &types).map(|(_, types)| types), Ok(vec![1, 2]));
    assert_eq!(run.launch(&["b"], 0, &["one", "two"]).map(|(_, types)| types), Ok(vec![1]), "`one` is full");
    assert!(run.launch(&["c"], 0, &["two"]).is_err());
    assert!(run.launch(&["c"], 1, &types).is_ok(), "another machine has its own");
    let drivers = run.allocator.drivers(&run.ledger, &Spot::Launch(0));
    assert_eq!(drivers.into_iter().collect::<Vec<_>>(), [DRIVER]);
}

#[test]
fn only_devices_that_come_with_the_machine_are_waited_for() {
    let world = world().slice(slice("pool", vec![device("x")])).claim(claim("a", vec![request("gpu", 1)]));
    let mut run = world.start();
    assert!(run.launch(&["a"], 0, &["bare"]).is_ok());
    assert!(run.allocator.drivers(&run.ledger, &Spot::Launch(0)).is_empty());
}

#[test]
fn a_machine_takes_the_most_of_any_type_and_gives_back_what_pruned_types_took() {
    // `own` brings a device along, `bare` needs the one that exists.
    let world = world()
        .slice(slice("pool", vec![with(device("x"), "model", "cluster")]))
        .template("own", vec![device("g0"), device("g1")], &[])
        .claim(claim("pair", vec![request("gpu", 2)]))
        .claim(claim("a", vec![request("gpu", 1)]))
        .claim(claim("b", vec![request("gpu", 1)]));
    let mut run = world.start();
    assert_eq!(run.launch(&["a"], 0, &["bare", "own"]).map(|(_, types)| types), Ok(vec![0, 1]));
    assert_eq!(run.taken(&Spot::Launch(0)), ["bare:a=x", "own:a=x"], "types of one machine may use the same");
    assert!(run.ask(&["b"], 1, &["bare"], |_, _| true).is_err(), "another machine may not");
    assert_eq!(run.launch(&["pair"], 0, &["bare", "own"]).map(|(_, types)| types), Ok(vec![1]));
    let version = run.ledger.version();
    run.ledger.keep(&Spot::Launch(0), |name| *name != "own");
    assert!(run.ledger.version() > version, "what becomes free is worth another try");
    assert!(run.ask(&["b"], 1, &["bare"], |_, _| true).is_ok());
}

#[test]
fn counters_are_charged_with_the_most_of_any_type_until_it_is_pruned() {
    let mut pool =
        slice("pool", vec![drawing(with(device("big"), "size", "big"), 8), drawing(device("small"), 2)]);
    pool.counters = vec![chip(10)];
    pool.devices.push(drawing(device("other"), 4));
    let mut zonal = pool.clone();
    zonal.reach = Reach::Everywhere;
    let world =
        world().slice(zonal).template("own", vec![drawing(device("g0"), 8), drawing(device("g1"), 8)], &[]);
    let world = world.claim(claim("a", vec![request("gpu", 1)])).claim(claim("b", vec![request("gpu", 1)]));
    let world = world.claim(claim("c", vec![request("gpu", 1)]));
    let mut run = world.start();
    assert!(run.launch(&["a"], 0, &["bare", "own"]).is_ok(), "both take `big`");
    assert!(run.launch(&["b"], 1, &["bare"]).is_ok(), "two are left for `small`");
    assert!(run.launch(&["c"], 2, &["bare"]).is_err());
    assert!(run.launch(&["c"], 2, &["own"]).is_ok(), "counters of a machine that is to come are its own");
}

#[test]
fn devices_with_values_not_known_yet_match_when_the_provider_says_so() {
    let names = ["g0", "g1", "g2", "g3"];
    let promised = || names.iter().map(|name| device(name)).collect::<Vec<_>>();
    let mut pair = claim("pair", vec![request("gpu", 3)]);
    pair.constraints = vec![matching("numa")];
    for (bound, possible) in [
        (vec![], false),
        (vec![["g0", "g1"].as_slice(), &["g2", "g3"]], false),
        (vec![["g0", "g1"].as_slice(), &["g1", "g3"]], true),
    ] {
        let world = world().template("own", promised(), &bound).claim(pair.clone());
        assert_eq!(world.start().launch(&["pair"], 0, &["own"]).is_ok(), possible, "{bound:?}");
    }
    // One device states its value and two are bound to each other: the two ways do not mix.
    let mut mixed = promised();
    mixed[0] = with(device("g0"), "numa", "0");
    let world = world().template("own", mixed, &[&["g0", "g1", "g2"]]).claim(pair);
    assert!(world.start().launch(&["pair"], 0, &["own"]).is_err());
}

#[test]
fn all_types_that_survive_share_one_set_of_requirements() {
    let mut zonal = slice("zonal", vec![device("x")]);
    zonal.reach = Reach::Selected(vec![zone(&["a"]), zone(&["b"])]);
    let world = world().slice(zonal).claim(claim("c", vec![request("gpu", 1)]));
    let run = world.start();
    let sold = |name: &str, zone: &str| match name {
        "in-b" => zone == "b",
        "in-a" => zone == "a",
        _ => true,
    };
    let proposal = run.ask(&["c"], 0, &["in-b", "in-a", "anywhere"], sold).expect("one type will do");
    assert_eq!(proposal.types, [0, 2], "the first type decides about the zone");
    assert!(run.registry().is_well_known(ZONE));
}

#[test]
fn devices_a_claim_has_on_a_machine_that_comes_up_are_taken_from_what_its_type_promises() {
    let coming = |name: &str| ComingUp {
        spot: Spot::Machine(name.into()),
        name: name.into(),
        types: vec![("default".into(), "m".into())],
    };
    let of_node = |name: &str, devices| {
        let reach = Reach::Node(name.into());
        karpenter_model::ResourceSlice { owner: Some(name.into()), reach, ..slice(name, devices) }
    };
    let model = |name: &str, model: &str| with(device(name), "model", model);
    let published = || vec![model("x0", "big"), model("x1", "small")];
    let mut world = world()
        .slice(of_node("n1", published()))
        .slice(of_node("n2", published()))
        .template("m", vec![model("g0", "small"), model("g1", "big")], &[])
        .claim(allocated("has", "n1", &["x0"], &["pod"]))
        .claim(allocated("left", "n2", &["x1"], &["leaves"]))
        .claim(claim("a", vec![request("gpu", 1)]))
        .claim(claim("b", vec![request("gpu", 1)]))
        .claim(claim("pair", vec![request("gpu", 2)]));
    world.coming = vec![coming("n1"), coming("n2")];
    let mut run = world.start();
    assert_eq!(run.join_as(&["a"], "n1", "a", Some("m")), Ok(()));
    assert_eq!(run.taken(&Spot::Machine("n1".into())), ["m:a=g0"], "the claim has the big one");
    assert!(run.join_as(&["b"], "n1", "a", Some("m")).is_err(), "none is left");
    assert!(run.join_as(&["pair"], "n2", "a", Some("m")).is_err(), "one of its two is in use");
    run.ledger = run.allocator.ledger(["leaves".into()], &world.coming);
    assert_eq!(run.join_as(&["pair"], "n2", "a", Some("m")), Ok(()), "its user leaves");
}

#[test]
fn a_request_is_served_by_the_resource_where_a_type_has_it_and_by_devices_elsewhere() {
    let resource = karpenter_model::ResourceName::from("example.com/gpu");
    let asks = |name: &str, count| {
        let mut request = request("gpu", count);
        if let RequestKind::Exactly(exact) = &mut request.kind {
            exact.instead_of = Some(resource.clone());
        }
        claim(name, vec![request])
    };
    let mut world = world()
        .template("dra", vec![device("g0"), device("g1")], &[])
        .template("both", vec![device("g0"), device("g1")], &[])
        .claim(asks("two", 2))
        .claim(asks("three", 3));
    world.counted.insert(("default".into(), "both".into()), [resource.clone()].into());
    let mut run = world.start();
    let types = |found: Result<(Vec<String>, Vec<usize>), Refusal>| found.map(|(_, types)| types);
    assert_eq!(types(run.launch(&["two"], 0, &["bare", "dra", "both"])), Ok(vec![1]), "as the cheapest does");
    assert_eq!(run.taken(&Spot::Launch(0)), ["dra:two=g0", "dra:two=g1"]);
    assert_eq!(types(run.launch(&["three"], 1, &["bare", "dra", "both"])), Ok(vec![2]));
    assert_eq!(run.taken(&Spot::Launch(1)), [""; 0], "the device plugin has its own");
    assert!(run.allocator.drivers(&run.ledger, &Spot::Launch(1)).is_empty());
}
