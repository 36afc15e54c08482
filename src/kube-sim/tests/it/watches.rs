//! Watches: the raw protocol, and kube's own watcher on top of it.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use karpenter_kube_sim::apiserver::store::Store;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;

use crate::world::{config_map, running_pod, server};

fn summary<K: ResourceExt>(event: &WatchEvent<K>) -> String {
    match event {
        WatchEvent::Added(o) => format!("added {}", o.name_any()),
        WatchEvent::Modified(o) => format!("modified {}", o.name_any()),
        WatchEvent::Deleted(o) => format!("deleted {}", o.name_any()),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

async fn first(maps: &Api<ConfigMap>, params: &WatchParams, from: &str, count: usize) -> Vec<String> {
    let stream = maps.watch(params, from).await.expect("watching");
    let events: Vec<_> = stream.take(count).try_collect().await.expect("events");
    events.iter().map(summary).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_revision_sees_every_change_after_it() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let a = maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    let from = a.resource_version().expect("a version");
    maps.create(&PostParams::default(), &config_map("b", "1")).await.expect("created");
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"key": "2"}})))
        .await
        .expect("patched");
    maps.delete("b", &DeleteParams::default()).await.expect("deleted");
    let events = first(&maps, &WatchParams::default(), &from, 3).await;
    assert_eq!(events, ["added b", "modified a", "deleted b"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_revision_begins_with_what_exists() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &config_map(name, "1")).await.expect("created");
    }
    assert_eq!(first(&maps, &WatchParams::default(), "0", 2).await, ["added a", "added b"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_turn_changes_into_additions_and_deletions() {
    let pods: Api<Pod> = Api::default_namespaced(server().client());
    let start = running_pod(&pods, "a", "n1").await.resource_version().expect("a version");
    let label = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"app": value}}}));
    for value in ["db", "web", "db"] {
        pods.patch("a", &PatchParams::default(), &label(value)).await.expect("patched");
    }
    let params = WatchParams::default().labels("app=db");
    let stream = pods.watch(&params, &start).await.expect("watching");
    let events: Vec<_> = stream.take(3).try_collect().await.expect("events");
    let events: Vec<_> = events.iter().map(summary).collect();
    assert_eq!(events, ["added a", "deleted a", "added a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_a_bookmark_when_its_time_is_up() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let params = WatchParams::default().timeout(60);
    let begun = tokio::time::Instant::now();
    let stream = maps.watch(&params, "1").await.expect("watching");
    let events: Vec<_> = stream.try_collect().await.expect("events");
    assert_eq!(events.iter().map(summary).collect::<Vec<_>>(), ["bookmark"]);
    assert_eq!(begun.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_before_the_compaction_is_gone() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    server.write(Store::compact);
    assert_eq!(first(&maps, &WatchParams::default(), "1", 1).await, ["error 410"]);
}

#[tokio::test(start_paused = true)]
async fn the_watcher_of_kube_survives_broken_watches_and_compaction() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &config_map("a", "1")).await.expect("created");
    for streaming in [false, true] {
        let config =
            if streaming { watcher::Config::default().streaming_lists() } else { watcher::Config::default() };
        let stream = watcher(maps.clone(), config).default_backoff().applied_objects();
        pin_mut!(stream);
        let mut next = async || loop {
            if let Ok(object) = stream.next().await.expect("endless") {
                return object.data.unwrap_or_default()["key"].clone();
            }
        };
        let write = async |value: &str| {
            let patch = Patch::Merge(json!({"data": {"key": value}}));
            maps.patch("a", &PatchParams::default(), &patch).await.expect("patched");
        };
        write("1").await;
        assert_eq!(next().await, "1");
        write("2").await;
        assert_eq!(next().await, "2");
        server.faults().break_watches("");
        write("3").await;
        assert_eq!(next().await, "3");
        server.faults().break_watches("configmaps");
        server.write(Store::compact);
        write("4").await;
        while next().await != "4" {}
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_watch_wakes_up_for_a_later_change() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().client());
    let stream = maps.watch(&WatchParams::default(), "0").await.expect("watching");
    pin_mut!(stream);
    let late = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        maps.create(&PostParams::default(), &config_map("late", "1")).await.expect("created")
    };
    let (event, _) = tokio::join!(stream.next(), late);
    assert_eq!(summary(&event.expect("an event").expect("no error")), "added late");
}
