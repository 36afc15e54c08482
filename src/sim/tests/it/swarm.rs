//! Histories that break no rule: always the same ones, and some that were never played before.

use std::hash::{BuildHasher, RandomState};

use karpenter_sim::{History, Outcome, run};

/// Histories that are played every time.
const FIXED: u64 = 2;
/// Histories that are different every time.
const FRESH: usize = 1;

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
    for number in 0..FRESH {
        let seed = RandomState::new().hash_one(number);
        let outcome = plays_well(seed);
        eprintln!("seed {seed}: hash {}", outcome.hash);
    }
}
