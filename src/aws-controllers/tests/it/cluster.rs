//! A pod waits, a named instance takes it, and nothing is left at the end.

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use karpenter_aws::instances::drift;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_cloud::Provider;
use karpenter_model::names::annotation;
use karpenter_model::resources;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::workload;
use crate::world::World;

fn load_pool(world: &World) {
    world.load(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            }},
            "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]},
        },
    }));
}

fn load_pod(world: &World, name: &str) {
    world.load(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        },
    }));
}

async fn running(world: &World, name: &str) -> bool {
    let pods = Api::<Pod>::namespaced(world.client.clone(), "default");
    let pod = pods.get_opt(name).await.unwrap();
    pod.and_then(|pod| pod.status?.phase).as_deref() == Some("Running")
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_an_instance_that_is_named_and_goes_when_the_pod_goes() {
    let world = World::new().await;
    world.class("default", &json!({}));
    load_pool(&world);
    load_pod(&world, "one");
    world.until("the pod runs", async || running(&world, "one").await).await;
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
    let pods = Api::<Pod>::namespaced(world.client.clone(), "default");
    pods.delete("one", &DeleteParams::default()).await.unwrap();
    world
        .until("the instance is gone", async || {
            world.account.instances().iter().all(|one| one.state == InstanceState::Terminated)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn nodes_drift_when_their_node_class_changes_and_not_before() {
    let world = World::new().await;
    world.class("default", &json!({}));
    load_pool(&world);
    load_pod(&world, "one");
    world.until("the pod runs", async || running(&world, "one").await).await;
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
    let world = World::new().await;
    world.class("default", &json!({}));
    world.until_ready("default").await;
    world.load(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
                {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
            ],
        }}},
    }));
    world.load(&json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 50, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }));
    world.until("all pods run", async || world.all::<Pod>().len() == 50 && workload::runs(&world)).await;
    let live = world.account.live_instances();
    assert!((1..=2).contains(&live.len()), "{live:?}");
}
