//! How the work of the audit grows with the cluster, counted in allocations: a plan for thousands of pods that wait must
//! not be held up by its audit.

use std::fmt::Write;

use karpenter_audit::audit;
use karpenter_testkit::snapshot;

/// A deployment of `pods` pods that wait, next to as many that run; `rules` is what its pods say about others.
fn crowd(pods: usize, rules: &str) -> String {
    let mut text = String::from("type m cpu=4 mem=16Gi pods=20 od=0.20 zones=a,b,c\npool web types=*\n");
    for (zone, pods) in [("a", pods), ("b", 1), ("c", 1)] {
        let _ = writeln!(text, "node {zone} cpu=1 mem=1Gi pods=1 zone={zone} taint=full:NoSchedule");
        let _ = writeln!(text, "pod db-{zone}-{{1..{pods}}} cpu=1m label=app=db on={zone}");
    }
    let _ = writeln!(text, "pod w-{{1..{pods}}} cpu=100m label=app=w {rules}");
    text
}

/// Allocations of an audit of the plan for a deployment of `pods` pods.
fn work(pods: usize, rules: &str) -> u64 {
    let snapshot = snapshot(&crowd(pods, rules));
    let (plan, _) = karpenter_engine::plan(&snapshot);
    let placed: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    assert_eq!(placed, pods, "{rules}");
    let mut findings = Vec::new();
    let allocated = allocation_counter::measure(|| findings = audit(&snapshot, &plan));
    assert_eq!(findings, []);
    allocated.count_total
}

#[test]
fn twice_the_pods_are_about_twice_the_work() {
    for rules in [
        "",
        "spread=zone/1",
        "spread=host/5",
        "anti-affinity=host",
        "anti-affinity=host/app=db",
        "affinity=zone/app=db spread=zone/1",
    ] {
        let (few, many) = (work(60, rules), work(120, rules));
        assert!(many * 2 < few * 5, "{rules}: {few} for 60 pods, {many} for 120");
    }
}
