//! Labels that pods select by, from the selector to the Node.

use k8s_openapi::api::core::v1::Node;
use karpenter_model::names::label::{self, aws};
use karpenter_testkit::objects::{one_of, pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::workload;
use crate::world::World;

/// A pod of this node affinity.
fn asking(world: &World, name: &str, expressions: &Value) {
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    world.load(&pod(name, "1", &json!({"spec": {"affinity": affinity}})));
}

#[tokio::test(start_paused = true)]
async fn zones_and_zone_ids_that_overlap_leave_what_both_allow() {
    // Zones by name and by id, and the only one that both sides allow.
    for (zones, ids, expected) in [
        (vec!["us-west-2a", "us-west-2b"], vec![1, 2], "us-west-2b"),
        (vec!["us-west-2b", "us-west-2c"], vec![0, 1], "us-west-2b"),
        (vec!["us-west-2a", "us-west-2c"], vec![1, 2], "us-west-2c"),
    ] {
        let world = World::large(karpenter_aws_sim::Options { zones: 3, ..World::options() }).await;
        world.class("default", &json!({}));
        world.until_ready("default").await;
        let subnets = world.status().await.subnets;
        let mut by_name: Vec<_> = subnets.into_iter().map(|one| (one.zone, one.zone_id.unwrap())).collect();
        by_name.sort();
        let ids: Vec<&str> = ids.into_iter().map(|index: usize| by_name[index].1.as_str()).collect();
        workload::pool(&world, &["on-demand"]);
        asking(&world, "web", &json!([one_of(label::ZONE, &zones), one_of(aws::ZONE_ID, &ids)]));
        workload::until_running(&world).await;
        let node = world.all::<Node>().remove(0);
        assert_eq!(node.labels()[label::ZONE], expected);
        assert_eq!(world.account.live_instances()[0].zone.as_str(), expected);
    }
    // Both sides allow nothing together.
    let world = World::ready().await;
    let subnets = world.status().await.subnets;
    let id = subnets.iter().find(|one| one.zone == "us-west-2b").unwrap().zone_id.clone().unwrap();
    workload::pool(&world, &["on-demand"]);
    asking(&world, "web", &json!([one_of(label::ZONE, &["us-west-2a"]), one_of(aws::ZONE_ID, &[&id])]));
    world.until("the pod has an event", async || !world.told("FailedScheduling").is_empty()).await;
    assert!(workload::claims(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn encryption_between_instances_is_selected_either_way() {
    for (value, encrypted) in [("true", true), ("false", false)] {
        let world = World::new().await;
        world.class("default", &json!({}));
        workload::pool(&world, &["on-demand"]);
        asking(&world, "web", &json!([one_of(aws::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, &[value])]));
        workload::until_running(&world).await;
        let node = world.all::<Node>().remove(0);
        assert_eq!(node.labels()[aws::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED], value);
        let launched = world.account.live_instances().remove(0).instance_type;
        let types = world.account.clients().ec2.describe_instance_types(&Default::default()).await.unwrap();
        let info = types.items.into_iter().find(|info| info.name == launched).unwrap();
        assert_eq!(info.encryption_in_transit, encrypted, "{launched}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_windows_build_is_selected_and_its_image_launched() {
    let world = World::new().await;
    world.class("default", &json!({"amiSelectorTerms": [{"alias": "windows2022@latest"}]}));
    let requirements = [one_of(label::OS, &["windows"]), one_of(label::CAPACITY_TYPE, &["on-demand"])];
    workload::pool_with(&world, "web", &requirements, &json!({}));
    asking(&world, "other", &json!([one_of("node.kubernetes.io/windows-build", &["10.0.17763"])]));
    asking(&world, "web", &json!([one_of("node.kubernetes.io/windows-build", &["10.0.20348"])]));
    world.until("an instance is there", async || !world.account.live_instances().is_empty()).await;
    world
        .until("its claim says which", async || {
            workload::claims(&world)[0].labels().contains_key("node.kubernetes.io/windows-build")
        })
        .await;
    let claims = workload::claims(&world);
    assert_eq!(claims.len(), 1, "no image of the class is of the other build");
    assert_eq!(claims[0].labels()["node.kubernetes.io/windows-build"], "10.0.20348");
    assert_eq!(claims[0].labels()[label::OS], "windows");
    let image = world.account.live_instances().remove(0).image;
    let query = karpenter_aws_api::ec2::ImageQuery { ids: vec![image], ..Default::default() };
    let image = world.account.clients().ec2.describe_images(&query).await.unwrap().items.remove(0);
    assert!(image.name.contains("Windows_Server-2022"), "{}", image.name);
}

#[tokio::test(start_paused = true)]
async fn labels_of_kubernetes_domains_that_a_pool_may_set_are_on_its_nodes() {
    // Kubelets may not say most of these about themselves, so they come with the registration.
    for key in [
        "node-restriction.kubernetes.io/team",
        "sub.node-restriction.kubernetes.io/team",
        "node.kubernetes.io/team",
        "kops.k8s.io/instancegroup",
        "sub.kops.k8s.io/instancegroup",
    ] {
        for by_requirement in [false, true] {
            let world = World::new().await;
            world.class("default", &json!({}));
            let mut requirements = vec![one_of("karpenter.sh/capacity-type", &["on-demand"])];
            let mut labels = json!({});
            if by_requirement {
                requirements.push(one_of(key, &["a", "b"]));
            } else {
                labels[key] = json!("a");
            }
            let labelled = json!({"template": {"metadata": {"labels": labels}}});
            workload::pool_with(&world, "web", &requirements, &labelled);
            asking(&world, "web", &json!([one_of(key, &["a"])]));
            world.until(&format!("the pod runs for {key}"), async || workload::runs(&world)).await;
            assert_eq!(world.all::<Node>()[0].labels()[key], "a");
        }
    }
}
