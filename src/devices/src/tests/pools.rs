//! Devices of pools: generations, completeness, contradictions, places from which they can be reached.

use karpenter_model::device::{DeviceCount, Reach};

use super::world::*;
use crate::Refusal;

#[test]
fn only_the_newest_generation_counts_and_only_when_it_is_complete() {
    let newer = |count| {
        let mut newer = slice("pool", vec![device("new")]);
        (newer.name, newer.generation, newer.slice_count) = ("slice-newer".to_owned(), 2, count);
        newer
    };
    let base =
        || world().slice(slice("pool", vec![device("old")])).claim(claim("one", vec![request("gpu", 1)]));
    let complete = base().slice(newer(1));
    let mut run = complete.start();
    assert!(run.launch(&["one"], 0, &["small"]).is_ok());
    assert_eq!(run.taken(&crate::Spot::Launch(0)), ["small:one=new"]);
    let incomplete = base().slice(newer(2));
    assert!(
        matches!(incomplete.start().launch(&["one"], 0, &["small"]), Err(Refusal::NoDevices { .. })),
        "neither the old generation nor half of the new one"
    );
}

#[test]
fn requests_for_all_devices_insist_on_whole_pools() {
    let all = claim("all", vec![request_of("gpu", DeviceCount::All, &[])]);
    let mut half = slice("pool", vec![device("one")]);
    half.slice_count = 2;
    let twice = slice("pool", vec![device("one"), device("one")]);
    let mut sets = slice("pool", vec![device("one")]);
    sets.counters = vec![chip(1), chip(2)];
    let unknown = slice("pool", vec![drawing(device("one"), 1)]);
    for (slice, problem) in [
        (half, "has 1 of 2 slices"),
        (twice, "it has two devices `one`"),
        (sets, "it has two counter sets `chip`"),
        (unknown, "draws from counters of `chip` that are not there"),
    ] {
        let one = claim("one", vec![request("gpu", 1)]);
        let world = world().slice(slice).claim(all.clone()).claim(one);
        let mut run = world.start();
        let refusal = run.launch(&["all"], 0, &["small"]).expect_err("all devices").to_string();
        assert!(refusal.contains(problem), "{refusal}");
        let refusal = run.launch(&["one"], 0, &["small"]).expect_err("one device");
        assert!(matches!(refusal, Refusal::NoDevices { .. }), "{refusal}");
    }
}

#[test]
fn all_devices_are_every_one_that_matches_and_at_least_one() {
    let gpus =
        slice("pool", vec![with(device("a"), "model", "x"), with(device("b"), "model", "y"), device("c")]);
    let x = "device.attributes['gpu.example.com'].?model.orValue('') != ''";
    let none = "device.driver == 'absent'";
    let fails = "device.attributes['gpu.example.com'].model == 'x'";
    let all = |name, selector| claim(name, vec![request_of("gpu", DeviceCount::All, &[selector])]);
    let world = world()
        .slice(gpus)
        .claim(all("all", x))
        .claim(all("none", none))
        .claim(all("fails", fails))
        .claim(claim("one", vec![request_of("gpu", DeviceCount::Exactly(1), &[fails])]));
    let mut run = world.start();
    assert!(matches!(run.launch(&["none"], 0, &["small"]), Err(Refusal::NoDevices { .. })));
    assert!(matches!(run.launch(&["fails"], 0, &["small"]), Err(Refusal::Evaluation { .. })));
    assert!(run.launch(&["all"], 0, &["small"]).is_ok());
    assert_eq!(run.taken(&crate::Spot::Launch(0)), ["small:all=a", "small:all=b"]);
    assert!(matches!(run.launch(&["one"], 1, &["small"]), Err(Refusal::NoDevices { .. })), "`a` is taken");
}

#[test]
fn a_claim_has_at_most_thirty_two_devices() {
    let many = |count| (0..count).map(|number| device(&format!("gpu-{number:02}"))).collect::<Vec<_>>();
    let all = || claim("all", vec![request_of("gpu", DeviceCount::All, &[])]);
    let exact = claim("exact", vec![request("a", 20), request("b", 13)]);
    let world = world().template("large", many(33), &[]).template("small", many(32), &[]);
    let world = world.claim(all()).claim(exact);
    let mut run = world.start();
    assert!(matches!(run.launch(&["exact"], 0, &["large"]), Err(Refusal::TooMany { count: 33, .. })));
    assert!(matches!(run.launch(&["all"], 0, &["large"]), Err(Refusal::TooMany { count: 33, .. })));
    let (_, types) = run.launch(&["all"], 0, &["large", "small"]).expect("the small one has few enough");
    assert_eq!(types, [1]);
}

#[test]
fn devices_are_reached_where_their_slice_says() {
    let mut local = slice("local", vec![device("local")]);
    (local.reach, local.owner) = (Reach::Node("node-1".into()), Some("node-1".into()));
    let mut zonal = slice("zonal", vec![device("zonal")]);
    zonal.reach = Reach::Selected(vec![zone(&["b"])]);
    let mut hidden = slice("hidden", vec![device("hidden")]);
    hidden.reach = Reach::Unknown;
    let world = world().up("node-1").slice(local).slice(zonal).slice(hidden);
    let world =
        world.claim(claim("one", vec![request("gpu", 1)])).claim(claim("two", vec![request("gpu", 1)]));
    let mut run = world.start();
    assert!(run.join(&["one"], "node-2", "a").is_err(), "another node in another zone");
    assert!(run.join(&["one"], "node-1", "a").is_ok());
    assert_eq!(run.taken(&crate::Spot::Machine("node-1".into())), [":one=local"]);
    let (zones, _) = run.launch(&["two"], 0, &["small"]).expect("there is one in zone b");
    assert_eq!(zones, ["b"], "the machine has to be where its devices are");
}

#[test]
fn devices_of_machines_that_are_not_up_are_what_their_types_promise() {
    let mut local = slice("local", vec![device("published")]);
    (local.reach, local.owner) = (Reach::Node("node-1".into()), Some("node-1".into()));
    let build = || {
        world()
            .template("small", vec![device("promised")], &[])
            .slice(local.clone())
            .claim(claim("one", vec![request("gpu", 1)]))
    };
    let coming = build();
    let mut run = coming.start();
    assert!(run.join_as(&["one"], "node-1", "a", Some("small")).is_ok());
    assert_eq!(run.taken(&crate::Spot::Machine("node-1".into())), ["small:one=promised"]);
    let up = build().up("node-1");
    let mut run = up.start();
    assert!(run.join(&["one"], "node-1", "a").is_ok());
    assert_eq!(run.taken(&crate::Spot::Machine("node-1".into())), [":one=published"]);
}

#[test]
fn a_pool_that_loses_a_slice_with_its_node_has_no_devices() {
    let mut owned = slice("pool", vec![device("one")]);
    owned.owner = Some("node-1".into());
    let world = world().up("node-1").slice(owned).claim(claim("one", vec![request("gpu", 1)]));
    let mut run = world.start();
    assert!(run.ask(&["one"], 0, &["small"], |_, _| true).is_ok());
    run.allocator.evacuate(&mut run.ledger, Some(&"node-1".into()), []);
    assert!(run.launch(&["one"], 0, &["small"]).is_err());
}
