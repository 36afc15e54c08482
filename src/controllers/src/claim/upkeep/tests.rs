//! One pass judges all conditions of a claim, and only by its own pool.

use karpenter_api::{NodeClaim, NodePool};
use karpenter_cloud::memory::NODE_CLASS;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::*;
use crate::fixture::World;

fn pool(name: &str, hash: &str, consolidate_after: &str) -> Value {
    let class = json!({"group": NODE_CLASS.group, "kind": NODE_CLASS.kind, "name": "default"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {
            "name": name,
            "annotations": {"karpenter.sh/nodepool-hash": hash, "karpenter.sh/nodepool-hash-version": "v3"},
        },
        "spec": {
            "template": {"spec": {"nodeClassRef": class, "requirements": []}},
            "disruption": {"consolidateAfter": consolidate_after},
        },
    })
}

fn claim(name: &str, pool: &str, holding: &[&str]) -> Value {
    let condition = |kind: &&str| {
        json!({
            "type": kind, "status": "True", "reason": kind, "message": "",
            "lastTransitionTime": "1970-01-01T00:00:00Z", "observedGeneration": 1,
        })
    };
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "labels": {"karpenter.sh/nodepool": pool},
            "annotations": {"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v3"},
        },
        "spec": {
            "nodeClassRef": {"group": NODE_CLASS.group, "kind": NODE_CLASS.kind, "name": "default"},
            "requirements": [],
        },
        "status": {
            "providerID": format!("memory:///{name}"),
            "conditions": holding.iter().map(condition).collect::<Vec<_>>(),
        },
    })
}

const RUNNING: [&str; 4] = ["Launched", "Registered", "Initialized", "Ready"];

async fn world(pools: &[Value], claims: &[Value]) -> World {
    let world = World::with_definitions();
    for object in pools.iter().chain(claims) {
        world.server.load(object).unwrap();
    }
    let stored: kube::Api<NodeClaim> = world.context.all();
    for claim in claims {
        // The status is a resource of its own.
        let (name, status) =
            (claim["metadata"]["name"].as_str().unwrap(), &json!({"status": claim["status"]}));
        stored.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
    for pool in world.list::<NodePool>().await {
        world.context.view.put_pool(pool);
    }
    for claim in world.list::<NodeClaim>().await {
        world.context.view.put_claim(claim);
    }
    world
}

/// Runs one pass and returns the condition types of the claim that hold afterwards, besides those it had.
async fn judged(world: &World, name: &str) -> Vec<String> {
    let (evictions, _work) = Evictions::new();
    Upkeep::new(evictions).pass(&world.context, &name.into()).await.unwrap();
    let claims: kube::Api<NodeClaim> = world.context.all();
    let status = claims.get(name).await.unwrap().status.unwrap();
    let held = status.conditions.into_iter().filter(|condition| condition.status.as_str() == "True");
    let mut kinds: Vec<String> =
        held.map(|condition| condition.kind).filter(|kind| !RUNNING.contains(&kind.as_str())).collect();
    kinds.sort();
    kinds
}

#[tokio::test(start_paused = true)]
async fn drifted_and_consolidatable_come_and_go_in_one_pass() {
    let world = world(&[pool("web", "2", "0s")], &[claim("c", "web", &RUNNING)]).await;
    assert_eq!(judged(&world, "c").await, ["Consolidatable", "Drifted"]);
    let pools: kube::Api<NodePool> = world.context.all();
    let change = json!({
        "metadata": {"annotations": {"karpenter.sh/nodepool-hash": "1"}},
        "spec": {"disruption": {"consolidateAfter": "Never"}},
    });
    let changed = pools.patch("web", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    world.context.view.put_pool(changed);
    assert_eq!(judged(&world, "c").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_judged_by_its_own_pool_and_left_alone_without_one() {
    let pools = [pool("changed", "2", "Never"), pool("same", "1", "Never")];
    let held = [RUNNING.as_slice(), &["Drifted"]].concat();
    let claims =
        [claim("a", "changed", &RUNNING), claim("b", "same", &RUNNING), claim("orphan", "gone", &held)];
    let world = world(&pools, &claims).await;
    assert_eq!(judged(&world, "a").await, ["Drifted"]);
    assert_eq!(judged(&world, "b").await, [""; 0]);
    assert_eq!(judged(&world, "orphan").await, ["Drifted"], "what it says stays");
}
