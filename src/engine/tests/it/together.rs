//! Pods that must share a host get one together on an empty cluster, whenever some instance type holds them all.

use std::collections::BTreeMap;
use std::fmt::Write;

use fastrand::Rng;
use karpenter_audit::audit;
use karpenter_testkit::render;

const SEEDS: u64 = 100;

/// A cluster without machines, and its co-locations, each of which the largest type holds: names and cores,
/// in tenths.
fn world(seed: u64) -> (String, BTreeMap<String, u64>) {
    let mut rng = Rng::with_seed(seed);
    let mut text = String::new();
    let sizes = [2, 4, 8, 16];
    let count = rng.usize(1..=sizes.len());
    for size in &sizes[..count] {
        let _ = writeln!(text, "type t{size} cpu={size} mem=64Gi pods=110 od=0.{:02} zones=a,b", size * 4);
    }
    text.push_str("pool web types=*\n");
    if rng.bool() {
        text.push_str("pool small types=t2 weight=10\n");
    }
    for index in 0..rng.usize(0..12) {
        let _ = writeln!(text, "pod other-{index} cpu={}m", rng.u64(1..20) * 100);
    }
    let mut circles = BTreeMap::new();
    for circle in 0..rng.usize(1..5) {
        let mut cores = 0;
        for pod in 0..rng.usize(2..8) {
            let tenths = rng.u64(1..16).min(sizes[count - 1] * 10 - cores);
            if tenths > 0 {
                let _ = writeln!(
                    text,
                    "pod c{circle}-{pod} cpu={}m label=app=c{circle} affinity=host",
                    tenths * 100
                );
            }
            cores += tenths;
        }
        circles.insert(format!("c{circle}-"), cores);
    }
    (text, circles)
}

#[test]
fn who_must_share_a_host_is_never_parted_where_a_type_holds_all() {
    let mut whole = 0;
    for seed in 0..karpenter_testkit::seeds(SEEDS) {
        let (text, circles) = world(seed);
        let snapshot = karpenter_testkit::snapshot(&text);
        let (plan, report) = karpenter_engine::plan(&snapshot);
        let shown = || format!("seed {seed}\n{text}{}", render(&plan, &report));
        assert_eq!(audit(&snapshot, &plan), [], "{}", shown());
        for (name, cores) in &circles {
            let placed = |pod: &karpenter_model::PodKey| pod.name.as_str().starts_with(name.as_str());
            let hosts = plan.launches.iter().filter(|launch| launch.pods.iter().any(placed)).count();
            let waiting = report.pods.iter().filter(|(pod, outcome)| placed(pod) && !outcome.is_placed());
            assert_eq!((hosts, waiting.count()), (1, 0), "{name} with {cores} tenths\n{}", shown());
            whole += 1;
        }
    }
    assert!(whole > 100, "{whole} co-locations fit");
}
