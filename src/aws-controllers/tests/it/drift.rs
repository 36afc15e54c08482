//! Drift of instances of a node class, and the instances that take their place.

use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_aws_api::ec2::{Architecture, Image, ImageQuery, ImageState};
use karpenter_aws_api::iam::InstanceProfileSpec;
use karpenter_aws_api::id::ImageId;
use karpenter_model::names::annotation;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::workload;
use crate::world::World;

/// A pod that runs on an instance of a class like this.
async fn running(world: &World, class: &Value) {
    world.class("default", class);
    workload::run(world, &["on-demand"]).await;
}

/// Waits until another instance runs the pod; the reason its predecessor gave for going.
async fn replaced(world: &World, what: &str) -> String {
    let old = workload::claims(world)[0].name_any();
    let reason = std::cell::RefCell::new(String::new());
    world
        .until(&format!("replaced: {what}"), async || {
            let claims = workload::claims(world);
            let conditions = claims.iter().filter(|claim| claim.name_any() == old);
            for condition in conditions.flat_map(|claim| claim.status.iter().flat_map(|one| &one.conditions))
            {
                if condition.kind == "Drifted" {
                    reason.replace(condition.reason.clone());
                }
            }
            claims.len() == 1 && claims[0].name_any() != old && workload::runs(world)
        })
        .await;
    assert_eq!(world.account.live_instances().len(), 1, "{what}");
    reason.into_inner()
}

/// An image that `amd64` boots.
async fn image(world: &World) -> Image {
    let images = world.account.clients().ec2.describe_images(&ImageQuery::default()).await.unwrap().items;
    images.into_iter().find(|image| image.architecture == Architecture::X86_64).unwrap()
}

async fn put_image(world: &World, id: &str, deprecated: bool) {
    let start = world.now();
    world.account.put_image(Image {
        id: id.into(),
        state: ImageState::Available,
        created_at: start,
        deprecated_at: deprecated.then_some(start),
        tags: [("team".to_owned(), "web".to_owned())].into(),
        ..image(world).await
    });
}

#[tokio::test(start_paused = true)]
async fn every_field_that_running_instances_cannot_follow_replaces_them() {
    let root =
        |size: &str| json!([{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size, "volumeType": "gp3"}}]);
    let by_tags = json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"tags": {"team": "web"}}]});
    for (what, before, change) in [
        ("user data", json!({}), json!({"userData": "#!/bin/bash\necho hello\n"})),
        ("tags", json!({}), json!({"tags": {"team": "web"}})),
        ("metadata options", json!({}), json!({"metadataOptions": {"httpTokens": "optional"}})),
        ("disks", json!({}), json!({"blockDeviceMappings": root("30Gi")})),
        (
            "size of a disk",
            json!({"blockDeviceMappings": root("30Gi")}),
            json!({"blockDeviceMappings": root("40Gi")}),
        ),
        ("monitoring", json!({}), json!({"detailedMonitoring": true})),
        ("kubelet", json!({}), json!({"kubelet": {"maxPods": 42}})),
        (
            "kubelet, one field of several",
            json!({"kubelet": {"maxPods": 42, "podsPerCore": 10}}),
            json!({"kubelet": {"podsPerCore": 9}}),
        ),
        ("family of the image", by_tags, json!({"amiFamily": "AL2"})),
        (
            "network interfaces",
            json!({}),
            json!({"networkInterfaces": [
                {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            ]}),
        ),
    ] {
        let world = World::new().await;
        put_image(&world, "ami-0000000000000a01", false).await;
        running(&world, &before).await;
        world.edit(change).await;
        assert_eq!(replaced(&world, what).await, "NodeClassDrift", "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_running_instances_follow_replaces_none() {
    let world = World::new().await;
    running(&world, &json!({})).await;
    let instance = world.account.live_instances().remove(0).id;
    // Other ways to select the same subnets and groups.
    let class = world.get("default").await.unwrap();
    let status = class.status.unwrap();
    let subnets: Vec<Value> = status.subnets.iter().map(|one| json!({"id": one.id})).collect();
    let groups: Vec<Value> = status.security_groups.iter().map(|one| json!({"id": one.id})).collect();
    world.edit(json!({"subnetSelectorTerms": subnets, "securityGroupSelectorTerms": groups})).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    let live = world.account.live_instances();
    assert_eq!(live.iter().map(|one| &one.id).collect::<Vec<_>>(), [&instance]);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_not_deprecated_replaces_one_that_is() {
    let world = World::new().await;
    put_image(&world, "ami-0000000000000a01", true).await;
    running(&world, &json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"tags": {"team": "web"}}]})).await;
    let image = || world.account.live_instances()[0].image.clone();
    assert_eq!(image(), ImageId::from("ami-0000000000000a01"));
    put_image(&world, "ami-0000000000000a02", false).await;
    assert_eq!(replaced(&world, "deprecated image").await, "AMIDrift");
    assert_eq!(image(), ImageId::from("ami-0000000000000a02"));
}

#[tokio::test(start_paused = true)]
async fn another_instance_profile_replaces_instances() {
    let world = World::new().await;
    let iam = world.account.clients().iam;
    for name in ["first", "second"] {
        let profile =
            InstanceProfileSpec { name: name.to_owned(), path: "/".to_owned(), tags: Default::default() };
        iam.create_instance_profile(&profile).await.unwrap();
        iam.add_role_to_instance_profile(name, "node-role").await.unwrap();
    }
    running(&world, &json!({"role": null, "instanceProfile": "first"})).await;
    world.edit(json!({"instanceProfile": "second"})).await;
    assert_eq!(replaced(&world, "profile").await, "NodeClassDrift");
    let annotation = |key: &str| workload::claims(&world)[0].annotations()[key].clone();
    assert_eq!(annotation(annotation::aws::INSTANCE_PROFILE_NAME), "second");
}

#[tokio::test(start_paused = true)]
async fn a_role_that_changes_twice_replaces_instances_and_leaves_no_profile() {
    let world = World::new().await;
    world.create_role("second-role").await;
    world.create_role("third-role").await;
    running(&world, &json!({})).await;
    let profile =
        || workload::claims(&world)[0].annotations()[annotation::aws::INSTANCE_PROFILE_NAME].clone();
    let mut seen = vec![profile()];
    for role in ["second-role", "third-role"] {
        world.edit(json!({"role": role})).await;
        assert_eq!(replaced(&world, role).await, "NodeClassDrift");
        assert!(!seen.contains(&profile()), "{seen:?}");
        seen.push(profile());
    }
    let iam = world.account.clients().iam;
    let profiles = async || {
        let all = iam.list_instance_profiles("/karpenter/").await.unwrap();
        all.into_iter().map(|profile| profile.name).collect::<Vec<_>>()
    };
    // Profiles that instances have left are collected while the class lives; the last one goes with it.
    world.until("one profile is left", async || profiles().await == seen[2..]).await;
    for pool in world.all::<karpenter_api::NodePool>() {
        world.delete::<karpenter_api::NodePool>(&pool.name_any()).await;
    }
    world.until("no claim is left", async || workload::claims(&world).is_empty()).await;
    world.delete::<EC2NodeClass>("default").await;
    world.until("the class is gone", async || world.get("default").await.is_none()).await;
    assert_eq!(profiles().await, Vec::<String>::new());
}
