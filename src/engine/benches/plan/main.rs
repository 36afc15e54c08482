//! Duration of a plan: `cargo bench -p karpenter-engine` prints the tables of docs/performance.md and whether
//! each bar holds.
//!
//! Not a statistics tool: each case runs a few times. A pass does the same work every time and other work on the
//! machine only ever adds to it, so the least time is what counts; the median tells how quiet the machine was.
//! Words after `--` select the cases whose table and name contain them: `-- mixes diverse`.
//! With `BENCH_INPUTS=folder` the inputs are written there instead, as JSON for other schedulers.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

mod case;
mod clock;
mod inputs;
mod memory;

use std::time::Duration;

use case::{Bar, Case};
use clock::Clock;
use karpenter_model::Snapshot;
use karpenter_testkit::world::{self, Mix};

const RUNS: usize = 5;
/// Most MiB a large cluster may need.
const MEMORY_BAR: u64 = 500;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = words.join(" ").to_lowercase();
    if let Some(directory) = std::env::var_os("BENCH_INPUTS") {
        for (table, cases) in case::tables() {
            for case in cases.iter().filter(|case| selected(table, case, &wanted)) {
                let name = format!("{table}-{}", case.name.replace(' ', "-").to_lowercase());
                let snapshot = (case.snapshot)();
                inputs::write(directory.as_ref(), &name, &snapshot).expect("the inputs can be written");
            }
        }
        return;
    }
    let mut missed = 0;
    if "memory".contains(&wanted) {
        missed += usize::from(!memory());
    }
    for (table, mut cases) in case::tables() {
        cases.retain(|case| selected(table, case, &wanted));
        if !cases.is_empty() {
            missed += measure_all(table, &cases);
        }
    }
    println!("\n{missed} bars missed");
}

fn selected(table: &str, case: &Case, wanted: &str) -> bool {
    format!("{table} {}", case.name).to_lowercase().contains(wanted)
}

/// Measures `cases`; how many of them miss their bar.
fn measure_all(table: &str, cases: &[Case]) -> usize {
    println!(
        "\n{table}\n{:<28} {:>10} {:>10} {:>10} {:>8} {:>8}  bar",
        "case", "least", "median", "per pod", "launches", "unplaced"
    );
    let (mut first, mut missed) = (None, 0);
    for case in cases {
        let (least, line) = measure(&(case.snapshot)());
        let base = *first.get_or_insert(least);
        let bar = limit(case.bar, base).map(|(limit, text)| held(&text, least <= limit));
        println!("{:<28} {line}  {}", case.name, bar.as_ref().map_or("", |(text, _)| text));
        missed += usize::from(bar.is_some_and(|(_, holds)| !holds));
    }
    missed
}

/// The least time it takes to plan `snapshot`, and the columns of the table.
fn measure(snapshot: &Snapshot) -> (Duration, String) {
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
    let (least, median) = (times[0], times[RUNS / 2]);
    let each = least / u32::try_from(snapshot.pending.len()).unwrap_or(u32::MAX).max(1);
    (least, format!("{least:>10.1?} {median:>10.1?} {each:>10.1?} {:>8} {:>8}", counts.0, counts.1))
}

/// The most `bar` allows, and its text; `base` is the first case of the table.
fn limit(bar: Bar, base: Duration) -> Option<(Duration, String)> {
    match bar {
        Bar::None => None,
        Bar::Milliseconds(limit) => Some((Duration::from_millis(limit.into()), format!("{limit} ms"))),
        Bar::Percent(percent) => Some((base * percent / 100, format!("{percent} % of the first"))),
    }
}

fn held(bar: &str, holds: bool) -> (String, bool) {
    (format!("{bar}: {}", if holds { "holds" } else { "MISSED" }), holds)
}

/// Measures memory for 100,000 pods on 10,000 machines, half of the pods waiting; returns whether the bar holds.
fn memory() -> bool {
    let snapshot = world::busy(10_000, 5, 50_000, 1_000, Mix::Mixed, 1);
    println!("\nmemory\nsnapshot        {:>6} MiB", memory::held());
    memory::forget_peak();
    let (plan, _) = karpenter_engine::plan(&snapshot);
    let peak = memory::peak();
    let (bar, holds) = held(&format!("{MEMORY_BAR} MiB"), peak <= MEMORY_BAR);
    println!("peak of a plan  {peak:>6} MiB, {} launches  {bar}", plan.launches.len());
    holds
}
