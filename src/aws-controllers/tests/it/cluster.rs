//! A pod waits, a named instance takes it, and nothing is left at the end.

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use karpenter_aws::instances::drift;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_cloud::Provider;
use karpenter_model::names::{annotation, label};
use karpenter_model::resources;
use karpenter_testkit::objects::{one_of, pod, replica_set};
use kube::ResourceExt;
use serde_json::json;

use crate::workload;
use crate::world::World;

/// A world with a pod `one` that runs on an instance of a pool which gives up what is empty.
async fn running() -> World {
    let world = World::new().await;
    world.class("default", &json!({}));
    let requirements = [one_of(label::CAPACITY_TYPE, &["on-demand"])];
    let eager = json!({"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
    workload::pool_with(&world, "web", &requirements, &json!({"disruption": eager}));
    world.load(&pod("one", "1", &json!({})));
    workload::until_running(&world).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_an_instance_that_is_named_and_goes_when_the_pod_goes() {
    let world = running().await;
    let is_tagged = |claim: &NodeClaim| claim.annotations().contains_key(annotation::aws::TAGGED);
    world.until("the instance is tagged", async || world.all().iter().all(is_tagged)).await;
    let instances: Vec<_> =
        world.account.instances().into_iter().filter(|one| one.state == InstanceState::Running).collect();
    assert_eq!(instances.len(), 1, "{instances:?}");
    let node = &world.all::<Node>()[0];
    assert_eq!(instances[0].tags["Name"], node.name_any());
    let claim = &world.all::<NodeClaim>()[0];
    assert_eq!(instances[0].tags["karpenter.sh/nodeclaim"], claim.name_any());
    for key in [annotation::aws::EC2_NODE_CLASS_HASH, annotation::aws::INSTANCE_PROFILE_NAME] {
        assert!(claim.annotations().contains_key(key), "{key}");
    }
    let class = world.get("default").await.unwrap();
    let seen = world.aws.discovered.get(instances[0].instance_type.as_str(), &class.status.unwrap().amis);
    assert!(seen.is_some_and(|memory| !memory.is_zero()), "the node's {} is learnt", resources::MEMORY);
    world.delete::<Pod>("one").await;
    world
        .until("the instance is gone", async || {
            world.account.instances().iter().all(|one| one.state == InstanceState::Terminated)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn nodes_drift_when_their_node_class_changes_and_not_before() {
    let world = running().await;
    let claim = world.view.claims().remove(0).model;
    assert_eq!(world.aws.drift(&claim).await.unwrap(), None);
    world.class_tag("default", "team", "web").await;
    world
        .until("the hash follows", async || world.aws.drift(&claim).await.unwrap() == Some(drift::NODE_CLASS))
        .await;
}

/// The pool of the reference's suites, and pods that ask for nothing.
#[tokio::test(start_paused = true)]
async fn fifty_pods_share_at_most_two_instances() {
    let world = World::ready().await;
    let requirements = [
        one_of("kubernetes.io/arch", &["amd64"]),
        one_of(label::CAPACITY_TYPE, &["on-demand"]),
        one_of("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
        json!({"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]}),
    ];
    workload::pool_with(&world, "web", &requirements, &json!({"disruption": {"consolidateAfter": "0s"}}));
    world.load(&replica_set("web", 50, "0", &json!({})));
    world.until("all pods run", async || world.all::<Pod>().len() == 50 && workload::runs(&world)).await;
    let live = world.account.live_instances();
    assert!((1..=2).contains(&live.len()), "{live:?}");
}
