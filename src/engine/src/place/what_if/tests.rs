//! A question leaves no trace: whatever was asked before, the answer is that of a fresh ground.

use fastrand::Rng;
use karpenter_testkit::{disruptable, small};

use super::*;

/// Least number of worlds of each kind; the environment may ask for questions that need more.
const SEEDS: u64 = 24;
/// Questions per world.
const QUESTIONS: usize = 12;

fn worlds() -> impl Iterator<Item = (u64, Snapshot)> {
    // Four kinds of worlds, asked about twice.
    let seeds = karpenter_testkit::seeds(0).div_ceil(8 * QUESTIONS as u64).max(SEEDS);
    (0..seeds).flat_map(|seed| {
        [small::world(seed), small::social(seed), small::attached(seed), disruptable::cluster(seed)]
            .map(|world| (seed, world))
    })
}

fn subset<'a>(nodes: &[&'a Node], rng: &mut Rng) -> Vec<&'a Node> {
    let few = rng.u8(1..5);
    nodes.iter().copied().filter(|_| rng.u8(0..few) == 0).collect()
}

#[test]
fn questions_leave_no_trace() {
    let mut answered = 0;
    for (seed, world) in worlds() {
        let rng = &mut Rng::with_seed(seed);
        let nodes: Vec<&Node> = world.nodes.iter().map(AsRef::as_ref).collect();
        for destinations in [Destinations::All, Destinations::Quiet] {
            let mut used = WhatIf::new(&world, &nodes, destinations);
            for _ in 0..QUESTIONS {
                let removed = subset(&nodes, rng);
                let patience =
                    [Patience::Full, Patience::Until { launches: rng.usize(0..3) }][rng.usize(0..2)];
                let mut fresh = WhatIf::new(&world, &nodes, destinations);
                let expected = fresh.without(&removed, patience);
                assert_eq!(
                    used.without(&removed, patience),
                    expected,
                    "seed {seed} without {:?}",
                    ids(&removed)
                );
                answered += usize::from(!expected.nominations.is_empty() || !expected.launches.is_empty());
            }
        }
    }
    assert!(answered > 100, "only {answered} questions moved a pod");
}

#[test]
fn what_is_kept_is_the_same_on_every_copy() {
    for (seed, world) in worlds() {
        let rng = &mut Rng::with_seed(seed);
        let nodes: Vec<&Node> = world.nodes.iter().map(AsRef::as_ref).collect();
        let mut asked = WhatIf::new(&world, &nodes, Destinations::Quiet);
        let mut silent = asked.clone();
        for _ in 0..4 {
            let removed = subset(&nodes, rng);
            for _ in 0..3 {
                asked.without(&subset(&nodes, rng), Patience::Full);
            }
            assert_eq!(asked.commit(&removed), silent.commit(&removed), "seed {seed}");
        }
        let all = asked.without(&nodes, Patience::Full);
        assert_eq!(all, silent.without(&nodes, Patience::Full), "seed {seed}");
    }
}

fn ids<'n>(nodes: &[&'n Node]) -> Vec<&'n str> {
    nodes.iter().map(|node| node.id.as_str()).collect()
}
