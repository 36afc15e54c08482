//! How long a plan takes: `cargo bench -p karpenter-engine` prints the tables of docs/performance.md.
//!
//! Not a statistics tool: each case runs a few times, and the median of the processor time of the thread counts,
//! which other work on the machine distorts least. `-- memory` prints what a large cluster needs instead;
//! any other word after `--` selects the tables whose name contains it.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::fs;
use std::time::{Duration, Instant};

use karpenter_model::Snapshot;
use karpenter_testkit::world::{self, Mix};

const RUNS: usize = 5;
/// Runs shorter than this are measured in wall time.
const COARSE: Duration = Duration::from_millis(30);
const MIXES: [Mix; 6] = [Mix::Generic, Mix::Selectors, Mix::Taints, Mix::Mixed, Mix::Topology, Mix::Volumes];

fn main() {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    if wanted == "memory" {
        return memory();
    }
    let tables: [(&str, fn()); 5] =
        [("mixes", mixes), ("sizes", sizes), ("nodes", nodes), ("pools", pools), ("classes", classes)];
    for (name, table) in tables.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        println!(
            "\n{name}\n{:<22} {:>10} {:>10} {:>8} {:>8}",
            "case", "median", "per pod", "launches", "unplaced"
        );
        table();
    }
}

/// What pods ask for.
fn mixes() {
    for mix in MIXES {
        measure(&format!("{mix:?}"), &world::pending(10_000, 400, mix, 1));
    }
}

/// More pods and more types, on an empty cluster.
fn sizes() {
    for types in [400, 1_000] {
        for pods in [1, 100, 1_000, 10_000, 50_000] {
            measure(&format!("{pods} x {types}"), &world::pending(pods, types, Mix::Mixed, 1));
        }
    }
}

/// The same on machines that exist.
fn nodes() {
    for mix in [Mix::Mixed, Mix::Topology] {
        for (nodes, pods) in [(1_000, 10_000), (10_000, 1), (10_000, 10_000), (10_000, 50_000)] {
            let snapshot = world::busy(nodes, 5, pods, 1_000, mix, 1);
            measure(&format!("{pods} on {nodes} {mix:?}"), &snapshot);
        }
    }
}

/// One pool or many, for the same pods.
fn pools() {
    for pools in [1, 10, 200] {
        measure(&format!("{pools} pools"), &world::pools(pools, 10_000, 400, 1));
    }
}

/// Few or many different pods.
fn classes() {
    for classes in [10, 100, 1_000, 10_000] {
        measure(&format!("{classes} classes"), &world::classes(classes, 10_000, 400, 1));
    }
}

fn measure(case: &str, snapshot: &Snapshot) {
    let mut times = Vec::with_capacity(RUNS);
    let mut counts = (0, 0);
    for _ in 0..RUNS {
        let start = Clock::now();
        let (plan, report) = karpenter_engine::plan(snapshot);
        times.push(start.elapsed());
        let unplaced = report.pods.values().filter(|outcome| !outcome.is_placed()).count();
        counts = (plan.launches.len(), unplaced);
    }
    times.sort();
    let median = times[RUNS / 2];
    let each = median / u32::try_from(snapshot.pending.len()).unwrap_or(u32::MAX).max(1);
    println!("{case:<22} {median:>10.1?} {each:>10.1?} {:>8} {:>8}", counts.0, counts.1);
}

/// What 100,000 pods on 10,000 machines need, half of the pods waiting.
fn memory() {
    let snapshot = world::busy(10_000, 5, 50_000, 1_000, Mix::Mixed, 1);
    println!("snapshot        {:>6} MiB", resident("VmRSS:"));
    // Forget the peak of building the snapshot, where the system can.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (plan, _) = karpenter_engine::plan(&snapshot);
    println!("peak of a plan  {:>6} MiB, {} launches", resident("VmHWM:"), plan.launches.len());
}

/// A figure of `/proc/self/status` in MiB; zero where there is none.
fn resident(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kib / 1024
}

/// Processor time of this thread, or wall time where that is not known.
struct Clock {
    wall: Instant,
    cpu: Option<Duration>,
}

impl Clock {
    fn now() -> Self {
        Self { wall: Instant::now(), cpu: Self::cpu() }
    }

    fn elapsed(&self) -> Duration {
        let wall = self.wall.elapsed();
        let cpu = self.cpu.zip(Self::cpu()).map(|(start, end)| end.saturating_sub(start));
        // The system may count in ticks, too coarse for short runs.
        cpu.filter(|_| wall > COARSE).unwrap_or(wall)
    }

    fn cpu() -> Option<Duration> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }
}
