//! Every planted defect is found: a checker that nothing trips is worth nothing. The seeds are the first that find it; `karpenter-sim
//! defects` searches for them again.

use karpenter_sim::{Defect, History, run};

/// A defect, a seed that finds it, and the rule that tells.
const FOUND: [(Defect, u64, &str); 0] = [];

#[test]
fn every_planted_defect_is_found() {
    for (defect, seed, rule) in FOUND {
        let outcome = run(&History::of(seed).with_defect(defect), false).unwrap();
        let told = outcome.violations.iter().any(|violation| violation.rule == rule);
        assert!(told, "{defect:?} with seed {seed}: {:?}", outcome.violations);
    }
}

#[test]
fn no_defect_is_left_out() {
    for defect in Defect::ALL {
        assert!(FOUND.iter().any(|(found, ..)| *found == defect), "{defect:?}");
    }
}
