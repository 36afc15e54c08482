//! Pools at their limits replace their machines: what goes makes room for what comes, in the plan and at its creation.

use serde_json::{Value, json};

use super::{all_new, drift_all, drift_only, initialized, pool, settled};
use crate::world::{MINUTE, World};

/// A pool of machines of these types that is at its limits with `nodes` of them, each with a pod of its own.
async fn full(types: &[&str], disruption: &Value, nodes: usize) -> World {
    let world = World::new().await;
    let mut spec = pool(types, disruption);
    spec["limits"] = json!({"nodes": nodes, "cpu": 2 * nodes});
    world.pool("default", &spec);
    world.set("web", nodes, "1500m");
    world
}

#[tokio::test(start_paused = true)]
async fn drifted_machines_of_a_pool_at_its_limits_are_replaced() {
    for budget in ["1", "100%"] {
        let world = full(&["small"], &drift_only(budget), 3).await;
        let process = world.start();
        settled(&world, 3, 3).await;
        let old = world.claim_names();
        drift_all(&world);
        world.until("all machines are new", 30 * MINUTE, || all_new(&world, &old, 3)).await;
        let metrics = &process.metrics;
        assert_eq!(metrics.nodeclaims.created_total.value(["drifted", "default", "false"]), 3, "{budget}");
        assert_eq!(metrics.disruption.decisions_total.value(["replace", "drifted", ""]), 3, "{budget}");
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_only_machine_of_a_pool_for_one_is_replaced_by_a_cheaper_one() {
    let world = World::new().await;
    let mut spec = pool(&["large"], &json!({"consolidateAfter": "30s"}));
    spec["limits"] = json!({"nodes": 1});
    world.pool("default", &spec);
    world.set("web", 1, "1500m");
    let process = world.start();
    settled(&world, 1, 1).await;
    let old = world.claim_names();
    world.change_pool("default", &pool(&["small", "large"], &json!({"consolidateAfter": "30s"}))).await;
    world.until("the pod runs on another machine", 10 * MINUTE, || all_new(&world, &old, 1)).await;
    assert_eq!(process.created(["underutilized", "default", "false"]), 1);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_holds_for_pods_that_wait_while_machines_are_replaced() {
    let world = full(&["small"], &drift_only("100%"), 3).await;
    let process = world.start();
    settled(&world, 3, 3).await;
    let old = world.claim_names();
    world.set("more", 1, "1500m");
    drift_all(&world);
    let replaced = || world.claim_names().is_disjoint(&old) && initialized(&world, 3);
    world.until("all machines are new", 30 * MINUTE, replaced).await;
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(world.claims().len(), 3, "the fourth pod waits");
    process.stop().await;
}
