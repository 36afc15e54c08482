//! How long a plan takes: `cargo bench -p karpenter-engine` prints a table.
//!
//! Not a statistics tool: each case runs a few times and the fastest run counts, which is what a noisy machine
//! distorts least. The bar is 10,000 mixed pods over 400 types on an empty cluster in under 100 ms.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::time::{Duration, Instant};

use karpenter_model::Snapshot;
use karpenter_testkit::world::{self, Mix};

const RUNS: u32 = 5;

fn main() {
    println!(
        "{:<10} {:>6} {:>7} {:>6} {:>10} {:>8} {:>9}",
        "mix", "nodes", "pods", "types", "fastest", "launches", "unplaced"
    );
    for mix in [Mix::Generic, Mix::Selectors, Mix::Taints, Mix::Mixed] {
        for (pods, types) in [(1_000, 400), (10_000, 400), (10_000, 1_000), (50_000, 400)] {
            measure(mix, types, &world::pending(pods, types, mix, 1));
        }
    }
    for pods in [1_000, 5_000, 10_000] {
        measure(Mix::Topology, 400, &world::pending(pods, 400, Mix::Topology, 1));
    }
    for (nodes, pods) in [(500, 1_000), (2_000, 10_000), (5_000, 10_000)] {
        measure(Mix::Mixed, 400, &world::busy(nodes, 20, pods, 400, Mix::Mixed, 1));
    }
}

fn measure(mix: Mix, types: usize, snapshot: &Snapshot) {
    let mut fastest = Duration::MAX;
    let mut counts = (0, 0);
    for _ in 0..RUNS {
        let start = Instant::now();
        let (plan, report) = karpenter_engine::plan(snapshot);
        fastest = fastest.min(start.elapsed());
        let unplaced = report.pods.values().filter(|outcome| !outcome.is_placed()).count();
        counts = (plan.launches.len(), unplaced);
    }
    let mix = format!("{mix:?}").to_lowercase();
    let (nodes, pods) = (snapshot.nodes.len(), snapshot.pending.len());
    println!("{mix:<10} {nodes:>6} {pods:>7} {types:>6} {fastest:>10.1?} {:>8} {:>9}", counts.0, counts.1);
}
