//! Cost of plans: `cargo bench -p karpenter-engine --bench quality` prints the table of docs/performance.md, the price
//! of each plan beside a lower bound that no plan can be below.
//!
//! Words after `--` select the worlds whose name contains them. With `BENCH_INPUTS=folder` the worlds and `plans.json`
//! are written there instead. With `BENCH_PLANS=file` the plans of another scheduler are read and printed beside ours:
//! `{"generic-1000": {"price": 12.5, "machines": 3, "pods": 1000}}`, the price in dollars per hour. Every price is
//! compared with the bound for the pods this planner places, so a plan with fewer pods has no ratio.
//!
//! Below each world is what is bought until all its pods are bound ([`realised`]): the price as a share of the plan's, and machines.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

mod filled;
#[path = "../plan/inputs.rs"]
mod inputs;
mod realised;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use karpenter_model::{Pod, PodOutcome, Snapshot};
use karpenter_testkit::bound;
use karpenter_testkit::world::corpus::{World, corpus};
use realised::Bought;
use serde_json::{Map, Value, json};

/// Figures of one plan.
#[derive(Clone, Copy)]
struct Figures {
    /// Dollars per hour for machines that are bought.
    price: f64,
    machines: u64,
    pods: u64,
}

/// Ratios to the bound, of worlds of one kind.
#[derive(Default)]
struct Ratios(Vec<f64>);

impl Ratios {
    fn text(&self) -> String {
        let most = self.0.iter().copied().fold(0.0, f64::max);
        let mean = self.0.iter().sum::<f64>() / self.0.len().max(1) as f64;
        format!("mean {mean:.3}, greatest {most:.3}, worlds {}", self.0.len())
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut worlds = corpus();
    worlds.retain(|world| words.is_empty() || words.iter().any(|word| world.name.contains(word.as_str())));
    if let Some(directory) = std::env::var_os("BENCH_INPUTS") {
        return write(directory.as_ref(), &worlds);
    }
    let others = std::env::var_os("BENCH_PLANS").map(|file| read(file.as_ref())).unwrap_or_default();
    println!(
        "{:<22} {:>6} {:>6} {:>10} {:>8} {:>10} {:>6}   other",
        "world", "pods", "placed", "price", "machines", "bound", "ratio"
    );
    let (mut ratios, mut of_others) = (BTreeMap::<bool, Ratios>::new(), Ratios::default());
    let mut realised: BTreeMap<&str, Ratios> = BTreeMap::new();
    for world in worlds {
        let snapshot = (world.snapshot)();
        let (figures, placed) = planned(&snapshot);
        let bound = bound::least_price(&snapshot, &placed).nanos() as f64 / 1e9;
        let ratio = figures.price / bound;
        let other = others.get(world.name).map(|other| {
            let ratio = (other.pods >= figures.pods).then(|| other.price / bound);
            of_others.0.extend(ratio);
            let ratio = ratio.map_or("fewer pods".to_owned(), |ratio| format!("{ratio:.3}"));
            format!("{:.3} on {} machines, {ratio}", other.price, other.machines)
        });
        let Figures { price, machines, pods } = figures;
        let (name, all, other) = (world.name, snapshot.pending.len(), other.unwrap_or_default());
        println!(
            "{name:<22} {all:>6} {pods:>6} {price:>10.3} {machines:>8} {bound:>10.3} {ratio:>6.3}   {other}"
        );
        for (circumstances, tried) in realised::ALL {
            let Bought { price, machines } = realised::bought(&snapshot, tried);
            println!("    {circumstances:<18} {price:.3} {machines:>6}");
            realised.entry(circumstances).or_default().0.push(price);
        }
        ratios.entry(world.has_topology).or_default().0.push(ratio);
    }
    for (has_topology, ratios) in &ratios {
        println!("{}: {}", if *has_topology { "with topology" } else { "without topology" }, ratios.text());
    }
    for (circumstances, ratios) in &realised {
        println!("realised, {circumstances}: {}", ratios.text());
    }
    if !of_others.0.is_empty() {
        println!("other: {}", of_others.text());
    }
}

/// The plan for `snapshot`, and the pods that have a place by it.
fn planned(snapshot: &Snapshot) -> (Figures, Vec<&Pod>) {
    let (plan, report) = karpenter_engine::plan(snapshot);
    let is_placed = |pod: &&Pod| report.pods.get(&pod.key).is_some_and(PodOutcome::is_placed);
    let placed: Vec<&Pod> = snapshot.pending.iter().map(AsRef::as_ref).filter(is_placed).collect();
    let nanos = plan.launches.iter().filter_map(|launch| Some(launch.cheapest.as_ref()?.price.nanos()));
    let price = nanos.sum::<i64>() as f64 / 1e9;
    (Figures { price, machines: plan.launches.len() as u64, pods: placed.len() as u64 }, placed)
}

fn write(directory: &Path, worlds: &[World]) {
    let mut plans = Map::new();
    for world in worlds {
        let snapshot = (world.snapshot)();
        let (Figures { price, machines, pods }, _) = planned(&snapshot);
        plans.insert(world.name.into(), json!({ "price": price, "machines": machines, "pods": pods }));
        inputs::write(directory, world.name, &snapshot).expect("the inputs can be written");
    }
    let text = format!("{:#}\n", Value::Object(plans));
    fs::write(directory.join("plans.json"), text).expect("the plans can be written");
}

fn read(file: &Path) -> BTreeMap<String, Figures> {
    let text = fs::read_to_string(file).expect("the plans can be read");
    let plans: BTreeMap<String, Value> = serde_json::from_str(&text).expect("plans are a JSON object");
    let number =
        |plan: &Value, name: &str| plan[name].as_f64().expect("price, machines and pods are numbers");
    let count = |plan: &Value, name: &str| plan[name].as_u64().expect("machines and pods are whole numbers");
    let figures = |plan: &Value| Figures {
        price: number(plan, "price"),
        machines: count(plan, "machines"),
        pods: count(plan, "pods"),
    };
    plans.iter().map(|(name, plan)| (name.clone(), figures(plan))).collect()
}
