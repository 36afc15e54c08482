//! Histories that broke a rule once, and some that were never played: `scripts/test` draws those from the commit, so that a
//! commit is always tested by the same ones and each by others.

use karpenter_sim::{History, Outcome, run};

use crate::each;

/// Histories that showed mistakes which no smaller test was seen to show (`docs/simulation.md`): three of the controller, the
/// last one of the rule about nodes that do not serve, which went on counting when a pool's template changed. 101166022 showed
/// one of the rule about pods, which took a call about an earlier pod of the name for one about the pod that came after it.
const ONCE_BROKEN: [u64; 10] = [
    5_259,
    7_246,
    7_281,
    424_264,
    101_166_022,
    2_206_911_050,
    2_588_594_339,
    2_588_594_376,
    3_081_149_009,
    4_139_645_562,
];

/// Number of histories that were never played.
const FRESH: usize = 60;
/// The first of them where `FRESH_SEED` names none.
const ANY: u64 = 30_000;

/// Plays the history of `seed`; panics with the rule it breaks and how to see it again.
pub(crate) fn plays_well(seed: u64) -> Outcome {
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
fn histories_that_showed_a_mistake_show_none() {
    for seed in ONCE_BROKEN {
        plays_well(seed);
    }
}

#[test]
fn histories_that_were_never_played_break_no_rule() {
    let first = karpenter_testkit::number("FRESH_SEED").unwrap_or(ANY);
    let seeds: Vec<u64> = (first..).take(FRESH).collect();
    each(&seeds, |seed| drop(plays_well(*seed)));
}
