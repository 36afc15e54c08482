//! Histories that broke a rule once. Always the same ones, here and in `defects`: fresh seeds are for `karpenter-sim swarm`,
//! until enough of them have been played that a failure is the product's fault and not a rule's.

use karpenter_sim::{History, Outcome, run};

/// Histories that showed mistakes of the controller which no smaller test was seen to show (`docs/simulation.md`).
const ONCE_BROKEN: [u64; 3] = [5_259, 7_246, 7_281];

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
