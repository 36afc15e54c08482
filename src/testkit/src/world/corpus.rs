//! Worlds on which the price of plans is compared, from a hundred to ten thousand pods.
//!
//! Each is there for one thing that makes packing expensive: pods that need a resource each, few large pods among many
//! small ones, prices that differ by zone or capacity type, limits, machines with some room, rules about other pods.

use std::fmt::Write;
use std::sync::Arc;

use fastrand::Rng;
use karpenter_model::Snapshot;

use super::{Mix, busy, instance_types, pending};
use crate::fixture;

/// One world, built when it is asked for.
pub struct World {
    /// Name of the world, for tables and files.
    pub name: &'static str,
    /// Its pods have rules about each other, of which the lower bound knows few.
    pub has_topology: bool,
    /// Builds it; the same every time.
    pub snapshot: fn() -> Snapshot,
}

/// Returns all worlds.
pub fn corpus() -> Vec<World> {
    let alone = |name, snapshot| World { name, has_topology: false, snapshot };
    let related = |name, snapshot| World { name, has_topology: true, snapshot };
    vec![
        alone("small-100", || pending(100, 100, Mix::Generic, 1)),
        alone("generic-1000", || pending(1_000, 200, Mix::Generic, 1)),
        alone("generic-10000", || pending(10_000, 200, Mix::Generic, 1)),
        alone("selectors-1000", || pending(1_000, 60, Mix::Selectors, 1)),
        alone("taints-2000", || pending(2_000, 100, Mix::Taints, 1)),
        alone("volumes-1000", || pending(1_000, 60, Mix::Volumes, 1)),
        alone("two-classes-1920", || two_classes(960, "")),
        alone("two-classes-200", || two_classes(100, "")),
        alone("two-classes-limited", || two_classes(960, " limit=cpu=20000 limit=memory=80000Gi")),
        alone("web-and-cache-2300", || web_and_cache(2_000, 300)),
        alone("web-and-cache-230", || web_and_cache(200, 30)),
        alone("heavy-tail-1500", || heavy_tail(1_500)),
        alone("heavy-tail-200", || heavy_tail(200)),
        alone("gpu-600", gpu),
        alone("zone-prices-1000", zone_prices),
        alone("half-full-2000", || busy(60, 20, 2_000, 100, Mix::Generic, 1)),
        related("topology-1000", || pending(1_000, 100, Mix::Topology, 1)),
        related("topology-10000", || pending(10_000, 100, Mix::Topology, 1)),
        related("diverse-1000", || pending(1_000, 100, Mix::Diverse, 1)),
    ]
}

/// Families with two, four and eight GiB for each core, in three zones.
pub(super) fn families() -> String {
    let mut lines = String::new();
    for (letter, memory, price) in [('c', 2, 42), ('m', 4, 48), ('r', 8, 63)] {
        for cpu in [1, 2, 4, 8, 16, 32, 48, 64, 96] {
            let _ = writeln!(
                lines,
                "type {letter}.{cpu} cpu={cpu} mem={}Gi pods={} zones=a,b,c od={}.{:03} \
                 overhead-cpu=80m overhead-mem=400Mi",
                cpu * memory,
                (cpu * 15 + 8).min(250),
                cpu * price / 1000,
                cpu * price % 1000,
            );
        }
    }
    lines
}

const DAEMONS: &str = "daemon logs cpu=100m mem=200Mi\ndaemon mesh cpu=50m mem=64Mi\n";

/// World with as many pods that need CPU as pods that need memory.
fn two_classes(each: usize, limits: &str) -> Snapshot {
    fixture::snapshot(&format!(
        "{}pool web types=*{limits}\n{DAEMONS}\
         pod cpu-{{1..{each}}} cpu=1 mem=512Mi\npod mem-{{1..{each}}} cpu=250m mem=8Gi\n",
        families()
    ))
}

/// Many small pods and some that need much memory.
fn web_and_cache(web: usize, caches: usize) -> Snapshot {
    fixture::snapshot(&format!(
        "{}pool web types=*\n{DAEMONS}\
         pod web-{{1..{web}}} cpu=500m mem=512Mi\npod cache-{{1..{caches}}} cpu=1 mem=16Gi\n",
        families()
    ))
}

/// Pods of fifty workloads: most are small, some are as large as a machine.
fn heavy_tail(pods: usize) -> Snapshot {
    let rng = &mut Rng::with_seed(3);
    let mut lines = families() + "pool web types=*\n" + DAEMONS;
    let workloads: Vec<(u32, u32)> = (0..50)
        .map(|_| {
            // Each doubling is half as likely.
            let doublings = rng.u64(1..1 << 8).leading_zeros() - 56;
            let cpu = rng.u32(100..200) << doublings;
            (cpu / 10 * 10, cpu / 100 * [64, 128, 256, 384, 512, 896][rng.usize(0..6)])
        })
        .collect();
    for pod in 0..pods {
        let (cpu, memory) = workloads[rng.usize(0..workloads.len())];
        let _ = writeln!(lines, "pod p-{pod} cpu={cpu}m mem={memory}Mi");
    }
    fixture::snapshot(&lines)
}

/// Pods with and without GPUs, which may share machines.
fn gpu() -> Snapshot {
    let mut lines = families();
    for (gpus, cpu) in [(1, 8), (4, 48), (8, 96)] {
        let _ = writeln!(
            lines,
            "type g.{gpus} cpu={cpu} mem={}Gi pods=110 res=nvidia.com/gpu={gpus} zones=a,b od={gpus}.{:03} \
             overhead-cpu=80m overhead-mem=400Mi",
            cpu * 4,
            gpus * 60,
        );
    }
    lines += "pool all types=*\n";
    lines += DAEMONS;
    lines += "pod train-{1..60} cpu=4 mem=24Gi res=nvidia.com/gpu=1\n\
              pod serve-{1..40} cpu=2 mem=6Gi res=nvidia.com/gpu=1\n\
              pod wide-{1..10} cpu=8 mem=64Gi res=nvidia.com/gpu=4\n\
              pod api-{1..390} cpu=700m mem=1536Mi\npod batch-{1..100} cpu=1500m mem=3Gi\n";
    fixture::snapshot(&lines)
}

/// Spot prices that differ by zone, and pods that need on-demand capacity or a zone.
fn zone_prices() -> Snapshot {
    let rng = &mut Rng::with_seed(5);
    let mut snapshot = pending(1_000, 1, Mix::Generic, 5);
    let mut types = instance_types(54, rng);
    for one in &mut types {
        for offering in &mut Arc::make_mut(one).offerings {
            let percent = if offering.capacity_type == karpenter_model::CapacityType::Spot {
                rng.i64(70..140)
            } else {
                100
            };
            offering.price = karpenter_model::Price::from_nanos(offering.price.nanos() / 100 * percent);
        }
    }
    let types: Arc<[_]> = types.into();
    for list in snapshot.instance_types.values_mut() {
        *list = Arc::clone(&types);
    }
    for (index, pod) in snapshot.pending.iter_mut().enumerate() {
        let wanted = match index % 5 {
            0 => ("karpenter.sh/capacity-type", "on-demand"),
            1 => ("topology.kubernetes.io/zone", ["a", "b", "c"][index % 3]),
            _ => continue,
        };
        Arc::make_mut(pod).node_selector.insert(wanted.0.into(), wanted.1.into());
    }
    snapshot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_have_names_of_their_own_and_pods() {
        let worlds = corpus();
        let mut names: Vec<&str> = worlds.iter().map(|world| world.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), worlds.len());
        for world in worlds.iter().filter(|world| !world.name.ends_with("000")) {
            assert!((world.snapshot)().pending.len() >= 100, "{}", world.name);
        }
    }
}
