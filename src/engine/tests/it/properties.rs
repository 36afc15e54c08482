//! Properties of every world: plans pass the audit, order does not matter, capacity never hurts.

use std::fmt::Write;
use std::sync::Arc;

use fastrand::Rng;
use karpenter_audit::audit;
use karpenter_model::{Node, Pod, Snapshot, Target};
use karpenter_testkit::world::{self, Mix};
use karpenter_testkit::{render, small};

/// Seeds per property and kind of world, unless the environment asks for more; a failure names its number.
const SEEDS: u64 = 60;

/// Every kind of small world.
fn worlds() -> impl Iterator<Item = Snapshot> {
    let kinds = [small::world, small::social, small::attached, small::coarse];
    kinds.into_iter().flat_map(|kind| seeds().map(kind))
}

fn seeds() -> std::ops::Range<u64> {
    0..karpenter_testkit::seeds(SEEDS)
}

fn planned(snapshot: &Snapshot) -> String {
    let (plan, report) = karpenter_engine::plan(snapshot);
    format!(
        "{}{}",
        render(&plan, &report),
        serde_json::to_string_pretty(&plan).expect("invariant: plans serialize")
    )
}

/// Pods without a place.
fn waiting(snapshot: &Snapshot) -> Vec<String> {
    let (_, report) = karpenter_engine::plan(snapshot);
    let waits = report.pods.iter().filter(|(_, outcome)| !outcome.is_placed());
    waits.map(|(key, _)| key.to_string()).collect()
}

#[test]
fn every_plan_passes_the_audit() {
    let large =
        [Mix::Generic, Mix::Selectors, Mix::Taints, Mix::Mixed].map(|mix| world::pending(300, 60, mix, 7));
    let worlds = worlds().chain(large);
    for (seed, snapshot) in worlds.enumerate() {
        let (plan, report) = karpenter_engine::plan(&snapshot);
        let findings = audit(&snapshot, &plan);
        assert!(findings.is_empty(), "seed {seed}: {findings:#?}\n{}", render(&plan, &report));
    }
}

#[test]
fn every_waiting_pod_gets_an_outcome() {
    for (seed, snapshot) in (0..).zip(worlds()) {
        let (plan, report) = karpenter_engine::plan(&snapshot);
        for pod in snapshot.waiting() {
            assert!(report.pods.contains_key(&pod.key), "seed {seed}: {}", pod.key);
        }
        let placed = report.pods.values().filter(|outcome| outcome.is_placed()).count();
        let launched: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
        assert_eq!(placed, launched + plan.nominations.len(), "seed {seed}");
    }
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    let large = world::pending(300, 60, Mix::Mixed, 3);
    for (seed, snapshot) in (0..).zip(worlds().chain([large])) {
        let expected = planned(&snapshot);
        let mut rng = Rng::with_seed(seed);
        let mut shuffled = snapshot.clone();
        rng.shuffle(&mut shuffled.pending);
        rng.shuffle(&mut shuffled.nodes);
        rng.shuffle(&mut shuffled.pools);
        rng.shuffle(&mut shuffled.daemons);
        for types in shuffled.instance_types.values_mut() {
            let mut list = types.to_vec();
            rng.shuffle(&mut list);
            *types = list.into();
        }
        assert_eq!(planned(&shuffled), expected, "seed {seed}");
    }
}

fn is_target(node: &Node, target: &Target) -> bool {
    match target {
        Target::Node(name) => node.name.as_ref() == Some(name),
        Target::Claim(name) => node.claim.as_ref().is_some_and(|claim| claim.name == *name),
    }
}

#[test]
fn planning_again_where_the_pods_went_places_nothing_more() {
    for seed in seeds() {
        let mut snapshot = small::world(seed);
        let (plan, _) = karpenter_engine::plan(&snapshot);
        let bound: Vec<_> = plan.nominations.iter().map(|nomination| nomination.pod.clone()).collect();
        let mut nodes: Vec<_> = snapshot.nodes.iter().map(|node| (**node).clone()).collect();
        for nomination in &plan.nominations {
            let is_it = |pod: &&Arc<Pod>| pod.key == nomination.pod;
            let everywhere = snapshot.pending.iter().chain(snapshot.nodes.iter().flat_map(|node| &node.pods));
            let pod = everywhere.into_iter().find(is_it).expect("invariant: nominated pods exist");
            for node in &mut nodes {
                node.pods.retain(|pod| pod.key != nomination.pod);
                if is_target(node, &nomination.target) {
                    let name = Some(node.display_name().into());
                    node.pods.push(Arc::new(Pod {
                        node_name: name,
                        unschedulable: false,
                        ..(**pod).clone()
                    }));
                }
            }
        }
        snapshot.nodes = nodes.into_iter().map(Arc::new).collect();
        snapshot.pending.retain(|pod| !bound.contains(&pod.key));
        let (again, _) = karpenter_engine::plan(&snapshot);
        let again: Vec<_> =
            again.nominations.into_iter().filter(|nomination| bound.contains(&nomination.pod)).collect();
        assert!(again.is_empty(), "seed {seed}: {again:?}");
    }
}

/// Returns whether the place of one pod decides nothing about the next: no rules about other pods, no limits.
fn are_independent(snapshot: &Snapshot) -> bool {
    let mut pods = snapshot.nodes.iter().flat_map(|node| &node.pods).chain(&snapshot.pending);
    snapshot.pools.iter().all(|pool| pool.limits.is_none())
        && pods.all(|pod| pod.pod_anti_affinity.required.is_empty() && pod.spread.is_empty())
}

#[test]
fn an_empty_roomy_node_never_leaves_a_pod_without_a_place() {
    let worlds = (0..).map(|seed| (seed, small::world(seed)));
    let independent = worlds.filter(|(_, snapshot)| are_independent(snapshot));
    for (seed, snapshot) in independent.take(seeds().count()) {
        let before = waiting(&snapshot);
        let mut larger = snapshot.clone();
        larger.nodes.push(Arc::new(small::roomy_node(&snapshot)));
        let after = waiting(&larger);
        let worse: Vec<_> = after.iter().filter(|pod| !before.contains(pod)).collect();
        assert!(worse.is_empty(), "seed {seed}: {worse:?}");
    }
}

#[test]
fn planning_changes_nothing_and_gives_the_same_again() {
    for (seed, snapshot) in (0..).zip(worlds()) {
        let before = format!("{snapshot:?}");
        let first = planned(&snapshot);
        assert_eq!(planned(&snapshot), first, "seed {seed}");
        assert_eq!(format!("{snapshot:?}"), before, "seed {seed}");
    }
}

#[test]
fn types_beyond_the_six_hundredth_do_not_count_for_min_values() {
    let mut text = String::new();
    for index in 0..601 {
        let family = if index < 600 { "cheap" } else { "costly" };
        let _ = writeln!(text, "type t{index} cpu=2 mem=4Gi od=0.{:04} label=family={family}", index + 1000);
    }
    text.push_str("pool web types=* require=family:Exists/min=2\npod p cpu=1\n");
    let strict = planned(&karpenter_testkit::snapshot(&text));
    assert!(
        strict.contains("pod default/p waits in web: minValues requirement is not met: `family` has 1 of 2")
    );
    let lowered = planned(&karpenter_testkit::snapshot(&format!("set min-values=best-effort\n{text}")));
    assert!(lowered.contains("family Exists minValues 1"), "{lowered}");
    assert!(lowered.contains("\"karpenter.sh/nodeclaim-min-values-relaxed\": \"true\""));
}

#[test]
fn claims_offer_the_cheapest_six_hundred_types() {
    let snapshot = world::pending(20, 1_600, Mix::Generic, 1);
    let (plan, _) = karpenter_engine::plan(&snapshot);
    assert_eq!(audit(&snapshot, &plan), []);
    let longest = plan.launches.iter().map(|launch| launch.instance_types.len()).max();
    assert_eq!(longest, Some(600), "of 1,600");
}
