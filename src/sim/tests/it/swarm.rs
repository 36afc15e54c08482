//! Histories that break no rule: the same ones every time, and some that were never played before. The seeds of those are
//! printed always, so that what one run of the tests finds can be played again.

use std::io::Write;

use karpenter_sim::{History, Outcome, run};

/// Histories that are played every time.
const FIXED: u64 = 4;
/// Histories that are drawn each time.
const FRESH: usize = 4;
/// Seeds are drawn from so many: short enough to be typed.
const SEEDS: u64 = 1_000_000;

fn plays_well(seed: u64) -> Outcome {
    let outcome = run(&History::of(seed), false).unwrap();
    assert!(
        outcome.violations.is_empty(),
        "replay with `karpenter-sim run --seed {seed} --shrink 60`: {:?}\n{}",
        outcome.violations,
        History::of(seed)
    );
    outcome
}

#[test]
fn the_usual_histories_break_no_rule() {
    let launched: usize = (0..FIXED).map(|seed| plays_well(seed).launched).sum();
    assert!(launched > 5, "only {launched} instances: too little happens for that to mean anything");
}

#[test]
fn fresh_histories_break_no_rule() {
    let seeds: Vec<u64> = (0..FRESH).map(|_| fastrand::u64(FIXED..SEEDS)).collect();
    // Past the test runner, which keeps what tests print to itself unless they fail.
    writeln!(std::io::stderr(), "fresh seeds of the simulation: {seeds:?}").unwrap();
    for seed in seeds {
        plays_well(seed);
    }
}
