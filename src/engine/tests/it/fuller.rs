//! Pods that keep others off their hosts, or spread over hosts: machines are filled, and no rule is broken by that.

use karpenter_audit::audit;
use karpenter_model::Plan;
use karpenter_testkit::render;
use karpenter_testkit::world::{self, Mix};

/// Worlds, unless the environment asks for more.
const SEEDS: u64 = 12;

/// Billionths of a dollar an hour.
fn price(plan: &Plan) -> i64 {
    plan.launches.iter().filter_map(|launch| Some(launch.cheapest.as_ref()?.price.nanos())).sum()
}

#[test]
fn diverse_pods_cost_little_more_than_the_bound() {
    let snapshot = world::pending(1_000, 100, Mix::Diverse, 1);
    let (plan, report) = karpenter_engine::plan(&snapshot);
    assert_eq!(audit(&snapshot, &plan), []);
    assert!(report.pods.values().all(karpenter_model::PodOutcome::is_placed));
    // The bound of diverse-1000 in docs/performance.md, which takes minutes to compute.
    let bound = 11_469_000_000;
    assert!(price(&plan) <= bound / 100 * 106, "{} on {} machines", price(&plan), plan.launches.len());
}

#[test]
fn plans_for_diverse_pods_pass_the_audit() {
    for seed in 0..karpenter_testkit::seeds(SEEDS) {
        let snapshot = world::pending(150, 60, Mix::Diverse, seed);
        let (plan, report) = karpenter_engine::plan(&snapshot);
        let findings = audit(&snapshot, &plan);
        assert!(findings.is_empty(), "seed {seed}: {findings:#?}\n{}", render(&plan, &report));
    }
}
