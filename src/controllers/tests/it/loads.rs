//! Many pods and nodes at once, and how long they take in virtual time. Sizes are a tenth of those of the reference's
//! scale suite, or less: what is asserted does not depend on them.

use std::cell::Cell;
use std::time::Duration;

use karpenter_model::Settings;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_testkit::objects::{self, merge, one_of, with};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, Process, World};

/// The spec of a pool of on-demand machines of these types, changed by `more`.
fn pool(types: &[&str], more: &Value) -> Value {
    let mut spec = json!({
        "template": {"spec": {"requirements": [
            one_of("karpenter.sh/capacity-type", &["on-demand"]),
            one_of("node.kubernetes.io/instance-type", types),
        ]}},
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "70%"}]},
    });
    merge(&mut spec, more);
    spec
}

/// Pods of this set in this pool, one per node if `apart`.
fn workload(world: &World, name: &str, pool: &str, replicas: usize, cpu: &str, apart: bool) {
    let spec = json!({"nodeSelector": {"karpenter.sh/nodepool": pool}});
    let more = if apart { objects::apart(name) } else { json!({}) };
    world.set_with(name, replicas, cpu, &with(spec, &more));
}

/// Names of the claims of a pool.
fn claims_of(world: &World, pool: &str) -> Vec<String> {
    let claims = world.claims().into_iter();
    claims.filter(|one| one.labels()["karpenter.sh/nodepool"] == pool).map(|one| one.name_any()).collect()
}

/// Waits until this number of pods run, and no others exist.
async fn run(world: &World, pods: usize, limit: Duration) {
    world.until(&format!("{pods} pods run"), limit, || world.runs(pods)).await;
}

async fn nodes(world: &World, count: usize, limit: Duration) {
    let there = || world.nodes().len() == count && world.account.machines().len() == count;
    world.until(&format!("{count} nodes"), limit, there).await;
}

async fn disrupts(world: &World, pool: &str) {
    let now = json!({"disruption": {"consolidateAfter": "0s"}});
    world.change_pool(pool, &now).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_come_for_many_pods_whatever_share_each_has_and_with_values_to_keep() {
    // Pods, how much CPU each wants, whether it wants a node to itself, and the nodes that makes.
    for (pods, cpu, apart, expected) in [(30, "1", true, 30), (220, "10m", false, 2)] {
        for min_values in [None, Some(2)] {
            let world = World::new().await;
            let types = ["small", "medium"];
            let mut spec = pool(&types, &json!({}));
            if let Some(count) = min_values {
                spec["template"]["spec"]["requirements"][1]["minValues"] = json!(count);
            }
            world.pool("web", &spec);
            workload(&world, "web", "web", pods, cpu, apart);
            let strict = Settings { min_values_policy: MinValuesPolicy::Strict, ..Settings::default() };
            let process = world.start_deciding(strict);
            run(&world, pods, 30 * MINUTE).await;
            assert_eq!(world.nodes().len(), expected, "{pods} pods, {min_values:?}");
            for claim in world.claims() {
                let requirements = &claim.spec.requirements;
                let types = requirements.iter().find(|one| one.key == "node.kubernetes.io/instance-type");
                assert_eq!(types.unwrap().min_values, min_values, "{claim:?}");
                assert!(types.unwrap().values().len() > usize::from(min_values.is_some()));
            }
            process.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn four_ways_of_disruption_at_once_are_all_done_within_the_hour() {
    let world = World::new().await;
    for name in ["consolidated", "emptied", "drifting"] {
        world.pool(name, &pool(&["medium"], &json!({})));
        workload(&world, name, name, 6, "1500m", false);
    }
    world.pool("expiring", &pool(&["medium"], &json!({"template": {"spec": {"expireAfter": "30m"}}})));
    workload(&world, "expiring", "expiring", 6, "1500m", false);
    let process = world.start();
    run(&world, 24, 30 * MINUTE).await;
    nodes(&world, 12, 5 * MINUTE).await;
    let old = [claims_of(&world, "drifting"), claims_of(&world, "expiring")].concat();
    world.scale("consolidated", 2).await;
    world.scale("emptied", 0).await;
    for name in ["consolidated", "emptied"] {
        disrupts(&world, name).await;
    }
    let labelled = json!({"template": {"metadata": {"labels": {"team": "a"}}}});
    world.change_pool("drifting", &labelled).await;
    world
        .until("all four are done", 60 * MINUTE, || {
            world.runs(14)
                && claims_of(&world, "consolidated").len() == 1
                && claims_of(&world, "emptied").is_empty()
                && claims_of(&world, "drifting").len() == 3
                && claims_of(&world, "expiring").len() == 3
                && world.claims().iter().all(|claim| !old.contains(&claim.name_any()))
        })
        .await;
    process.stop().await;
}

/// So many nodes of one pool with four pods each.
async fn full(nodes: usize, more: &Value) -> (World, Process) {
    let world = World::new().await;
    world.pool("web", &pool(&["medium"], more));
    workload(&world, "web", "web", 4 * nodes, "900m", false);
    let process = world.start();
    run(&world, 4 * nodes, 30 * MINUTE).await;
    assert_eq!(world.nodes().len(), nodes);
    (world, process)
}

#[tokio::test(start_paused = true)]
async fn many_nodes_go_when_their_pods_do() {
    for policy in ["WhenEmpty", "WhenEmptyOrUnderutilized"] {
        let (world, process) = full(16, &json!({"disruption": {"consolidationPolicy": policy}})).await;
        world.scale("web", 0).await;
        disrupts(&world, "web").await;
        nodes(&world, 0, 30 * MINUTE).await;
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_nodes_become_few_when_most_of_their_pods_go() {
    let (world, process) = full(15, &json!({})).await;
    world.scale("web", 12).await;
    disrupts(&world, "web").await;
    nodes(&world, 3, 30 * MINUTE).await;
    run(&world, 12, 5 * MINUTE).await;
    process.stop().await;
}

/// Replaces this number of large machines by small ones under a budget; returns the most nodes there were at once.
async fn replaced_one_by_one(total: usize, budget: &str) -> usize {
    let world = World::new().await;
    let budgets = json!({"disruption": {"budgets": [{"nodes": budget}]}});
    world.pool("web", &pool(&["small", "large"], &budgets));
    workload(&world, "big", "web", total, "12", true);
    let process = world.start();
    run(&world, total, 30 * MINUTE).await;
    workload(&world, "web", "web", total, "1", true);
    run(&world, 2 * total, 30 * MINUTE).await;
    assert_eq!(world.nodes().len(), total);
    world.scale("big", 0).await;
    run(&world, total, 5 * MINUTE).await;
    disrupts(&world, "web").await;
    let most = Cell::new(0);
    world
        .until("all of them are small", 60 * MINUTE, || {
            let nodes = world.nodes();
            most.set(most.get().max(nodes.len()));
            let small = |node: &k8s_openapi::api::core::v1::Node| {
                node.labels().get("node.kubernetes.io/instance-type").is_some_and(|name| name == "small")
            };
            nodes.len() == total && nodes.iter().all(small)
        })
        .await;
    run(&world, total, 5 * MINUTE).await;
    process.stop().await;
    most.get()
}

#[tokio::test(start_paused = true)]
async fn machines_that_are_replaced_one_by_one_are_never_more_than_the_budget_adds() {
    assert!(replaced_one_by_one(5, "3").await <= 8);
    assert!(replaced_one_by_one(10, "70%").await <= 17);
}

/// A hundred pods: alike, or of five kinds that are spread, keep apart and keep together.
fn hundred(world: &World, complex: bool) {
    if !complex {
        workload(world, "web", "web", 100, "500m", false);
        return;
    }
    let selector = |name: &str| json!({"matchLabels": {"app": name}});
    let spread = |name: &str, key: &str| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector(name),
        }]})
    };
    let affinity = |kind: &str, name: &str, key: &str| {
        json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": key, "labelSelector": selector(name)},
        ]}}})
    };
    for (name, more) in [
        ("plain", json!({})),
        ("zonal", spread("zonal", "topology.kubernetes.io/zone")),
        ("hosts", spread("hosts", "kubernetes.io/hostname")),
        ("apart", affinity("podAntiAffinity", "apart", "kubernetes.io/hostname")),
        ("close", affinity("podAffinity", "close", "topology.kubernetes.io/zone")),
    ] {
        let spec = json!({"nodeSelector": {"karpenter.sh/nodepool": "web"}});
        world.set_with(name, 20, "500m", &with(spec, &more));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_pods_run_soon_and_again_after_all_of_their_nodes_have_drifted() {
    for complex in [false, true] {
        let world = World::new().await;
        world.pool(
            "web",
            &pool(&["medium", "large"], &json!({"disruption": {"budgets": [{"nodes": "100%"}]}})),
        );
        hundred(&world, complex);
        // Drift of most nodes right after a start would wait to be confirmed.
        let mut settings = Settings::default();
        settings.disruption.brakes.mass_drift_percent = 100;
        let process = world.start_deciding(settings);
        run(&world, 100, 5 * MINUTE).await;
        let old = claims_of(&world, "web");
        let labelled = json!({"template": {"metadata": {"labels": {"team": "a"}}}});
        world.change_pool("web", &labelled).await;
        world
            .until(&format!("every node is another one, complex: {complex}"), 10 * MINUTE, || {
                world.runs(100)
                    && world.nodes().len() == world.claims().len()
                    && claims_of(&world, "web").iter().all(|name| !old.contains(name))
            })
            .await;
        process.stop().await;
    }
}
