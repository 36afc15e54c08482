//! An EC2NodeClass that a newer release has stored and this one cannot decode.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_cloud::Provider;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::workload::{claims, one_per_node, pool_of, pool_with, runs};
use crate::world::World;

/// A value that no release knows yet.
fn unknown() -> Value {
    json!({"spec": {"instanceStorePolicy": "RAID9"}})
}

/// Merges `change` into a class, whatever its type would say of it.
async fn change(world: &World, class: &str, change: &Value) {
    let resource = ApiResource::erase::<EC2NodeClass>(&());
    let api: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource);
    api.patch(class, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

/// The claims of a pool, by name.
fn of_pool(world: &World, pool: &str) -> BTreeSet<String> {
    let is_of = |labels: &std::collections::BTreeMap<String, String>| labels["karpenter.sh/nodepool"] == pool;
    claims(world).iter().filter(|claim| is_of(claim.labels())).map(ResourceExt::name_any).collect()
}

/// A cluster whose definitions take anything, with a pod on a node of each of two classes; the pools are called as they are.
async fn two_classes() -> World {
    let world = World::defined(|definition| {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    })
    .await;
    for class in ["default", "other"] {
        world.class(class, &json!({}));
        world.until_ready(class).await;
    }
    pool_of(&world, "default", "m5.large");
    let of_class = json!({"spec": {"nodeClassRef": {"name": "other"}}});
    let eager = json!({"budgets": [{"nodes": "100%"}]});
    pool_with(&world, "other", &[], &json!({"template": of_class, "disruption": eager}));
    for pool in ["default", "other"] {
        one_per_node(&world, pool, 1, pool);
    }
    world.until("all pods run", async || runs(&world) && claims(&world).len() == 2).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_be_decoded_holds_up_no_other_and_keeps_its_machines() {
    let world = two_classes().await;
    let (kept, before) = (of_pool(&world, "default"), of_pool(&world, "other"));
    change(&world, "default", &unknown()).await;

    // Edits of other classes are seen, and their pools launch and replace.
    world.class_tag("other", "team", "b").await;
    world
        .until("the node of the other class is replaced", async || {
            let now = of_pool(&world, "other");
            now.len() == 1 && now.is_disjoint(&before) && runs(&world)
        })
        .await;
    one_per_node(&world, "more", 1, "other");
    world.until("another pod runs", async || runs(&world) && of_pool(&world, "other").len() == 2).await;

    tokio::time::sleep(Duration::from_hours(3)).await;
    assert_eq!(of_pool(&world, "default"), kept);
    assert_eq!(world.account.live_instances().len(), 3);

    // Once it can be decoded, what was changed meanwhile counts.
    change(&world, "default", &json!({"spec": {"instanceStorePolicy": null, "tags": {"team": "b"}}})).await;
    world
        .until("the node of the class is replaced", async || {
            let now = of_pool(&world, "default");
            now.len() == 1 && now.is_disjoint(&kept) && runs(&world)
        })
        .await;
}

/// The text is what the log says of the pool, once per problem.
#[tokio::test(start_paused = true)]
async fn a_pool_says_that_its_class_cannot_be_decoded_and_not_that_none_was_read() {
    let world = two_classes().await;
    change(&world, "default", &unknown()).await;
    one_per_node(&world, "waiting", 1, "default");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(of_pool(&world, "default").len(), 1, "nothing is launched for it");
    for pool in world.view.pools() {
        let name = pool.model.name.to_string();
        let problem = world.aws.instance_types(&pool.model).await.err().map(|error| error.to_string());
        match problem {
            Some(text) => assert!(name == "default" && text.contains("cannot decode"), "{name}: {text}"),
            None => assert_eq!(name, "other"),
        }
    }
}
