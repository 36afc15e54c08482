//! Classes that see the same types hold them once, and what belongs to a class goes with it.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::KubeletConfiguration;
use karpenter_aws::catalogue::instance_types::List;
use karpenter_aws::market::prices::Source;
use karpenter_aws::market::unavailable::{Cause, Subject};
use karpenter_cloud::Provider;
use karpenter_model::{InstanceType, Pool};

use crate::world::{World, pool};

/// The class of the world under another name.
fn copy(world: &World, name: &str) -> EC2NodeClass {
    let mut class = world.class.clone();
    class.metadata.name = Some(name.to_owned());
    class
}

fn pool_of(class: &str) -> Pool {
    let mut pool = pool();
    pool.template.node_class.name = class.into();
    pool
}

async fn list(world: &World, class: &str) -> List {
    world.provider.instance_types(&pool_of(class)).await.expect("lists")
}

#[tokio::test(start_paused = true)]
async fn classes_of_the_same_content_share_one_list_also_while_something_is_out() {
    let world = World::new().await;
    let names: Vec<String> = (0..50).map(|number| format!("class-{number}")).collect();
    world.provider.classes.replace_all(names.iter().map(|name| copy(&world, name)));
    let first = list(&world, &names[0]).await;
    for name in &names {
        assert!(Arc::ptr_eq(&first, &list(&world, name).await), "{name}");
    }
    let out = karpenter_cloud::OfferingKey {
        instance_type: "m5.large".into(),
        zone: "us-west-2a".into(),
        capacity_type: karpenter_model::CapacityType::Spot,
    };
    world.provider.unavailable.mark(Subject::Offering(out), Cause::Lacking);
    let short = list(&world, &names[0]).await;
    assert!(!Arc::ptr_eq(&first, &short));
    for name in &names {
        assert!(Arc::ptr_eq(&short, &list(&world, name).await), "{name}");
    }
    let copied = first.iter().zip(short.iter()).filter(|(one, other)| !Arc::ptr_eq(one, other));
    assert_eq!(copied.map(|(one, _)| one.name.as_str()).collect::<Vec<_>>(), ["m5.large"]);
}

#[tokio::test(start_paused = true)]
async fn what_types_do_not_depend_on_does_not_part_classes() {
    let world = World::new().await;
    let mut other = copy(&world, "other");
    other.spec.user_data = Some("#!/bin/sh".to_owned());
    other.spec.tags = Some([("team".to_owned(), "web".to_owned())].into());
    world.provider.classes.replace_all([world.class.clone(), other]);
    assert!(Arc::ptr_eq(&list(&world, "default").await, &list(&world, "other").await));
}

#[tokio::test(start_paused = true)]
async fn a_class_adds_only_what_differs() {
    let world = World::new().await;
    let mut few_pods = copy(&world, "few-pods");
    few_pods.spec.kubelet = Some(KubeletConfiguration { max_pods: Some(8), ..Default::default() }.into());
    world.provider.classes.replace_all([world.class.clone(), few_pods]);
    let (usual, few) = (list(&world, "default").await, list(&world, "few-pods").await);
    for (one, other) in usual.iter().zip(few.iter()) {
        assert_ne!(one, other, "another number of pods");
        let labels =
            |one: &InstanceType| std::ptr::from_ref(one.requirements.iter().next().unwrap().values());
        assert_eq!(labels(one), labels(other), "{}: labels are the same and held once", one.name);
    }
}

#[tokio::test(start_paused = true)]
async fn types_that_a_refresh_does_not_change_stay_the_same_objects() {
    let world = World::new().await;
    let before = list(&world, "default").await;
    world.account.set_on_demand_price("m5.large", 100_000_000);
    world.provider.prices.refresh_on_demand().await.expect("prices are read");
    let price = world.provider.prices.book().on_demand("m5.large");
    assert_eq!(price.map(|known| known.source), Some(Source::Aws));
    let after = list(&world, "default").await;
    let changed = before.iter().zip(after.iter()).filter(|(one, other)| !Arc::ptr_eq(one, other));
    assert_eq!(changed.map(|(one, _)| one.name.as_str()).collect::<Vec<_>>(), ["m5.large"]);
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_a_class_goes_with_it_also_when_it_is_asked_for_in_that_moment() {
    let world = World::new().await;
    let held = |list: &List| -> Vec<Weak<InstanceType>> { list.iter().map(Arc::downgrade).collect() };
    let alive = |held: &[Weak<InstanceType>]| held.iter().filter(|one| one.strong_count() > 0).count();

    let deleted = held(&list(&world, "default").await);
    assert_eq!(alive(&deleted), deleted.len());
    world.provider.classes.remove("default", None);
    world.provider.types.forget_gone();
    assert_eq!(alive(&deleted), 0);

    let late = Arc::new(world.class.clone());
    let late = held(&world.provider.types.list(&late).expect("lists"));
    assert_eq!(alive(&late), 0, "a caller still had the class object");

    world.provider.classes.put(world.class.clone());
    let unlisted = held(&list(&world, "default").await);
    world.provider.classes.keep_listed(&BTreeSet::new());
    world.provider.types.forget_gone();
    assert_eq!(alive(&unlisted), 0, "missed by the watch");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_nobody_asks_for_does_not_keep_what_was_known_before() {
    let world = World::new().await;
    world.provider.classes.replace_all([world.class.clone(), copy(&world, "idle")]);
    let before: Vec<_> = list(&world, "idle").await.iter().map(Arc::downgrade).collect();
    list(&world, "default").await;
    for one in world.provider.catalogue.contents().types.keys() {
        world.account.set_on_demand_price(one.as_str(), 7_000_000);
    }
    world.provider.prices.refresh_on_demand().await.expect("prices are read");
    list(&world, "default").await;
    let left = before.iter().filter(|one| one.strong_count() > 0).count();
    assert_eq!(left, 0, "of {}", before.len());
}

#[tokio::test(start_paused = true)]
async fn a_version_of_a_class_that_changes_no_type_takes_the_place_of_the_one_before() {
    let world = World::new().await;
    let version = |tag: &str| {
        let mut class = world.class.clone();
        class.spec.tags = Some([("team".to_owned(), tag.to_owned())].into());
        Arc::new(class)
    };
    let (first, second) = (version("web"), version("shop"));
    let types = world.provider.types.list(&first).expect("lists");
    assert!(Arc::ptr_eq(&types, &world.provider.types.list(&second).expect("lists")));
    assert_eq!(
        (Arc::strong_count(&first), Arc::strong_count(&second)),
        (1, 2),
        "compared by its address from now on"
    );
}
