//! Create, read, update, delete.

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{ConfigMap, Event, Namespace, Node, Pod},
    events::v1::Event as NewEvent,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use serde_json::json;

use crate::world::{code, config_map, pod, running_pod, server, typed};

#[tokio::test(start_paused = true)]
async fn create_stamps_metadata_and_refuses_a_second_object_of_the_name() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let created = maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    assert!(created.uid().is_some_and(|uid| uid.len() == 36));
    assert_eq!(
        created.creation_timestamp().map(|t| t.0.to_string()).as_deref(),
        Some("2026-01-01T00:00:00Z")
    );
    assert_eq!(created.namespace().as_deref(), Some("default"));
    assert_eq!(code(maps.create(&PostParams::default(), &config_map("a", "2")).await), 409);
    assert_eq!(code(maps.create(&PostParams::default(), &config_map("Upper", "2")).await), 422);
    let elsewhere: Api<ConfigMap> = Api::namespaced(server().client(), "nowhere");
    assert_eq!(code(elsewhere.create(&PostParams::default(), &config_map("a", "2")).await), 404);
}

#[tokio::test(start_paused = true)]
async fn generated_names_differ() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let map: ConfigMap = typed(json!({"metadata": {"generateName": "a-"}}));
    let first = maps.create(&PostParams::default(), &map).await.expect("created").name_any();
    let second = maps.create(&PostParams::default(), &map).await.expect("created").name_any();
    assert!(first.starts_with("a-") && first.len() == 7, "{first}");
    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_leaves_nothing_behind() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&dry, &config_map("a", "1")).await.expect("accepted");
    assert!(maps.get_opt("a").await.expect("answered").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stale_write_conflicts_and_an_equal_one_changes_nothing() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let first = maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    let same = maps.replace("a", &PostParams::default(), &first).await.expect("accepted");
    assert_eq!(same.resource_version(), first.resource_version());
    let mut changed = first.clone();
    changed.data.get_or_insert_default().insert("key".to_owned(), "2".to_owned());
    maps.replace("a", &PostParams::default(), &changed).await.expect("accepted");
    assert_eq!(code(maps.replace("a", &PostParams::default(), &changed).await), 409);
}

#[tokio::test(start_paused = true)]
async fn generation_counts_changes_of_the_spec_only() {
    let pods: Api<ReplicaSet> = Api::default_namespaced(server().client());
    let set: ReplicaSet = typed(json!({"metadata": {"name": "a"}, "spec": {"selector": {}, "replicas": 1,
        "template": {"spec": {"containers": [{"name": "x"}]}}}}));
    pods.create(&PostParams::default(), &set).await.expect("created");
    let patch = |value| async {
        pods.patch("a", &PatchParams::default(), &Patch::Merge(value)).await.expect("patched")
    };
    assert_eq!(patch(json!({"metadata": {"labels": {"a": "b"}}})).await.metadata.generation, Some(1));
    assert_eq!(patch(json!({"status": {"replicas": 3}})).await.status.map_or(0, |s| s.replicas), 0);
    assert_eq!(patch(json!({"spec": {"replicas": 2}})).await.metadata.generation, Some(2));
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_until_the_last_is_removed() {
    let nodes: Api<Node> = Api::all(server().client());
    let node: Node = typed(json!({"metadata": {"name": "n", "finalizers": ["a/b"]}}));
    nodes.create(&PostParams::default(), &node).await.expect("created");
    let held =
        nodes.delete("n", &DeleteParams::default()).await.expect("accepted").left().expect("still there");
    assert!(held.metadata.deletion_timestamp.is_some());
    let more = json!({"metadata": {"finalizers": ["a/b", "c/d"]}});
    assert_eq!(code(nodes.patch("n", &PatchParams::default(), &Patch::Merge(more)).await), 422);
    let released = json!({"metadata": {"finalizers": null}});
    nodes.patch("n", &PatchParams::default(), &Patch::Merge(released)).await.expect("patched");
    assert!(nodes.get_opt("n").await.expect("answered").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_gets_its_grace_period_and_an_unbound_one_goes_at_once() {
    let pods: Api<Pod> = Api::default_namespaced(server().client());
    running_pod(&pods, "bound", "n").await;
    pods.create(&PostParams::default(), &pod("unbound")).await.expect("created");
    let bound =
        pods.delete("bound", &DeleteParams::default()).await.expect("accepted").left().expect("still there");
    assert_eq!(bound.metadata.deletion_grace_period_seconds, Some(30));
    let at = bound.metadata.deletion_timestamp.expect("deleting").0.to_string();
    assert_eq!(at, "2026-01-01T00:00:30Z");
    let longer = pods.delete("bound", &DeleteParams::default().grace_period(90)).await.expect("accepted");
    assert_eq!(longer.left().expect("there").metadata.deletion_grace_period_seconds, Some(30));
    let shorter = pods.delete("bound", &DeleteParams::default().grace_period(5)).await.expect("accepted");
    assert_eq!(shorter.left().expect("there").metadata.deletion_grace_period_seconds, Some(5));
    pods.delete("bound", &DeleteParams::default().grace_period(0)).await.expect("accepted");
    pods.delete("unbound", &DeleteParams::default()).await.expect("accepted");
    assert!(pods.list(&ListParams::default()).await.expect("listed").items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_precondition_on_the_uid_protects_the_successor() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    let other = Preconditions { uid: Some("another".to_owned()), resource_version: None };
    let params = DeleteParams { preconditions: Some(other), ..DeleteParams::default() };
    assert_eq!(code(maps.delete("a", &params).await), 409);
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner_unless_orphaned() {
    let client = server().client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan] {
        let owner = maps.create(&PostParams::default(), &config_map("owner", "1")).await.expect("created");
        let reference =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()}]);
        let dependent: ConfigMap =
            typed(json!({"metadata": {"name": "dependent", "ownerReferences": reference}}));
        maps.create(&PostParams::default(), &dependent).await.expect("created");
        let params = DeleteParams { propagation_policy: Some(policy.clone()), ..DeleteParams::default() };
        maps.delete("owner", &params).await.expect("accepted");
        let orphaned = matches!(policy, PropagationPolicy::Orphan);
        assert!(maps.get_opt("owner").await.expect("answered").is_none());
        assert_eq!(maps.get_opt("dependent").await.expect("answered").is_some(), orphaned);
    }
    assert!(maps.get("dependent").await.expect("kept").owner_references().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_arrives_after_its_owner_has_gone_is_collected() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let owner = maps.create(&PostParams::default(), &config_map("owner", "1")).await.expect("created");
    maps.delete("owner", &DeleteParams::default()).await.expect("accepted");
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()}]);
    let late: ConfigMap = typed(json!({"metadata": {"name": "late", "ownerReferences": reference}}));
    maps.create(&PostParams::default(), &late).await.expect("created");
    assert!(maps.get_opt("late").await.expect("answered").is_none());
}

#[tokio::test(start_paused = true)]
async fn deleting_a_namespace_deletes_what_is_in_it() {
    let server = server();
    let namespaces: Api<Namespace> = Api::all(server.client());
    namespaces
        .create(&PostParams::default(), &typed(json!({"metadata": {"name": "team"}})))
        .await
        .expect("created");
    let pods: Api<Pod> = Api::namespaced(server.client(), "team");
    running_pod(&pods, "a", "n").await;
    namespaces.delete("team", &DeleteParams::default()).await.expect("accepted");
    let terminating = namespaces.get("team").await.expect("held by its pod");
    assert_eq!(terminating.status.and_then(|s| s.phase).as_deref(), Some("Terminating"));
    assert_eq!(code(pods.create(&PostParams::default(), &pod("b")).await), 403);
    pods.delete("a", &DeleteParams::default().grace_period(0)).await.expect("accepted");
    assert!(namespaces.get_opt("team").await.expect("answered").is_none());
}

#[tokio::test(start_paused = true)]
async fn lists_page_and_select() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    for name in ["a", "b", "c", "d", "e"] {
        running_pod(&pods, name, if name < "c" { "n1" } else { "n2" }).await;
    }
    let first = pods.list(&ListParams::default().limit(2)).await.expect("listed");
    assert_eq!(first.items.len(), 2);
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    let token = first.metadata.continue_.expect("more");
    let rest = pods.list(&ListParams::default().continue_token(&token)).await.expect("listed");
    assert_eq!(rest.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["c", "d", "e"]);
    let on_n1 = pods.list(&ListParams::default().fields("spec.nodeName=n1").labels("app in (web)")).await;
    assert_eq!(on_n1.expect("listed").items.len(), 2);
    running_pod(&pods, "f", "n3").await;
    server.write(karpenter_kube_sim::apiserver::store::Store::compact);
    assert_eq!(code(pods.list(&ListParams::default().continue_token(&token)).await), 410);
}

#[tokio::test(start_paused = true)]
async fn delete_collection_takes_only_what_is_selected() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &config_map(name, "1")).await.expect("created");
    }
    let selected = ListParams::default().fields("metadata.name=a");
    maps.delete_collection(&DeleteParams::default(), &selected).await.expect("accepted");
    let left = maps.list(&ListParams::default()).await.expect("listed").items;
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_either_api_are_seen_in_both() {
    let server = server();
    let new: Api<NewEvent> = Api::default_namespaced(server.client());
    let event: NewEvent = typed(json!({
        "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "note": "hello", "reason": "R",
        "action": "A", "type": "Normal", "reportingController": "karpenter", "reportingInstance": "karpenter-0",
        "regarding": {"kind": "Node", "name": "n"},
    }));
    new.create(&PostParams::default(), &event).await.expect("created");
    let core: Api<Event> = Api::default_namespaced(server.client());
    let seen = core.get("e").await.expect("found");
    assert_eq!(seen.message.as_deref(), Some("hello"));
    assert_eq!(seen.involved_object.name.as_deref(), Some("n"));
    assert_eq!(new.get("e").await.expect("found").note.as_deref(), Some("hello"));
}

#[tokio::test(start_paused = true)]
async fn pods_get_priority_and_default_tolerations() {
    let pods: Api<Pod> = Api::default_namespaced(server().client());
    let mut critical = pod("a");
    critical.spec.get_or_insert_default().priority_class_name = Some("system-node-critical".to_owned());
    let spec = pods.create(&PostParams::default(), &critical).await.expect("created").spec.expect("a spec");
    assert_eq!(spec.priority, Some(2_000_001_000));
    assert_eq!(spec.tolerations.map_or(0, |t| t.len()), 2);
    let mut unknown = pod("b");
    unknown.spec.get_or_insert_default().priority_class_name = Some("missing".to_owned());
    assert_eq!(code(pods.create(&PostParams::default(), &unknown).await), 403);
}
