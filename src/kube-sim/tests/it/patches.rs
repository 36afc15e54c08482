//! The four patch formats, over the client.

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::world::{code, config_map, server, typed};

#[tokio::test(start_paused = true)]
async fn a_merge_patch_with_a_stale_version_conflicts() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let first = maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    let patch = |version: Option<String>, value: &str| json!({"metadata": {"resourceVersion": version}, "data": {"key": value}});
    let params = PatchParams::default();
    maps.patch("a", &params, &Patch::Merge(patch(first.resource_version(), "2"))).await.expect("current");
    assert_eq!(
        code(maps.patch("a", &params, &Patch::Merge(patch(first.resource_version(), "3"))).await),
        409
    );
    let unlocked =
        maps.patch("a", &params, &Patch::Merge(json!({"data": {"key": "4"}}))).await.expect("unlocked");
    assert_eq!(unlocked.data.expect("data")["key"], "4");
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_whose_test_fails_changes_nothing() {
    let nodes: Api<Node> = Api::all(server().client());
    let node: Node =
        typed(json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}));
    nodes.create(&PostParams::default(), &node).await.expect("created");
    let patch = |key: &str| {
        let operations = json!([
            {"op": "test", "path": "/spec/taints/0/key", "value": key},
            {"op": "remove", "path": "/spec/taints/0"},
        ]);
        Patch::Json::<()>(typed(operations))
    };
    assert_eq!(code(nodes.patch("n", &PatchParams::default(), &patch("b")).await), 422);
    let patched = nodes.patch("n", &PatchParams::default(), &patch("a")).await.expect("patched");
    assert!(patched.spec.and_then(|s| s.taints).unwrap_or_default().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_merges_conditions_by_type() {
    let nodes: Api<Node> = Api::all(server().client());
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let node = json!({"metadata": {"name": "n"}, "status": {"conditions": [condition("Ready", "False"), condition("DiskPressure", "False")]}});
    nodes.create(&PostParams::default(), &typed(node)).await.expect("created");
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition("Ready", "True")]}}));
    let patched = nodes.patch_status("n", &PatchParams::default(), &patch).await.expect("patched");
    let conditions = patched.status.and_then(|s| s.conditions).unwrap_or_default();
    let seen: Vec<_> = conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
    assert_eq!(seen, [("Ready", "True"), ("DiskPressure", "False")]);
}

#[tokio::test(start_paused = true)]
async fn apply_creates_removes_what_its_manager_drops_and_respects_others() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let apply = async |manager: &str, force: bool, data: serde_json::Value| {
        let params = PatchParams { force, ..PatchParams::apply(manager) };
        let intent =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        maps.patch("a", &params, &Patch::Apply(intent)).await
    };
    apply("one", false, json!({"x": "1", "y": "1"})).await.expect("created");
    let shrunk = apply("one", false, json!({"x": "1"})).await.expect("applied");
    assert_eq!(shrunk.data.map(|d| d.len()), Some(1), "`y` is dropped with its only owner");
    apply("two", false, json!({"z": "2"})).await.expect("no conflict");
    assert_eq!(code(apply("two", false, json!({"z": "2", "x": "2"})).await), 409);
    let forced = apply("two", true, json!({"z": "2", "x": "2"})).await.expect("forced");
    assert_eq!(forced.data.clone().expect("data")["x"], "2");
    let managers: Vec<_> = forced.managed_fields().iter().filter_map(|m| m.manager.as_deref()).collect();
    assert_eq!(managers, ["two"], "the loser of its only field is forgotten");
}
