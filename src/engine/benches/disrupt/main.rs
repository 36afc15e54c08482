//! Duration of disruption: `cargo bench -p karpenter-engine --bench disrupt` prints the tables of
//! docs/performance.md. Wall time, because candidates are judged on all cores.
//!
//! A word after `--` selects the tables whose name contains it.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

#[path = "../quality/filled.rs"]
mod filled;
mod scale_in;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use jiff::SignedDuration;
use karpenter_engine::disrupt::{Decision, Memory, Standing, confirm, decide};
use karpenter_model::report::ReasonCode;
use karpenter_model::{
    Claim, Command, Condition, ConditionStatus, ConditionType, InstanceType, Method, NodeOutcome, Settings,
    Snapshot,
};
use karpenter_testkit::{fixture, world};

/// Runs of a pass that is repeated; the median counts.
const RUNS: i64 = 25;
/// Instance types on sale.
const TYPES: usize = 400;

fn main() {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let tables: [(&str, fn()); 5] = [
        ("judged", judged),
        ("sweep", sweep),
        ("idle", idle),
        ("looks", second_looks),
        ("scale-in", scale_in::scale_in),
    ];
    for (name, table) in tables.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        println!("\n{name}");
        table();
    }
}

/// Utilization of the machines of a world.
#[derive(Debug, Clone, Copy)]
enum Load {
    /// There is no room and nothing cheaper: every machine is judged, and stays.
    Full,
    /// Little room, but machines that could be cheaper.
    Packed,
    /// About half.
    Half,
}

/// A cluster of `nodes` machines with about twenty pods each; a third of the pods spread over zones, a sixth over
/// hosts, a twentieth keep apart. Budgets stop nothing.
fn cluster(nodes: usize, load: Load, seed: u64) -> Snapshot {
    let rng = &mut Rng::with_seed(seed);
    let types: Arc<[Arc<InstanceType>]> = world::instance_types(TYPES, rng).into();
    let fitting = types.iter().filter(|known| known.capacity.amount("cpu").to_string() == "8");
    let mut fitting: Vec<_> = fitting.collect();
    fitting.sort_by_key(|known| known.offerings.iter().map(|offering| offering.price).max());
    let mut names: Vec<&str> = fitting.iter().map(|known| known.name.as_str()).collect();
    let millis = match load {
        Load::Full => 385..=390,
        Load::Packed => 330..=420,
        Load::Half => 100..=300,
    };
    let mut text =
        String::from("daemon logs cpu=100m mem=200Mi tolerate=*\npool general types=* budget=100%");
    if matches!(load, Load::Full) {
        names.truncate(1);
        text.push_str(" require=capacity:In:on-demand");
    }
    text.push('\n');
    for name in &names {
        let _ = writeln!(text, "type {name} cpu=8 mem=32Gi pods=128 od=1");
    }
    for node in 0..nodes {
        let zone = ["a", "b", "c"][rng.usize(0..3)];
        let capacity = ["on-demand", "spot"][rng.usize(0..2).min(names.len() - 1)];
        let name = names[rng.usize(0..names.len())];
        let _ = writeln!(text, "node n{node} pool=general type={name} zone={zone} capacity={capacity}");
        for pod in 0..20 {
            let app = rng.u32(0..200);
            let rule = match app % 60 {
                0..20 => " spread=zone/5",
                20..30 => " spread=host/3",
                30..33 => " anti-affinity=host",
                _ => "",
            };
            let cpu = rng.u32(millis.clone());
            let _ =
                writeln!(text, "pod p{node}-{pod} cpu={cpu}m mem=256Mi label=app=app-{app}{rule} on=n{node}");
        }
    }
    let mut snapshot = fixture::snapshot(&text);
    for list in snapshot.instance_types.values_mut() {
        *list = Arc::clone(&types);
    }
    snapshot
}

fn pass(snapshot: &Snapshot, memory: &mut Memory) -> (Arc<Decision>, Duration) {
    let start = Instant::now();
    let decision = decide(snapshot, memory, &Standing { proposed: &[], running: &BTreeSet::new() });
    (decision, start.elapsed())
}

/// A thousand candidates in one pass.
fn judged() {
    println!("{:<24} {:>10} {:>12} {:>10} {:>10}", "case", "time", "simulations", "commands", "nodes");
    for load in [Load::Full, Load::Packed, Load::Half] {
        let snapshot = cluster(1_000, load, 1);
        let (decision, time) = pass(&snapshot, &mut Memory::default());
        let simulations: u32 = decision.methods.values().map(|stats| stats.simulations).sum();
        let nodes: usize = decision.commands.iter().map(|command| command.candidates.len()).sum();
        let case = format!("1,000 nodes {load:?}");
        println!("{case:<24} {time:>10.1?} {simulations:>12} {:>10} {nodes:>10}", decision.commands.len());
        let mut kept: BTreeMap<ReasonCode, u32> = BTreeMap::new();
        for outcome in decision.nodes.values() {
            if let NodeOutcome::Kept(reason) = outcome {
                *kept.entry(reason.code).or_default() += 1;
            }
        }
        println!("  stay: {kept:?}");
    }
}

/// Every machine of a large cluster, over as many passes as it takes.
fn sweep() {
    println!("{:<24} {:>10} {:>12} {:>10}", "pass", "time", "simulations", "not yet");
    let snapshot = cluster(10_000, Load::Full, 1);
    let mut memory = Memory::default();
    for number in 1..=20 {
        let (decision, time) = pass(&snapshot, &mut memory);
        let waits = |outcome: &&NodeOutcome| matches!(outcome, NodeOutcome::Kept(reason) if reason.code == ReasonCode::NextPass);
        let left = decision.nodes.values().filter(waits).count();
        let stats = decision.methods.get(&Method::SingleNode).copied().unwrap_or_default();
        println!("{number:<24} {time:>10.1?} {:>12} {left:>10}", stats.simulations);
        if left == 0 {
            break;
        }
    }
}

/// Passes in which nothing has changed, ten seconds apart, each over a snapshot of its own as the controller takes it:
/// the first that asks nothing, and those that have nothing left to do at all.
fn idle() {
    println!("{:<34} {:>10} {:>10} {:>12} {:>12}", "case", "time", "processor", "simulations", "allocations");
    let mut snapshot = cluster(10_000, Load::Full, 1);
    let mut settings: Settings = (*snapshot.settings).clone();
    settings.disruption.simulations_per_pass = 20_000;
    snapshot.settings = Arc::new(settings);
    let mut memory = Memory::default();
    let mut measured = |number: i64| {
        let snapshot =
            Snapshot { now: snapshot.now + SignedDuration::from_secs(10 * number), ..snapshot.clone() };
        let (mut answer, before) = (None, processor_time());
        let allocated = allocation_counter::measure(|| answer = Some(pass(&snapshot, &mut memory)));
        let busy = processor_time().saturating_sub(before);
        let (decision, time) = answer.expect("invariant: the pass has run");
        let simulations: u32 = decision.methods.values().map(|stats| stats.simulations).sum();
        (time, busy, simulations, allocated.count_total)
    };
    let row = |case: &str, (time, busy, simulations, allocations): (Duration, Duration, u32, u64)| {
        println!("{case:<34} {time:>10.1?} {busy:>10.1?} {simulations:>12} {allocations:>12}");
    };
    row("10,000 nodes, all of them judged", measured(0));
    row("nothing has changed, first time", measured(1));
    let mut runs: Vec<_> = (2..2 + RUNS).map(&mut measured).collect();
    runs.sort_unstable();
    row("nothing has changed, from then on", runs[runs.len() / 2]);
    row("the slowest of those", runs[runs.len() - 1]);
    let most = runs.iter().map(|(_, _, _, allocations)| *allocations).max().unwrap_or_default();
    assert_eq!(most, 0, "a pass in which nothing has changed allocates nothing");
}

/// A day on which every machine drifts: the looks after the taint at all commands of one pass, on one ground, and at
/// some of them one by one, each after those before it.
fn second_looks() {
    println!("{:<44} {:>10} {:>14} {:>14}", "case", "time", "most memory", "confirmed");
    let mut snapshot = cluster(10_000, Load::Packed, 1);
    for node in &mut snapshot.nodes {
        let node = Arc::make_mut(node);
        node.claim = node.claim.as_deref().map(|claim| Arc::new(drifted(claim, snapshot.now)));
    }
    let (decision, _) = pass(&snapshot, &mut Memory::default());
    let commands: Vec<Command> =
        decision.commands.iter().filter(|command| command.method == Method::Drift).cloned().collect();
    let running = BTreeSet::new();
    let row = |case: &str, proposed: &[Command], looked: &[Command]| {
        let (mut confirmed, start) = (0, Instant::now());
        let memory = allocation_counter::measure(|| {
            let answers = confirm(&snapshot, looked, &Standing { proposed, running: &running });
            confirmed = answers.iter().filter(|answer| answer.is_ok()).count();
        });
        let mebibytes = memory.bytes_max / (1 << 20);
        println!("{case:<44} {:>10.1?} {:>10} MiB {confirmed:>14}", start.elapsed(), mebibytes);
    };
    row(&format!("10,000 nodes, {} commands together", commands.len()), &[], &commands);
    for position in [0, commands.len() / 2, commands.len().saturating_sub(1)] {
        let case = format!("10,000 nodes, command {} alone", position + 1);
        row(&case, &commands[..position], &commands[position..=position]);
    }
}

/// `claim` as it is an hour after its class has changed.
fn drifted(claim: &Claim, now: jiff::Timestamp) -> Claim {
    let condition = Condition {
        status: ConditionStatus::True,
        reason: "NodeClassDrift".to_owned(),
        message: String::new(),
        last_transition: now - SignedDuration::from_hours(1),
        observed_generation: 1,
    };
    let mut claim = claim.clone();
    claim.conditions.insert(ConditionType::Drifted, condition);
    claim
}

/// Processor time of this thread, which other work on the machine distorts least; zero where it is not known.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
