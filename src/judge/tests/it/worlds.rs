//! Plans that the scheduler of Kubernetes has to agree with.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use karpenter_judge::catalogue::Catalogue;
use karpenter_judge::scheduler::Scheduler;
use karpenter_judge::trial::{Difference, hold};
use karpenter_judge::{corpus, shrink::shrink, world};
use karpenter_testkit::number;
use serde_json::Value;

/// Number of a thousand fresh worlds that may still differ: each is of a kind in `corpus/open`, as far as was checked. It
/// falls with every kind that is fixed.
const OPEN_PER_MILLE: usize = 10;

/// Launches become other types and zones for each of these.
const DRAWS: std::ops::Range<u64> = 0..6;

/// Time for which fresh worlds are tried, unless their number is given.
const WITHIN: Duration = Duration::from_mins(2);

/// The first difference of each world of a folder.
fn judged(folder: &std::path::Path) -> Vec<(String, Option<Difference>)> {
    let catalogue = Catalogue::read().expect("the account in memory answers");
    let mut scheduler = Scheduler::start().expect("the judge starts");
    let worlds = corpus::worlds(folder).expect("the worlds are read");
    let mut judge = |objects: &[Value]| {
        DRAWS.into_iter().find_map(|seed| {
            let outcome =
                hold(objects, seed, &catalogue, &mut scheduler).expect("a world is planned and judged");
            outcome.differences.into_iter().next()
        })
    };
    worlds.into_iter().map(|(name, objects)| (name, judge(&objects))).collect()
}

#[test]
fn worlds_that_were_fixed_stay_so() {
    for (name, difference) in judged(&corpus::folder()) {
        assert_eq!(difference, None, "{name}");
    }
}

#[test]
fn worlds_that_are_open_are_told_when_they_are_fixed() {
    for (name, difference) in judged(&corpus::folder().join("open")) {
        match difference {
            Some(difference) => eprintln!("open: {name}: {difference:?}"),
            None => eprintln!("{name} shows no difference; move it out of `corpus/open`"),
        }
    }
}

#[test]
fn the_scheduler_binds_the_pods_that_have_a_place_in_the_plan_and_no_others() {
    let catalogue = Catalogue::read().unwrap();
    let mut scheduler = Scheduler::start().unwrap();
    let first = number("FRESH_SEED").unwrap_or(1);
    let count = number("JUDGED_WORLDS");
    let began = Instant::now();
    let mut totals = BTreeMap::new();
    let mut found = Vec::new();
    let mut tried = 0;
    while count.map_or_else(|| began.elapsed() < WITHIN, |count| tried < count) {
        let seed = first + tried;
        tried += 1;
        let objects = world::draw(seed);
        let outcome = match hold(&objects, seed, &catalogue, &mut scheduler) {
            Ok(outcome) => outcome,
            Err(error) => panic!("world {seed}: {error:#}"),
        };
        for (what, count) in [
            ("taken", outcome.taken),
            ("planned", outcome.planned),
            ("launches", outcome.launches),
            ("pending", outcome.pending),
            ("passes", outcome.passes),
            ("overtaken", outcome.overtaken),
        ] {
            *totals.entry(what).or_insert(0) += count;
        }
        if !outcome.differences.is_empty() {
            found.push((seed, objects, outcome.differences));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let summary = format!("{tried} worlds in {seconds:.0} s, {totals:?}, {} with differences", found.len());
    let at_most = number("JUDGED_SHRUNK").unwrap_or(3);
    let mut texts = Vec::new();
    for (seed, objects, differences) in found.iter().take(usize::try_from(at_most).unwrap()) {
        texts.push(smallest(*seed, objects, &differences[0], &catalogue, &mut scheduler).unwrap());
    }
    let seeds: Vec<u64> = found.iter().map(|(seed, ..)| *seed).collect();
    let summary = format!("{summary}: {seeds:?}\n{}", texts.join("\n"));
    // Two more, because few worlds differ by chance.
    let allowed = usize::try_from(tried).unwrap() * OPEN_PER_MILLE / 1000 + 2;
    assert!(found.len() <= allowed, "{summary}");
    eprintln!("{summary}");
}

/// The smallest world with a difference like this one, as the text of a file for the corpus.
fn smallest(
    seed: u64,
    objects: &[Value],
    difference: &Difference,
    catalogue: &Catalogue,
    scheduler: &mut Scheduler,
) -> Result<String> {
    let mut shown = difference.clone();
    let small = shrink(objects, |objects| {
        let outcome = hold(objects, seed, catalogue, scheduler);
        let like = outcome
            .ok()
            .and_then(|outcome| outcome.differences.into_iter().find(|one| one.is_like(difference)));
        if let Some(like) = &like {
            shown = like.clone();
        }
        like.is_some()
    });
    let text = corpus::text(&format!("{shown:?}\nseed {seed}"), &small)?;
    if let Some(folder) = std::env::var_os("JUDGED_INTO") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{seed}.yaml")), &text)?;
    }
    Ok(text)
}
