//! Launches ahead of a batch: what is launched while pods still arrive, and what is left for the end, cost together hardly
//! more than one plan for all pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_engine::{plan, plan_ahead};
use karpenter_model::{Launch, Pod, PodKey, Snapshot};
use karpenter_testkit::world::{self, Mix};

/// Parts in which the pods arrive.
const ARRIVALS: usize = 5;

fn price(launches: &[Launch]) -> i64 {
    let cheapest = launches.iter().map(|launch| launch.cheapest.as_ref().expect("a price is known"));
    cheapest.map(|cheapest| cheapest.price.nanos()).sum()
}

/// Returns the launches for the pods of `snapshot` as they arrive: before the last have come, and in all.
fn in_parts(snapshot: &Snapshot) -> (Vec<Launch>, Vec<Launch>) {
    let mut waiting: Vec<Arc<Pod>> = Vec::new();
    let mut early: Vec<Launch> = Vec::new();
    for arriving in snapshot.pending.chunks(snapshot.pending.len().div_ceil(ARRIVALS)) {
        waiting.extend_from_slice(arriving);
        let part = Snapshot { pending: waiting.clone(), ..snapshot.clone() };
        let (plan, _, certain) = plan_ahead(&part);
        let launched = plan.launches.into_iter().filter(|launch| certain.contains(&launch.bin));
        early.extend(launched);
        let housed: BTreeSet<&PodKey> = early.iter().flat_map(|launch| &launch.pods).collect();
        waiting.retain(|pod| !housed.contains(&pod.key));
    }
    let (rest, _) = plan(&Snapshot { pending: waiting, ..snapshot.clone() });
    let all = early.iter().cloned().chain(rest.launches).collect();
    (early, all)
}

#[test]
fn launching_what_is_certain_costs_hardly_more_than_one_plan() {
    let (mut costs, mut leasts) = (0, 0);
    for (seed, mix) in (0..4).flat_map(|seed| [(seed, Mix::Generic), (seed, Mix::Selectors)]) {
        let snapshot = world::pending(600, 60, mix, seed);
        let (early, all) = in_parts(&snapshot);
        let pods = |launches: &[Launch]| launches.iter().map(|launch| launch.pods.len()).sum::<usize>();
        let (one, _) = plan(&snapshot);
        assert_eq!(pods(&all), pods(&one.launches), "seed {seed}: every pod has one place");
        let cost = price(&all);
        let (early, all) = (pods(&early), pods(&all));
        assert!(2 * early >= all, "{mix:?} {seed}: {early} of {all} pods did not wait");
        let least = price(&one.launches);
        assert!(cost <= least + least / 20, "{mix:?} {seed}: {cost} in parts, {least} at once");
        (costs, leasts) = (costs + cost, leasts + least);
    }
    assert!(costs <= leasts + leasts / 100, "{costs} in parts, {leasts} at once");
}
