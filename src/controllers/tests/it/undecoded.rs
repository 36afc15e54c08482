//! Objects that a newer release has stored and this one cannot decode.

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodePool;
use karpenter_kube_sim::apiserver::listing::Listed;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{MINUTE, World};

/// A cluster whose definitions of our kinds take anything.
async fn lenient() -> World {
    World::defined(|definition| {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    })
    .await
}

fn sometimes() -> Value {
    json!({"disruption": {"consolidationPolicy": "Sometimes"}})
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_cannot_be_decoded_keeps_no_other_from_launching() {
    let world = lenient().await;
    world.pool("bad", &sometimes());
    world.pool("good", &json!({}));
    world.pod("a", "1");
    let process = world.start();
    world.all_running().await;
    let pools = world
        .claims()
        .into_iter()
        .map(|claim| claim.metadata.labels.unwrap()["karpenter.sh/nodepool"].clone());
    assert_eq!(pools.collect::<Vec<_>>(), ["good"]);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_is_seen_after_a_pool_that_cannot_be_decoded_was_added() {
    let world = lenient().await;
    world.pool("good", &json!({"limits": {"cpu": "0"}}));
    let process = world.start();
    tokio::time::sleep(MINUTE).await;
    world.pool("bad", &sometimes());
    world.pod("a", "1");
    tokio::time::sleep(2 * MINUTE).await;
    assert!(world.claims().is_empty());
    world.change_pool("good", &json!({"limits": {"cpu": "100"}})).await;
    world.all_running().await;
    process.stop().await;
}

/// Merges `change` into an object of a kind, whatever its type would say of it.
async fn change<K: Listed>(world: &World, name: &str, change: &Value) {
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource);
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

/// Machines that run, by id.
fn machines(world: &World) -> Vec<String> {
    let machines = world.account.machines();
    machines.iter().filter(|one| one.state.exists()).map(|one| one.provider_id.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_machine_of_a_claim_that_cannot_be_decoded_is_left_alone() {
    let world = lenient().await;
    world.pool("default", &json!({"template": {"spec": {"expireAfter": "1h"}}}));
    world.pod("a", "1");
    let process = world.start();
    world.all_running().await;
    let (before, name) = (machines(&world), world.claims().remove(0).metadata.name.unwrap());
    let near = json!([{"key": "a", "operator": "Near", "values": ["b"]}]);
    change::<karpenter_api::NodeClaim>(&world, &name, &json!({"spec": {"requirements": near}})).await;

    // Causes that would end it otherwise: nothing on it, another template, its age, and the collection of orphans.
    world.delete::<Pod>("a").await;
    world.change_pool("default", &json!({"template": {"metadata": {"labels": {"team": "b"}}}})).await;
    tokio::time::sleep(180 * MINUTE).await;
    assert_eq!(machines(&world), before);
    assert_eq!(world.nodes().len(), 1);
    process.stop().await;

    // A process that never saw it whole does not take the machine for an orphan either.
    let process = world.start();
    tokio::time::sleep(60 * MINUTE).await;
    assert_eq!(machines(&world), before);

    // Once it can be decoded it goes the way of every claim.
    change::<karpenter_api::NodeClaim>(&world, &name, &json!({"spec": {"requirements": []}})).await;
    world.until("the claim has expired", 20 * MINUTE, || machines(&world).is_empty()).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_becomes_undecodable_keeps_its_machines() {
    let world = lenient().await;
    world.pool("default", &json!({}));
    world.pod("a", "1");
    let process = world.start();
    world.all_running().await;
    let before = machines(&world);
    change::<NodePool>(&world, "default", &json!({"spec": sometimes()})).await;
    world.delete::<Pod>("a").await;
    tokio::time::sleep(60 * MINUTE).await;
    assert_eq!(machines(&world), before);
    let pools: Api<DynamicObject> = Api::all_with(world.client.clone(), &ApiResource::erase::<NodePool>(&()));
    let pools = pools.list(&ListParams::default()).await.unwrap();
    assert_eq!(pools.items.len(), 1);
    process.stop().await;
}
