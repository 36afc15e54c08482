//! Requests that pools may make of disruption: `Balanced`, a fixed number of nodes, and replacing many by many.

use karpenter_model::Settings;
use karpenter_model::settings::{DisruptionSettings, FeatureGates, ManyToMany};
use karpenter_testkit::objects::apart;
use kube::ResourceExt;
use serde_json::json;

use super::history::{Rules, check, revision};
use super::{drift_all, initialized, pool, settled};
use crate::world::{MINUTE, Process, World, condition};

/// Instance types of the Nodes, in order.
fn types(world: &World) -> Vec<String> {
    let nodes = world.nodes();
    let label =
        |node: &k8s_openapi::api::core::v1::Node| node.labels()["node.kubernetes.io/instance-type"].clone();
    let mut types: Vec<String> = nodes.iter().map(label).collect();
    types.sort();
    types
}

/// A large machine with `company` pods that fill it, and beside it a medium one with a single pod for which a small
/// one would do: a tenth of what the pool costs.
async fn one_tenth_to_save(company: usize, cpu: &str) -> (World, Process) {
    let world = World::new().await;
    let balanced = json!({"consolidateAfter": "30s", "consolidationPolicy": "Balanced"});
    world.pool("default", &pool(&["small", "medium", "large"], &balanced));
    world.set("company", company, cpu);
    let process = world.start();
    settled(&world, company, 1).await;
    world.set("web", 2, "1500m");
    settled(&world, company + 2, 2).await;
    world.scale("web", 1).await;
    (world, process)
}

#[tokio::test(start_paused = true)]
async fn a_balanced_pool_leaves_a_tenth_alone_when_it_takes_a_third_of_the_pods() {
    let (world, process) = one_tenth_to_save(2, "7500m").await;
    let before = world.claim_names();
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(world.claim_names(), before);
    let metrics = &process.metrics.disruption;
    assert!(metrics.consolidation_moves_total.value(["rejected", "default", "Balanced"]) > 0);
    assert_eq!(metrics.consolidation_moves_total.value(["approved", "default", "Balanced"]), 0);
    let node =
        world.nodes().into_iter().find(|node| node.labels()["node.kubernetes.io/instance-type"] == "medium");
    let answer = process.explain(&format!("node/{}", node.unwrap().name_any()));
    assert_eq!((answer.verdict.as_str(), answer.reasons[0].code.as_str()), ("stays", "Score"), "{answer:?}");

    let eager = json!({"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}});
    world.change_pool("default", &eager).await;
    world.until("every saving counts", 20 * MINUTE, || types(&world) == ["large", "small"]).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_balanced_pool_takes_a_tenth_when_it_takes_as_little_of_the_pods() {
    let (world, process) = one_tenth_to_save(10, "1500m").await;
    world
        .until("the medium machine is a small one", 20 * MINUTE, || {
            types(&world) == ["large", "small"] && world.runs(11)
        })
        .await;
    let metrics = &process.metrics.disruption;
    assert!(metrics.consolidation_moves_total.value(["approved", "default", "Balanced"]) > 0);
    assert_eq!(metrics.decisions_total.value(["replace", "underutilized", "single"]), 1);
    assert!(!process.events.messages("ConsolidationApproved").is_empty());
    process.stop().await;
}

fn gated() -> Settings {
    let gates = FeatureGates { static_capacity: true, ..FeatureGates::default() };
    Settings { gates, ..Settings::default() }
}

/// Two drifted machines of a pool of two, which may have `most`.
async fn fixed(most: &str) -> (World, Process) {
    let world = World::new().await;
    let spec =
        json!({"replicas": 2, "limits": {"nodes": most}, "disruption": {"budgets": [{"nodes": "100%"}]}});
    world.pool("fixed", &spec);
    let process = world.start_deciding(gated());
    world.until("two nodes", 10 * MINUTE, || initialized(&world, 2)).await;
    (world, process)
}

#[tokio::test(start_paused = true)]
async fn drift_of_a_fixed_pool_replaces_as_many_at_once_as_its_node_limit_leaves_room_for() {
    let (world, process) = fixed("3").await;
    let (since, old) = (revision(&world), world.claim_names());
    drift_all(&world);
    world
        .until("both machines are new", 60 * MINUTE, || {
            assert!(world.claims().len() <= 3, "the limit is three nodes");
            world.claim_names().is_disjoint(&old) && initialized(&world, 2)
        })
        .await;
    assert_eq!(check(&world, &Rules { since, budget: 2, one_at_a_time: true }), 1, "one after the other");
    assert_eq!(process.metrics.disruption.decisions_total.value(["replace", "drifted", ""]), 2);
    assert_eq!(process.disrupted(["drifted", "fixed", "spot", "", "graceful"]), 2);
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_of_a_fixed_pool_without_headroom_waits_and_says_so() {
    let (world, process) = fixed("2").await;
    let old = world.claim_names();
    drift_all(&world);
    tokio::time::sleep(20 * MINUTE).await;
    assert_eq!(world.claim_names(), old);
    let node = world.nodes().remove(0).name_any();
    let answer = process.explain(&format!("node/{node}"));
    assert_eq!(answer.reasons[0].code, "NoHeadroom", "{answer:?}");
    process.stop().await;
}

/// Two large machines with two pods each, of a pool that may have no more; no two pods of the same set share a machine.
/// Four medium machines of the other pool would do and cost half; nothing less would.
async fn four_would_be_cheaper_than_two(many_to_many: ManyToMany) -> (World, Process) {
    let world = World::new().await;
    world.pool("old", &pool(&["large"], &json!({"consolidateAfter": "30s"})));
    for name in ["left", "right"] {
        world.set_with(name, 2, "3500m", &apart(name));
    }
    let disruption = DisruptionSettings { many_to_many, ..DisruptionSettings::default() };
    let process = world.start_deciding(Settings { disruption, ..Settings::default() });
    settled(&world, 4, 2).await;
    world.change_pool("old", &json!({"limits": {"nodes": "0"}})).await;
    world.pool("new", &pool(&["medium"], &json!({"consolidateAfter": "30s"})));
    (world, process)
}

#[tokio::test(start_paused = true)]
async fn many_machines_are_replaced_by_many_once_that_is_asked_for() {
    let enabled = ManyToMany { enabled: true, ..ManyToMany::default() };
    let (world, process) = four_would_be_cheaper_than_two(enabled).await;
    let since = revision(&world);
    world
        .until("the pods run on medium machines", 20 * MINUTE, || {
            types(&world) == ["medium"; 4] && world.runs(4)
        })
        .await;
    assert_eq!(check(&world, &Rules { since, budget: 2, one_at_a_time: true }), 2, "both at once");
    assert_eq!(process.metrics.disruption.decisions_total.value(["replace", "underutilized", "many"]), 1);
    world.one_machine_per_claim().await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_machines_are_not_replaced_by_many_unless_asked_for_or_when_it_saves_too_little() {
    let picky = ManyToMany { enabled: true, min_saving_percent: 60, ..ManyToMany::default() };
    for settings in [ManyToMany::default(), picky] {
        let (world, process) = four_would_be_cheaper_than_two(settings).await;
        tokio::time::sleep(15 * MINUTE).await;
        assert_eq!(types(&world), ["large"; 2]);
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn drift_of_a_fixed_pool_at_its_limit_terminates_first_one_after_the_other() {
    let world = World::new().await;
    let spec = json!({"replicas": 3, "limits": {"nodes": "3"}, "disruption": {"budgets": [{"nodes": "1"}]}});
    world.pool("fixed", &spec);
    let gates =
        FeatureGates { static_capacity: true, terminate_first_drift: true, ..FeatureGates::default() };
    let process = world.start_deciding(Settings { gates, ..Settings::default() });
    world.until("three nodes", 10 * MINUTE, || initialized(&world, 3)).await;
    let old = world.claim_names();
    drift_all(&world);
    world
        .until("all machines are new", 120 * MINUTE, || {
            let up = world.claims().iter().filter(|claim| condition(claim, "Initialized") == "True").count();
            assert!(world.claims().len() <= 3, "the limit is three nodes");
            assert!(up >= 2, "only one is missing at a time");
            world.claim_names().is_disjoint(&old) && initialized(&world, 3)
        })
        .await;
    let metrics = &process.metrics;
    // A replacement may be staged while an instance is gone and its place is not taken yet.
    let decisions = |decision| metrics.disruption.decisions_total.value([decision, "drifted", ""]);
    assert!(decisions("terminate-first") > 0);
    assert_eq!(decisions("terminate-first") + decisions("replace"), 3);
    world.one_machine_per_claim().await;
    process.stop().await;
}
