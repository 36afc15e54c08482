//! A new node is charged for the daemon pods it will really get.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{LimitRange, Pod};
use karpenter_kube_harness::watch::Seen;
use serde_json::{Value, json};

use crate::View;
use crate::fixture::{World, list};

fn set() -> DaemonSet {
    serde_json::from_value(json!({
        "metadata": {"namespace": "kube-system", "name": "cni", "uid": "set", "resourceVersion": "100"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}},
        ]}}},
    }))
    .unwrap()
}

/// A pod of the set created at this second, with this much CPU.
fn pod(second: u8, cpu: &str, version: u8) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "kube-system", "name": format!("cni-{second}"), "uid": format!("pod-{second}"),
            "resourceVersion": version.to_string(),
            "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni", "uid": "set", "controller": true},
            ],
        },
        "spec": {"nodeName": "n", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}},
        ]},
    }))
    .unwrap()
}

/// CPU of the daemon pod that a new node is charged for.
fn charged(view: &View) -> Vec<String> {
    let snapshot = view.with_cluster(|cluster| cluster.freeze(Timestamp::UNIX_EPOCH));
    snapshot.daemons.iter().map(|daemon| daemon.pod.requests.amount("cpu").to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_newest_pod_that_exists_counts_and_the_template_when_there_is_none() {
    let view = World::new().context.view;
    view.take(Seen::Applied(set()));
    assert_eq!(charged(&view), ["1"], "limits stand in for requests that the template lacks");
    view.take(Seen::Applied(pod(5, "2", 5)));
    assert_eq!(charged(&view), ["2"]);
    view.take(Seen::Applied(pod(3, "7", 6)));
    assert_eq!(charged(&view), ["2"], "an older pod says nothing");
    view.take(Seen::Applied(pod(5, "4", 7)));
    assert_eq!(charged(&view), ["4"], "resized in place");
    view.take(Seen::Deleted(pod(5, "4", 8)));
    assert_eq!(charged(&view), ["7"]);
    list::<Pod>(&view, []);
    assert_eq!(charged(&view), ["1"], "the last pod went while the watch was broken");
}

#[tokio::test(start_paused = true)]
async fn pods_seen_before_their_set_count_and_a_set_that_is_gone_does_not() {
    let view = World::new().context.view;
    view.take(Seen::Listed(pod(5, "2", 5)));
    assert_eq!(charged(&view), [""; 0]);
    list(&view, [set()]);
    assert_eq!(charged(&view), ["2"]);
    list::<DaemonSet>(&view, []);
    assert_eq!(charged(&view), [""; 0]);
    view.take(Seen::Applied(set()));
    assert_eq!(charged(&view), ["2"], "created again");
}

fn range(name: &str, requests: &Value) -> LimitRange {
    serde_json::from_value(json!({
        "metadata": {"namespace": "kube-system", "name": name, "resourceVersion": "1"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": requests}]},
    }))
    .unwrap()
}

/// Memory of the daemon pod that a new node is charged for.
fn charged_memory(view: &View) -> String {
    let snapshot = view.with_cluster(|cluster| cluster.freeze(Timestamp::UNIX_EPOCH));
    snapshot.daemons[0].pod.requests.amount("memory").to_string()
}

#[tokio::test(start_paused = true)]
async fn limit_ranges_give_a_template_what_it_lacks_until_there_is_a_pod() {
    let view = World::new().context.view;
    view.take(Seen::Applied(set()));
    assert_eq!(charged_memory(&view), "0");
    view.take(Seen::Listed(range("b", &json!({"cpu": "9", "memory": "3Gi"}))));
    assert_eq!((charged_memory(&view), charged(&view)), ("3Gi".to_owned(), vec!["1".to_owned()]));
    view.take(Seen::Listed(range("a", &json!({"memory": "2Gi"}))));
    assert_eq!(charged_memory(&view), "2Gi", "the first by name wins");
    let mut elsewhere = range("a", &json!({"memory": "7Gi"}));
    elsewhere.metadata.namespace = Some("default".to_owned());
    view.take(Seen::Applied(elsewhere));
    assert_eq!(charged_memory(&view), "2Gi");
    view.take(Seen::Applied(pod(5, "2", 5)));
    assert_eq!(charged_memory(&view), "0", "a pod that exists says what it has");
    view.take(Seen::Deleted(pod(5, "2", 6)));
    view.take(Seen::Deleted(range("a", &json!({"memory": "2Gi"}))));
    assert_eq!(charged_memory(&view), "3Gi");
    list::<LimitRange>(&view, []);
    assert_eq!(charged_memory(&view), "0", "gone while the watch was broken");
}
