//! Pools and classes of the same content hold what they can launch once, and it goes with them, also while plans are
//! made for them.

use std::sync::{Arc, Weak};

use karpenter_api::{EC2NodeClass, NodePool};
use karpenter_cloud::overlay::List;
use karpenter_model::InstanceType;
use karpenter_testkit::objects::pod;
use serde_json::json;

use crate::workload;
use crate::world::World;

/// Lists as plans see them, one per pool.
fn lists(world: &World) -> Vec<List> {
    let snapshot = world.view.snapshot(world.now());
    snapshot.map(|snapshot| snapshot.instance_types.into_values().collect()).unwrap_or_default()
}

fn make(world: &World, name: &str) {
    world.class(name, &json!({}));
    let of_class = json!({"template": {"spec": {"nodeClassRef": {"name": name}}}});
    workload::pool_with(world, name, &[], &of_class);
}

async fn delete(world: &World, name: &str) {
    world.delete::<NodePool>(name).await;
    world.delete::<EC2NodeClass>(name).await;
}

#[tokio::test(start_paused = true)]
async fn twenty_pools_and_classes_of_one_content_hold_one_list_that_goes_with_the_last_of_them() {
    let world = World::new().await;
    // Such a pod fits nowhere, so the plan is about all pools and nothing comes of it.
    let nowhere = json!({"spec": {"nodeSelector": {"example.com/place": "nowhere"}}});
    let wait_in_vain = |name: &str| world.load(&pod(name, "1", &nowhere));
    wait_in_vain("nowhere");
    let names: Vec<String> = (0..20).map(|number| format!("same-{number}")).collect();
    for name in &names {
        make(&world, name);
    }
    world.until("all pools have types", async || lists(&world).len() == names.len()).await;
    world
        .until("they have the same", async || {
            let lists = lists(&world);
            lists.iter().all(|list| Arc::ptr_eq(list, &lists[0]))
        })
        .await;
    let passes = || world.metrics.scheduler.scheduling_duration_seconds.count(["provisioner"]);
    for name in ["one-more", "and-another"] {
        let before = passes();
        wait_in_vain(name);
        world.until("a plan is made", async || passes() > before).await;
    }

    let held: Vec<Weak<InstanceType>> = lists(&world)[0].iter().map(Arc::downgrade).collect();
    for name in &names[1..] {
        delete(&world, name).await;
    }
    world.until("one pool is left", async || lists(&world).len() == 1).await;
    let alive = || held.iter().filter(|one| one.strong_count() > 0).count();
    assert_eq!(alive(), held.len(), "it is still used");
    delete(&world, &names[0]).await;
    world.until("the class is gone", async || world.get(&names[0]).await.is_none()).await;
    // The last decision about machines holds what it was made from until the next.
    world.until("nothing is held any more", async || alive() == 0).await;
    assert_eq!(lists(&world).len(), 0);
}
