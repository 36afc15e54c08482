//! No pod is evicted in place of another.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use karpenter_lifecycle::step::PodRef;
use karpenter_model::{NodeName, PodKey};
use kube::ResourceExt;
use kube::api::Api;
use serde_json::json;

use super::{Evictions, Key};
use crate::fixture::World;
use crate::reconciler::Reconciler;
use crate::view::PodSeen;

async fn evicted(of_uid: impl FnOnce(&str) -> String) -> (World, bool) {
    let world = World::new();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n", "terminationGracePeriodSeconds": 0},
    });
    world.server.load(&pod).unwrap();
    let pods: Api<Pod> = Api::namespaced(world.context.client.clone(), "default");
    let uid = of_uid(&pods.get("web").await.unwrap().uid().unwrap());
    let pod = PodRef { key: PodKey::new("default", "web"), uid: uid.as_str().into() };
    let (evictions, _work) = Evictions::new();
    let node: NodeName = "n".into();
    evictions.add(&world.context, &pod, &node);
    evictions.pass(&world.context, &Key(pod.clone(), node)).await.unwrap();
    assert!(!evictions.pods.lock().contains(&pod), "done with it either way");
    let left =
        pods.get_opt("web").await.unwrap().is_some_and(|pod| pod.metadata.deletion_timestamp.is_none());
    (world, !left)
}

#[tokio::test(start_paused = true)]
async fn a_pod_created_anew_under_the_same_name_stays() {
    let (world, gone) = evicted(|_| "of-the-pod-before".to_owned()).await;
    assert!(!gone);
    assert_eq!(world.context.metrics.pods.eviction_requests_total.value(["409"]), 1);
    assert!(world.events.messages("Evicted").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_pod_that_was_meant_goes() {
    let (world, gone) = evicted(ToOwned::to_owned).await;
    assert!(gone);
    let drained = &world.context.metrics.pods.drained_total;
    assert_eq!(drained.value([""]), 1, "the node is not known, so neither is the reason");
    assert_eq!(world.context.metrics.pods.eviction_requests_total.value(["200"]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_already_is_no_failure_and_tells_nothing() {
    let world = World::new();
    let pod = PodRef { key: PodKey::new("default", "web"), uid: "uid".into() };
    let (evictions, _work) = Evictions::new();
    let node: NodeName = "n".into();
    evictions.add(&world.context, &pod, &node);
    evictions.pass(&world.context, &Key(pod.clone(), node)).await.unwrap();
    assert!(!evictions.pods.lock().contains(&pod));
    assert_eq!(world.context.metrics.pods.eviction_requests_total.value(["404"]), 1);
    assert!(world.events.events().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_on_its_way_out_is_not_asked_again_and_forgotten_when_it_is_gone() {
    let world = World::new();
    let (evictions, _work) = Evictions::new();
    let known = Arc::new(karpenter_model::Pod {
        node_name: Some("n".into()),
        ..karpenter_model::Pod::pending(PodKey::new("default", "web"), "uid", jiff::Timestamp::UNIX_EPOCH)
    });
    let pod = PodRef::of(&known);
    evictions.accept(&world.context, &pod);
    assert!(evictions.accepted.lock().is_empty(), "the watch was faster: it is gone already");
    world.context.view.with_cluster(|cluster| {
        cluster.put(&known.key, karpenter_cluster::Version(1).into(), Arc::clone(&known), ())
    });
    evictions.accept(&world.context, &pod);
    evictions.add(&world.context, &pod, &"n".into());
    assert!(!evictions.pods.lock().contains(&pod));
    evictions.seen(&PodSeen::Deleted(known));
    assert!(evictions.accepted.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_forgotten_when_another_of_its_name_is_seen_in_its_place() {
    let world = World::new();
    let (evictions, _work) = Evictions::new();
    let of_uid = |uid: &str| {
        let key = PodKey::new("default", "web");
        Arc::new(karpenter_model::Pod::pending(key, uid, jiff::Timestamp::UNIX_EPOCH))
    };
    let (first, second) = (of_uid("first"), of_uid("second"));
    world.context.view.with_cluster(|cluster| {
        cluster.put(&first.key, karpenter_cluster::Version(1).into(), Arc::clone(&first), ())
    });
    evictions.accept(&world.context, &PodRef::of(&first));
    evictions.seen(&PodSeen::Listed(Arc::clone(&first)));
    evictions.seen(&PodSeen::Deleted(Arc::clone(&second)));
    assert_eq!(evictions.accepted.lock().len(), 1);
    evictions.seen(&PodSeen::Listed(second));
    assert!(evictions.accepted.lock().is_empty());
}
