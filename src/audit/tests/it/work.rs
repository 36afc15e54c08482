//! Growth of the audit's work with the cluster, counted in allocations: a plan for thousands of pods that wait must
//! not be held up by its audit.

use std::fmt::Write;
use std::sync::Arc;

use karpenter_audit::audit;
use karpenter_model::Snapshot;
use karpenter_model::names::label;
use karpenter_testkit::snapshot;

/// A deployment of `pods` pods that wait, next to as many that run; `rules` is what its pods say about others, `more` what
/// else there is.
fn crowd(pods: usize, rules: &str, more: &str) -> String {
    let mut text = format!("type m cpu=4 mem=16Gi pods=30 od=0.20 zones=a,b,c\n{more}pool web types=*\n");
    for (zone, pods) in [("a", pods), ("b", 1), ("c", 1)] {
        let _ = writeln!(text, "node {zone} cpu=1 mem=1Gi pods=1 zone={zone} taint=full:NoSchedule");
        let _ = writeln!(text, "pod db-{zone}-{{1..{pods}}} cpu=1m label=app=db on={zone}");
    }
    let _ = writeln!(text, "pod w-{{1..{pods}}} cpu=100m label=app=w {rules}");
    text
}

/// Allocations of an audit of the plan for `snapshot`, which places `pods` pods.
fn work(pods: usize, snapshot: &Snapshot) -> u64 {
    let (plan, _) = karpenter_engine::plan(snapshot);
    let launched: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    assert_eq!(launched + plan.nominations.len(), pods);
    let mut findings = Vec::new();
    let allocated = allocation_counter::measure(|| findings = audit(snapshot, &plan));
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
        let [few, many] = [60, 120].map(|pods| work(pods, &snapshot(&crowd(pods, rules, ""))));
        assert!(many * 2 < few * 5, "{rules}: {few} for 60 pods, {many} for 120");
    }
}

#[test]
fn daemons_and_types_that_no_launch_lists_are_the_same_work_for_twice_the_launches() {
    let lines = |count: usize, line: &str| {
        (0..count).map(|number| line.replace('#', &number.to_string())).collect::<String>()
    };
    let types = lines(10, "type n# cpu=8 mem=32Gi pods=30 od=0.5# zones=a,b,c\n");
    let daemons = lines(12, "daemon d# cpu=1m require=zone:Exists\n");
    let small = lines(50, "type s# cpu=50m mem=1Gi pods=30 od=0.0# zones=a,b,c\n");
    for (before, more, of) in [(types, daemons, "daemons"), (String::new(), small, "types")] {
        let added = |pods: usize| {
            // Each pod gets a machine of its own.
            let work = |lines: &str| work(pods, &snapshot(&crowd(pods, "anti-affinity=host", lines)));
            work(&format!("{before}{more}")) - work(&before)
        };
        let (few, many) = (added(30), added(60));
        assert!(many * 10 < few * 15, "{of}: {few} for 30 launches, {many} for 60");
    }
}

#[test]
fn twice_the_pods_that_keep_twice_the_pods_out_are_about_twice_the_work() {
    let kept_out = |pods: usize| {
        let mut snapshot = snapshot(&format!(
            "type m cpu=4 mem=16Gi pods=30 od=0.20 zones=a,b\npool web types=*\n\
             node a cpu=9 mem=9Gi pods=999 zone=a\nnode b cpu=99 mem=9Gi pods=999 zone=b\n\
             pod guard-{{1..{pods}}} cpu=1m on=a anti-affinity=host/app=w\n\
             pod w-{{1..{pods}}} cpu=100m label=app=w\n"
        ));
        // The host name of a node without the label is made when it is asked for, so that asking is counted.
        snapshot.nodes.iter_mut().for_each(|node| drop(Arc::make_mut(node).labels.remove(label::HOSTNAME)));
        snapshot
    };
    let [few, many] = [60, 120].map(|pods| work(pods, &kept_out(pods)));
    assert!(many * 2 < few * 5, "{few} for 60 pods, {many} for 120");
}
