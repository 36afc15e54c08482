//! Every planted defect is found, by the rule it breaks; and what finds it is the defect: the same history without it breaks
//! none.
//!
//! A change of the product that moves one request moves the rest of a history, which then may pass a defect by. So each is
//! looked for from the seed on that found it last: a change costs time here and does not turn the test red.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use karpenter_sim::scenario::failures_with;
use karpenter_sim::scenario::read::read;
use karpenter_sim::{Defect, History, run};

use crate::each;
use crate::swarm::plays_well;

/// Largest number of histories played for one defect. The rarest defects are found by one history in some hundred.
const LOOKS: usize = 600;

/// Each with a seed that finds it soon, where the search begins.
const PLANTED: [(Defect, u64, &str); 27] = [
    (Defect::NoClientToken, 78, "one machine per claim"),
    (Defect::Untagged, 0, "unowned machine"),
    (Defect::SwallowedTermination, 0, "liveness"),
    (Defect::LostFinalizer, 0, "machine outlives claim"),
    (Defect::BudgetOffByOne, 8, "budget"),
    (Defect::LimitsMisread, 3, "limit"),
    (Defect::ReplicasMisread, 0, "fixed number"),
    (Defect::ProtectionIgnored, 2, "do-not-disrupt"),
    (Defect::DeletedNotEvicted, 6, "budget of pods"),
    (Defect::DeletionsMissed, 26, "machines for pods"),
    (Defect::NeverConsolidates, 12, "liveness"),
    (Defect::LeaseOfItsOwn, 0, "one leader"),
    (Defect::LeadsOn, 0, "one leader"),
    (Defect::CollectsWithoutGrace, 39, "wanted machine"),
    (Defect::DriftsOnNoImages, 0, "drift without cause"),
    (Defect::LimitsWithoutInFlight, 55, "limit"),
    (Defect::ReplacementNotAwaited, 55, "replacement first"),
    (Defect::HashStampedFirst, 0, "liveness"),
    (Defect::OneBudgetSeen, 55, "node that cannot drain"),
    (Defect::PromisesForgotten, 4, "machines for pods"),
    (Defect::AttachmentsMissed, 14, "attached volume"),
    (Defect::ReservationsMisread, 2, "drift without cause"),
    (Defect::ReservedMisread, 2, "liveness"),
    (Defect::FailuresMissed, 19, "liveness"),
    (Defect::DaemonsOutOfTopology, 4, "liveness"),
    (Defect::VolumeZonesIgnored, 11, "liveness"),
    (Defect::MinValuesOfThePool, 13, "liveness"),
];

/// Defects that random histories show too rarely, each with a scenario that shows it.
const IN_SCENARIOS: [(Defect, &str, &str); 5] = [
    (Defect::LostNodeIsRoom, "a-node-is-lost", "`p"),
    (Defect::PromisesReplaced, "nodes-that-do-not-serve", "rule `nodes that do not serve`"),
    (Defect::PodBudgetUnspent, "drift-behind-a-pod-budget", "`nodes"),
    (Defect::RoomForgotten, "less-room-than-promised", "`pods"),
    (Defect::BrakeLost, "nodes-that-do-not-serve-and-restarts", "rule `nodes that do not serve`"),
];

#[test]
fn every_planted_defect_is_found() {
    let played = IN_SCENARIOS.iter().map(|(defect, ..)| *defect);
    let planted: BTreeSet<Defect> = PLANTED.iter().map(|(defect, ..)| *defect).chain(played).collect();
    assert_eq!(planted, Defect::ALL.into_iter().collect(), "each is planted");
    let launched = AtomicUsize::new(0);
    each(&PLANTED, |&(defect, from, rule)| {
        let found = (from..).take(LOOKS).find(|seed| finds(defect, *seed, rule));
        let seed = found
            .unwrap_or_else(|| panic!("{defect:?}: no history of {from} and {LOOKS} more breaks `{rule}`"));
        if seed != from {
            println!("{defect:?} is found by seed {seed} and not by {from} any more");
        }
        launched.fetch_add(plays_well(seed).launched, Ordering::Relaxed);
    });
    let launched = launched.into_inner();
    assert!(
        launched > 20,
        "only {launched} instances: too little happens for broken rules to be the defects'"
    );
}

/// That each goes as it says without a defect is a test of its own (`every_scenario_of_the_repository_goes_as_it_says`).
#[test]
fn every_defect_that_is_planted_in_a_scenario_is_found() {
    each(&IN_SCENARIOS, |(defect, name, subject)| {
        let path = format!("{}/../../scenarios/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let failures = failures_with(&read(path.as_ref()).unwrap(), *defect).unwrap();
        let found = failures.iter().any(|failure| failure.subject.starts_with(subject));
        assert!(found, "{defect:?} in {name}: {failures:#?}");
    });
}

fn finds(defect: Defect, seed: u64, rule: &str) -> bool {
    let outcome = run(&History::of(seed).with_defect(defect), false).unwrap();
    outcome.violations.iter().any(|violation| violation.rule == rule)
}
