//! Tables of pods and what they take.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;

fn requests(spec: &Value, status: &Value) -> String {
    let pod: Pod = serde_json::from_value(json!({"spec": spec, "status": status})).unwrap();
    let total = effective_requests(&pod.spec.unwrap(), pod.status.as_ref()).unwrap();
    let entries: Vec<String> = total.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect();
    entries.join(" ")
}

fn cpu(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
}

fn sidecar(name: &str, cpu: &str) -> Value {
    json!({"name": name, "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
}

#[test]
fn adds_up_containers_and_takes_the_largest_start_up() {
    let cases = [
        ("nothing asked", json!({"containers": [{"name": "a"}]}), "pods=1"),
        ("containers add up", json!({"containers": [cpu("a", "1"), cpu("b", "500m")]}), "cpu=1500m pods=1"),
        (
            "a large init container counts",
            json!({"containers": [cpu("a", "1")], "initContainers": [cpu("i", "3"), cpu("j", "2")]}),
            "cpu=3 pods=1",
        ),
        (
            "a small init container does not",
            json!({"containers": [cpu("a", "1")], "initContainers": [cpu("i", "500m")]}),
            "cpu=1 pods=1",
        ),
        (
            "a sidecar adds to containers",
            json!({"containers": [cpu("a", "1")], "initContainers": [sidecar("s", "2")]}),
            "cpu=3 pods=1",
        ),
        (
            "a sidecar before an init container adds to it",
            json!({"containers": [cpu("a", "1")], "initContainers": [sidecar("s", "2"), cpu("i", "5")]}),
            "cpu=7 pods=1",
        ),
        (
            "a sidecar after an init container does not",
            json!({"containers": [cpu("a", "1")], "initContainers": [cpu("i", "5"), sidecar("s", "2")]}),
            "cpu=5 pods=1",
        ),
        (
            "overhead comes on top",
            json!({"containers": [cpu("a", "1")], "overhead": {"cpu": "250m", "memory": "1Gi"}}),
            "cpu=1250m memory=1Gi pods=1",
        ),
        (
            "pod level replaces the sum, but not for every resource",
            json!({
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}],
                "resources": {"requests": {"cpu": "4", "memory": "2Gi", "nvidia.com/gpu": "8"}},
                "overhead": {"cpu": "1"},
            }),
            "cpu=5 memory=2Gi nvidia.com/gpu=1 pods=1",
        ),
        (
            "limits do not count",
            json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]}),
            "pods=1",
        ),
    ];
    for (name, spec, expected) in cases {
        assert_eq!(requests(&spec, &json!({})), expected, "{name}");
    }
}

#[test]
fn a_resize_counts_the_larger_side_until_it_is_infeasible() {
    let spec = json!({"containers": [cpu("a", "4")]});
    let status = |reason: &str| {
        json!({
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
            "containerStatuses": [{
                "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1"}},
            }],
        })
    };
    assert_eq!(requests(&spec, &status("Deferred")), "cpu=4 pods=1");
    assert_eq!(requests(&spec, &status("Infeasible")), "cpu=2 pods=1");
    let shrinking = json!({"containers": [cpu("a", "500m")]});
    assert_eq!(requests(&shrinking, &status("Deferred")), "cpu=2 pods=1");
}

#[test]
fn errors_name_the_container() {
    let spec: PodSpec =
        serde_json::from_value(json!({"containers": [cpu("a", "1"), cpu("b", "lots")]})).unwrap();
    let error = effective_requests(&spec, None).unwrap_err();
    assert_eq!(error.field, "spec.containers[1].resources.requests.cpu");
}

#[test]
fn limits_add_up_like_requests_and_overhead_goes_on_top_of_what_is_limited() {
    let limited = |name: &str, cpu: &str| json!({"name": name, "resources": {"limits": {"cpu": cpu}}});
    let cases = [
        ("no limits", json!({"containers": [cpu("a", "1")], "overhead": {"cpu": "1"}}), ""),
        ("containers add up", json!({"containers": [limited("a", "1"), limited("b", "2")]}), "cpu=3"),
        (
            "the largest start-up counts",
            json!({"containers": [limited("a", "1")], "initContainers": [limited("i", "4")]}),
            "cpu=4",
        ),
        (
            "overhead of other resources is not a limit",
            json!({"containers": [limited("a", "1")], "overhead": {"cpu": "1", "memory": "1Gi"}}),
            "cpu=2",
        ),
        (
            "pod level replaces the sum",
            json!({"containers": [limited("a", "1")], "resources": {"limits": {"cpu": "5"}}}),
            "cpu=5",
        ),
    ];
    for (case, spec, want) in cases {
        let spec = serde_json::from_value(spec).unwrap();
        let limits = effective_limits(&spec).unwrap();
        let entries: Vec<String> =
            limits.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect();
        assert_eq!(entries.join(" "), want, "{case}");
    }
}
