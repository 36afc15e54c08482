//! Comparison with an exhaustive search on tiny clusters: every set of machines, every place for each of their pods
//! on what stays and on at most one new machine. Slow and obvious.
//!
//! A search by prefixes and pairs may overlook a set; how often, and how much of the best saving one pass finds, is
//! printed and bounded.

use std::collections::BTreeSet;
use std::fmt::Write;

use fastrand::Rng;
use karpenter_engine::disrupt::{Memory, Standing, decide};
use karpenter_model::Price;
use karpenter_testkit::snapshot;

/// Clusters, unless the environment asks for more.
const CLUSTERS: u64 = 400;

/// Types: name, cpu in thousandths, memory in mebibytes, price in thousandths of a dollar.
const TYPES: [(&str, u32, u32, u32); 5] = [
    ("s", 2_000, 4_096, 100),
    ("m", 4_000, 8_192, 190),
    ("l", 8_000, 16_384, 390),
    ("lean", 4_000, 4_096, 150),
    ("fat", 2_000, 16_384, 170),
];

/// A machine: its type, its zone and the pods on it.
struct Machine {
    kind: usize,
    zone: usize,
    pods: Vec<Asks>,
}

/// Request of a pod; the zone if it selects one.
#[derive(Clone, Copy)]
struct Asks {
    cpu: u32,
    memory: u32,
    zone: Option<usize>,
}

fn cluster(seed: u64) -> Vec<Machine> {
    let rng = &mut Rng::with_seed(seed);
    let mut pods = 6;
    let machines = rng.usize(2..5);
    let machine = |_| {
        let (kind, zone) = (rng.usize(0..TYPES.len()), rng.usize(0..2));
        let (_, mut cpu, mut memory, _) = TYPES[kind];
        let mut own = Vec::new();
        for _ in 0..rng.usize(1..4) {
            let asks = Asks {
                cpu: [300, 900, 1_400, 1_900][rng.usize(0..4)],
                memory: [256, 1_024, 3_072, 6_144][rng.usize(0..4)],
                zone: (rng.u8(0..4) == 0).then_some(zone),
            };
            if pods > 0 && asks.cpu <= cpu && asks.memory <= memory {
                (cpu, memory, pods) = (cpu - asks.cpu, memory - asks.memory, pods - 1);
                own.push(asks);
            }
        }
        Machine { kind, zone, pods: own }
    };
    // Empty machines are the business of another method.
    (0..machines).map(machine).filter(|machine| !machine.pods.is_empty()).collect()
}

fn text(cluster: &[Machine]) -> String {
    let mut text = String::new();
    for (name, cpu, memory, price) in TYPES {
        let _ = writeln!(text, "type {name} cpu={cpu}m mem={memory}Mi pods=20 od=0.{price} zones=a,b");
    }
    text.push_str("pool p types=* budget=100%\n");
    for (index, machine) in cluster.iter().enumerate() {
        let zone = ["a", "b"][machine.zone];
        let _ = writeln!(
            text,
            "node n{index} pool=p type={} zone={zone} capacity=on-demand",
            TYPES[machine.kind].0
        );
        for (pod, asks) in machine.pods.iter().enumerate() {
            let select = asks.zone.map_or("", |zone| [" select=zone=a", " select=zone=b"][zone]);
            let _ = writeln!(
                text,
                "pod n{index}-{pod} cpu={}m mem={}Mi{select} on=n{index}",
                asks.cpu, asks.memory
            );
        }
    }
    text
}

/// A place while it is being filled: what is left, and the zones it may be in.
#[derive(Clone)]
struct Place {
    cpu: u32,
    memory: u32,
    zones: BTreeSet<usize>,
}

impl Place {
    fn take(&self, asks: Asks) -> Option<Self> {
        let zones: BTreeSet<usize> = self
            .zones
            .iter()
            .copied()
            .filter(|zone| asks.zone.is_none_or(|wanted| wanted == *zone))
            .collect();
        let (cpu, memory) = (self.cpu.checked_sub(asks.cpu)?, self.memory.checked_sub(asks.memory)?);
        (!zones.is_empty()).then_some(Self { cpu, memory, zones })
    }
}

/// Returns whether all of `pods` find a place among `places`.
fn housed(pods: &[Asks], places: &mut Vec<Place>) -> bool {
    let Some((first, rest)) = pods.split_first() else { return true };
    (0..places.len()).any(|index| {
        let Some(taken) = places[index].take(*first) else { return false };
        let before = std::mem::replace(&mut places[index], taken);
        let found = housed(rest, places);
        places[index] = before;
        found
    })
}

/// The most one command could save, in thousandths of a dollar.
fn best(cluster: &[Machine]) -> u32 {
    let mut best = 0;
    for set in 1..1u32 << cluster.len() {
        let goes = |index: usize| set >> index & 1 == 1;
        let before: u32 =
            (0..cluster.len()).filter(|index| goes(*index)).map(|index| TYPES[cluster[index].kind].3).sum();
        let pods: Vec<Asks> = (0..cluster.len())
            .filter(|index| goes(*index))
            .flat_map(|index| cluster[index].pods.clone())
            .collect();
        let stays = (0..cluster.len()).filter(|index| !goes(*index)).map(|index| {
            let machine = &cluster[index];
            let (_, cpu, memory, _) = TYPES[machine.kind];
            let used = |pick: fn(&Asks) -> u32| machine.pods.iter().map(pick).sum::<u32>();
            let (cpu, memory) = (cpu - used(|asks| asks.cpu), memory - used(|asks| asks.memory));
            Place { cpu, memory, zones: [machine.zone].into() }
        });
        let stays: Vec<Place> = stays.collect();
        if housed(&pods, &mut stays.clone()) {
            best = best.max(before);
        }
        for (_, cpu, memory, price) in TYPES {
            let mut places = stays.clone();
            places.push(Place { cpu, memory, zones: [0, 1].into() });
            if price < before && before - price > best && housed(&pods, &mut places) {
                best = before - price;
            }
        }
    }
    best
}

#[test]
fn what_can_be_saved_is_found_nearly_always() {
    let wanted = karpenter_testkit::number("OPTIMUM_WORLDS").unwrap_or(CLUSTERS);
    let (mut possible, mut missed, mut share) = (0u64, Vec::new(), 0u64);
    for seed in 0..wanted {
        let cluster = cluster(seed);
        let best = best(&cluster);
        let text = text(&cluster);
        let standing = Standing { proposed: &[], running: &BTreeSet::new() };
        let decision = decide(&snapshot(&text), &mut Memory::default(), &standing);
        let saved: Price = decision.commands.iter().map(|command| command.savings).sum();
        let saved = u64::try_from(saved.nanos() / 1_000_000).unwrap_or(0);
        if best == 0 {
            assert_eq!(saved, 0, "seed {seed}: nothing can be saved\n{text}");
            continue;
        }
        possible += 1;
        share += (saved * 1_000 / u64::from(best)).min(1_000);
        if saved == 0 {
            missed.push(seed);
        }
    }
    let mean = share / possible.max(1);
    println!(
        "{possible} clusters with something to save, {} overlooked, {mean} per mille of the best saving in one pass",
        missed.len()
    );
    assert!(possible > wanted / 4, "only {possible} clusters have something to save");
    // Some of these are found, and not proposed because the scheduler would leave a pod over; the search here has pods where it
    // wants them.
    assert!(missed.len() as u64 * 40 <= possible, "overlooked in {missed:?}");
    assert!(mean >= 800, "one pass finds {mean} per mille of the best saving");
}
