//! The process may die during any call, and the next pass repairs it; claims may be deleted and written by others
//! during any call, and nothing of them is left.

use std::collections::BTreeSet;

use crate::world::{Process, Setup, World};

/// Long enough for everything to settle, crashes included; longer than the grace of machines without claim.
const SETTLED: u32 = 60;
/// Long enough for everything to settle without the collector of machines without claim.
const TERMINATED: u32 = 30;

#[derive(Debug, Clone, Copy)]
enum End {
    Claim,
    Node,
    /// The claim is deleted before its machine is up.
    Early(u32),
}

/// Runs a claim from creation to deletion, checking what must hold on the way; returns the number of calls.
fn live(deaths: &[usize], end: End) -> usize {
    let world = World::new(Setup { deaths: deaths.iter().copied().collect(), ..Setup::default() });
    let mut process = Process::of(&world);
    match end {
        End::Early(seconds) => process.run(seconds),
        End::Claim | End::Node => {
            process.run(SETTLED);
            assert!(world.is_initialized(), "not initialized, crashes during {deaths:?}");
        }
    }
    match end {
        End::Node => world.delete_nodes(),
        End::Claim | End::Early(_) => world.delete_claims(),
    }
    process.run(SETTLED);
    nothing_is_left(&world, &format!("{deaths:?} {end:?}"));
    world.calls()
}

fn nothing_is_left(world: &World, case: &str) {
    assert!(world.is_empty(), "something is left, {case}: {:?}", &*world.lives());
    let launches: Vec<u32> = world.lives().iter().map(|life| life.launches).collect();
    assert!(launches.iter().all(|launches| *launches <= 1), "{launches:?} machines, {case}");
}

#[test]
fn a_claim_lives_and_dies_without_crashes() {
    for end in [End::Claim, End::Node] {
        assert!(live(&[], end) > 10, "the world does one thing at a time");
    }
}

#[test]
fn a_crash_during_any_call_is_repaired() {
    for end in [End::Claim, End::Node] {
        for crash in 1..=live(&[], end) {
            live(&[crash], end);
        }
    }
}

#[test]
fn two_crashes_during_any_two_calls_are_repaired() {
    let calls = live(&[], End::Claim) + 5;
    for first in 1..=calls {
        for second in first + 1..=calls {
            live(&[first, second], End::Claim);
        }
    }
}

#[test]
fn a_claim_deleted_at_any_moment_leaves_nothing_behind() {
    for seconds in 0..20 {
        for crash in 0..12 {
            live(&[crash], End::Early(seconds));
        }
    }
}

/// Calls until `claims` that are left alone are initialized.
fn calls_of(claims: usize, answer: i64) -> usize {
    let world = World::new(Setup { claims, answer, ..Setup::default() });
    Process::of(&world).run(SETTLED);
    assert!(world.is_initialized());
    world.calls()
}

/// Deletes two and three claims together during every call of their launch, with whatever `disturb` makes of it.
fn deleted_together(setup: &Setup, seconds: u32, disturb: impl Fn(usize) -> Vec<Setup>) {
    for claims in [2, 3] {
        for deletion in 1..=calls_of(claims, setup.answer) {
            for disturbed in disturb(deletion) {
                let setup = Setup { claims, deletion: Some(deletion), ..disturbed };
                let world = World::new(setup.clone());
                Process::of(&world).run(seconds);
                nothing_is_left(&world, &format!("{setup:?}"));
            }
        }
    }
}

#[test]
fn claims_deleted_together_while_they_launch_take_their_machines_along() {
    for answer in [0, 3] {
        let setup = Setup { answer, collects: false, ..Setup::default() };
        deleted_together(&setup, TERMINATED, |deletion| {
            let crashes = (0..12).map(|later| Setup { deaths: [deletion + later].into(), ..setup.clone() });
            crashes.chain([setup.clone()]).collect()
        });
    }
}

#[test]
fn writes_of_others_while_claims_are_deleted_only_delay() {
    let setup = Setup { answer: 3, collects: false, ..Setup::default() };
    deleted_together(&setup, TERMINATED, |deletion| {
        let around = |from: usize| (deletion.saturating_sub(2) + from..deletion + from + 4).collect();
        let disturbed = (0..4).map(|from| Setup { disturbances: around(from), ..setup.clone() });
        let crash = |setup: Setup| Setup { deaths: BTreeSet::from([deletion + 3]), ..setup };
        disturbed.flat_map(|setup| [setup.clone(), crash(setup)]).collect()
    });
}

#[test]
fn machines_that_start_after_their_claims_are_gone_are_collected() {
    let setup = Setup { start: 4, answer: 1, ..Setup::default() };
    deleted_together(&setup, SETTLED, |deletion| {
        (0..6).map(|later| Setup { deaths: [deletion + later].into(), ..setup.clone() }).collect()
    });
}
