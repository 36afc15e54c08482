//! Machines whose type is still open.

use karpenter_model::device::Reach;

use super::world::*;
use crate::Spot;

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
