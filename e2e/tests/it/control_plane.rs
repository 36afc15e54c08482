//! The local control plane: each of its programs does its work, and none of them outlives it.

use std::fmt::Debug;

use futures::StreamExt;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, ServiceAccount};
use karpenter_e2e::cluster::Access;
use karpenter_e2e::cluster::local::{LocalCluster, Options};
use karpenter_e2e::wait::PATIENCE;
use kube::api::{Api, DeleteParams, PostParams, WatchParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn schedules_reconciles_authorises_and_goes_away() {
    let cluster = LocalCluster::start(Options::default()).await.expect("the control plane starts");
    let client = cluster.client();
    let folder = cluster.folder().to_owned();
    assert!(client.apiserver_version().await.unwrap().git_version.starts_with("v1.35."));

    let namespace = "harness";
    create::<Namespace>(&Api::all(client.clone()), json!({ "metadata": { "name": namespace } })).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    create(&maps, json!({ "metadata": { "name": "settings" }, "data": { "answer": "42" } })).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    until(&accounts, "default", "the controller manager creates the default account", |found| {
        found.is_some()
    })
    .await;

    a_pod_without_nodes_stays_pending_with_the_reason(&client, namespace).await;
    a_service_account_has_no_rights_of_its_own(cluster.access(), namespace).await;
    a_kubelet_may_create_its_own_node_only(&cluster).await;

    Api::<Namespace>::all(client.clone()).delete(namespace, &DeleteParams::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    until(&namespaces, namespace, "the controller manager empties the namespace", |found| found.is_none())
        .await;

    cluster.stop().await.expect("all processes end");
    assert!(client.apiserver_version().await.is_err(), "the API server is gone");
    assert!(!folder.exists(), "a temporary run folder is removed after an orderly stop");
}

async fn a_pod_without_nodes_stays_pending_with_the_reason(client: &Client, namespace: &str) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let spec = json!({ "containers": [{ "name": "c", "image": "none" }] });
    create(&pods, json!({ "metadata": { "name": "lonely" }, "spec": spec })).await;
    let unschedulable = |pod: Option<&Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        status.and_then(|status| status.phase.as_deref()) == Some("Pending")
            && status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
                conditions.iter().any(|condition| {
                    condition.type_ == "PodScheduled"
                        && condition.status == "False"
                        && condition.reason.as_deref() == Some("Unschedulable")
                })
            })
    };
    until(&pods, "lonely", "the scheduler says that there is no node", unschedulable).await;
    pods.delete("lonely", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
        .await
        .unwrap();
}

/// RBAC is on: a token works, and allows nothing that was not granted.
async fn a_service_account_has_no_rights_of_its_own(access: &Access, namespace: &str) {
    let path = access.service_account_kubeconfig(namespace, "default").await.unwrap();
    let other = Access::from_kubeconfig(&path, path.parent().unwrap()).await.unwrap();
    let review =
        json!({ "metadata": {}, "spec": { "resourceAttributes": { "verb": "list", "resource": "nodes" } } });
    let reviews: Api<SelfSubjectAccessReview> = Api::all(other.client());
    let answer = create(&reviews, review).await;
    assert!(!answer.status.expect("a review is answered").allowed);
    let error = Api::<Node>::all(other.client()).get("any").await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 403));
}

async fn a_kubelet_may_create_its_own_node_only(cluster: &LocalCluster) {
    let path = cluster.node_kubeconfig("node-a").unwrap();
    let kubelet = Access::from_kubeconfig(&path, path.parent().unwrap()).await.unwrap();
    let nodes: Api<Node> = Api::all(kubelet.client());
    create(&nodes, json!({ "metadata": { "name": "node-a" } })).await;
    let stranger = serde_json::from_value(json!({ "metadata": { "name": "node-b" } })).unwrap();
    let error = nodes.create(&PostParams::default(), &stranger).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 403));
    let admin: Api<Node> = Api::all(cluster.client());
    admin.delete("node-a", &DeleteParams::default()).await.unwrap();
}

async fn create<K>(api: &Api<K>, object: serde_json::Value) -> K
where
    K: Resource + Clone + DeserializeOwned + serde::Serialize + Debug,
{
    let object = serde_json::from_value(object).expect("a valid object");
    api.create(&PostParams::default(), &object).await.expect("the object is created")
}

/// Watches object `name` until `reached` holds for it; `None` is its absence.
async fn until<K>(api: &Api<K>, name: &str, what: &str, reached: impl Fn(Option<&K>) -> bool)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let wait = async {
        loop {
            // A watch that ends (it may, at any time) begins again with a fresh look.
            let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
            let mut changes = api.watch(&parameters, "0").await.expect("the watch begins").boxed();
            if reached(api.get_opt(name).await.expect("the object can be read").as_ref()) {
                return;
            }
            while let Some(Ok(_)) = changes.next().await {
                if reached(api.get_opt(name).await.expect("the object can be read").as_ref()) {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"));
}
