//! Plans in which pods that need CPU share nodes with pods that need memory keep every rule, limits of pools included.

use karpenter_audit::audit;
use karpenter_model::{CapacityType, Snapshot};
use karpenter_testkit::{crowd, render};

/// Worlds, unless the environment asks for more.
const SEEDS: u64 = 100;

/// Returns whether `launch` of a plan for `snapshot` has pods that need CPU and pods that need memory.
fn is_mixed(snapshot: &Snapshot, launch: &karpenter_model::Launch) -> bool {
    let ratio = |pod: &karpenter_model::Pod| {
        let [cpu, memory] = ["cpu", "memory"].map(|name| pod.requests.amount(name).nanos());
        memory / (1 << 30) > cpu * 4
    };
    let on_it = snapshot.pending.iter().filter(|pod| launch.pods.contains(&pod.key));
    let kinds: Vec<bool> = on_it.map(|pod| ratio(pod)).collect();
    kinds.contains(&true) && kinds.contains(&false)
}

#[test]
fn plans_for_pods_of_both_kinds_pass_the_audit() {
    let (mut mixed, mut limited, mut apart) = (0, 0, 0);
    for seed in 0..karpenter_testkit::seeds(SEEDS) {
        let snapshot = crowd::crowd(seed);
        let (plan, report) = karpenter_engine::plan(&snapshot);
        let findings = audit(&snapshot, &plan);
        assert!(findings.is_empty(), "seed {seed}: {findings:#?}\n{}", render(&plan, &report));
        mixed += plan.launches.iter().filter(|launch| is_mixed(&snapshot, launch)).count();
        // Limits that keep a pod waiting have been met.
        let waits = report.pods.values().any(|outcome| !outcome.is_placed());
        limited += u32::from(waits && snapshot.pools.iter().any(|pool| pool.limits.is_some()));
        let bought = plan.launches.iter().filter_map(|launch| Some(launch.cheapest.as_ref()?.capacity_type));
        let bought: Vec<CapacityType> = bought.collect();
        apart += u32::from(bought.contains(&CapacityType::OnDemand) && bought.contains(&CapacityType::Spot));
    }
    let counted = format!("{mixed} mixed nodes, {limited} limits met, {apart} plans of both capacity types");
    assert!(mixed > 100 && limited > 10 && apart > 10, "{counted}");
}
