//! Starting point of every test.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use karpenter_kube_sim::{VirtualClock, apiserver::ApiServer};
use kube::{Api, api::PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A fresh server whose clock starts at the beginning of 2026.
pub(crate) fn server() -> ApiServer {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a valid time");
    ApiServer::new(Arc::new(VirtualClock::starting_at(epoch)))
}

/// Decodes a typed object.
pub(crate) fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("a valid object")
}

/// A pod with one container.
pub(crate) fn pod(name: &str) -> Pod {
    typed(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }))
}

/// A config map with one entry.
pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    typed(json!({"metadata": {"name": name}, "data": {"key": value}}))
}

/// Creates a pod that runs and is ready.
pub(crate) async fn running_pod(pods: &Api<Pod>, name: &str, node: &str) -> Pod {
    let mut pod = pod(name);
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    let mut created = pods.create(&PostParams::default(), &pod).await.expect("created");
    created.status = Some(typed(json!({
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    })));
    pods.replace_status(name, &PostParams::default(), &created).await.expect("status written")
}

/// The code of a refused call.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
