//! The process may die after any write, and the next pass repairs it.

use crate::world::World;

/// Long enough for everything to settle, crashes included; longer than the grace of machines without claim.
const SETTLED: u32 = 60;

#[derive(Debug, Clone, Copy)]
enum End {
    Claim,
    Node,
    /// The claim is deleted before its machine is up.
    Early(u32),
}

/// From creation to deletion, checking what must hold on the way; returns the number of writes.
fn live(crashes: &[usize], end: End) -> usize {
    let mut world = World::new(crashes);
    match end {
        End::Early(seconds) => world.run(seconds),
        End::Claim | End::Node => {
            world.run(SETTLED);
            assert!(world.is_initialized(), "not initialized, crashes after {crashes:?}");
        }
    }
    match end {
        End::Node => world.delete_node(),
        End::Claim | End::Early(_) => world.delete_claim(),
    }
    world.run(SETTLED);
    assert!(world.is_empty(), "something is left, crashes after {crashes:?}, {end:?}: {:?}", world.claim);
    assert!(world.launches <= 1, "{} machines, crashes after {crashes:?}", world.launches);
    world.writes
}

#[test]
fn a_claim_lives_and_dies_without_crashes() {
    for end in [End::Claim, End::Node] {
        assert!(live(&[], end) > 10, "the world writes one thing at a time");
    }
}

#[test]
fn a_crash_after_any_write_is_repaired() {
    for end in [End::Claim, End::Node] {
        for crash in 1..=live(&[], end) {
            live(&[crash], end);
        }
    }
}

#[test]
fn two_crashes_after_any_two_writes_are_repaired() {
    let writes = live(&[], End::Claim) + 5;
    for first in 1..=writes {
        for second in first + 1..=writes {
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
