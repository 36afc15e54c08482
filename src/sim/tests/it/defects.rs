//! Every planted defect is found, by the rule it breaks; and what finds it is the defect: the same history without it breaks
//! none.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use karpenter_sim::{Defect, History, run};

use crate::each;
use crate::swarm::plays_well;

/// Each with a seed that finds it soon; few seeds find all, because each has to be played without a defect too.
const PLANTED: [(Defect, u64, &str); 19] = [
    (Defect::NoClientToken, 70, "one machine per claim"),
    (Defect::Untagged, 0, "unowned machine"),
    (Defect::SwallowedTermination, 9, "liveness"),
    (Defect::LostFinalizer, 6, "machine outlives claim"),
    (Defect::BudgetOffByOne, 6, "budget"),
    (Defect::LimitsMisread, 3, "limit"),
    (Defect::ProtectionIgnored, 2, "do-not-disrupt"),
    (Defect::DeletedNotEvicted, 6, "budget of pods"),
    (Defect::DeletionsMissed, 26, "machines for pods"),
    (Defect::NeverConsolidates, 14, "liveness"),
    (Defect::LeaseOfItsOwn, 0, "one leader"),
    (Defect::LeadsOn, 0, "one leader"),
    (Defect::CollectsWithoutGrace, 240, "wanted machine"),
    (Defect::DriftsOnNoImages, 0, "drift without cause"),
    (Defect::LimitsWithoutInFlight, 16, "limit"),
    (Defect::ReplacementNotAwaited, 32, "replacement first"),
    (Defect::HashStampedFirst, 0, "liveness"),
    (Defect::OneBudgetSeen, 287, "node that cannot drain"),
    (Defect::PromisesForgotten, 16, "machines for pods"),
];

#[test]
fn every_planted_defect_is_found() {
    let planted: BTreeSet<Defect> = PLANTED.iter().map(|(defect, ..)| *defect).collect();
    assert_eq!(planted, Defect::ALL.into_iter().collect(), "each is planted");
    each(&PLANTED, |(defect, seed, rule)| {
        let outcome = run(&History::of(*seed).with_defect(*defect), false).unwrap();
        let rules: Vec<&str> = outcome.violations.iter().map(|violation| violation.rule).collect();
        assert!(rules.contains(rule), "{defect:?}: seed {seed} finds {rules:?} instead of `{rule}`");
    });
}

#[test]
fn the_histories_that_find_defects_break_no_rule_without_them() {
    let seeds: BTreeSet<u64> = PLANTED.iter().map(|(_, seed, _)| *seed).collect();
    let launched = AtomicUsize::new(0);
    each(&seeds.into_iter().collect::<Vec<u64>>(), |seed| {
        launched.fetch_add(plays_well(*seed).launched, Ordering::Relaxed);
    });
    let launched = launched.into_inner();
    assert!(launched > 20, "only {launched} instances: too little happens for that to mean anything");
}
