//! Events for listeners when a watch had to list again, and pods that cannot be read.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use karpenter_kube_harness::watch::{Seen, key};
use karpenter_lifecycle::step::RegistrationOutcome;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{World, list, woken};

fn pod(name: &str, version: u32, spec: &Value) -> v1::Pod {
    let metadata = json!({
        "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
    });
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn there_is_no_snapshot_before_every_needed_kind_was_listed() {
    fn empty<K: Followed>(view: &View) {
        assert!(view.unlisted().contains(&K::kind(&()).as_ref()));
        assert!(view.snapshot(jiff::Timestamp::UNIX_EPOCH).is_none());
        list::<K>(view, []);
    }
    let view = World::new().context.view;
    empty::<v1::Pod>(&view);
    empty::<Node>(&view);
    empty::<NodeClaim>(&view);
    empty::<NodePool>(&view);
    empty::<DaemonSet>(&view);
    empty::<PodDisruptionBudget>(&view);
    empty::<v1::Namespace>(&view);
    empty::<v1::PersistentVolumeClaim>(&view);
    empty::<v1::PersistentVolume>(&view);
    empty::<StorageClass>(&view);
    empty::<VolumeAttachment>(&view);
    assert!(view.unlisted().is_empty(), "{:?}", view.unlisted());
    assert!(view.snapshot(jiff::Timestamp::UNIX_EPOCH).is_some());
}

#[tokio::test(start_paused = true)]
async fn pods_that_vanish_while_a_watch_is_broken_are_told_to_be_gone() {
    let view = World::new().context.view;
    let gone = Arc::new(Mutex::new(BTreeSet::new()));
    let deleted = Arc::clone(&gone);
    view.subscribers().pods(move |seen| {
        if let PodSeen::Deleted(pod) = seen {
            deleted.lock().insert(pod.key.name.clone());
        }
    });
    let spec = json!({"containers": []});
    let pods = [pod("a", 1, &spec), pod("b", 2, &spec)];
    list(&view, pods.clone());
    list(&view, pods[..1].to_vec());
    assert_eq!(*gone.lock(), BTreeSet::from(["b".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_pod_wakes_its_node_only_once_that_is_deleted() {
    let World { context, .. } = World::new();
    let passes = woken(&context, |queue| context.view.subscribers().nodes(queue));
    let node = |version: u32, deleted: Option<&str>| -> Node {
        let metadata = json!({
            "name": "n1", "uid": "uid-n1", "resourceVersion": version.to_string(), "deletionTimestamp": deleted,
        });
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    };
    let bound =
        |version: u32| pod(&format!("p{version}"), version, &json!({"containers": [], "nodeName": "n1"}));
    for (deleted, version, often) in [(None, 1, 1), (Some("2026-01-01T00:00:00Z"), 3, 2)] {
        context.view.put_node(node(version, deleted));
        tokio::time::sleep(Duration::from_secs(1)).await;
        context.view.put_pod(&bound(version + 1), false);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(std::mem::take(&mut *passes.lock()).len(), often, "deleted: {deleted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_rules_that_cannot_be_read_counts_on_its_node_and_is_not_planned_for_without_one() {
    let view = World::new().context.view;
    let strange = |node: Value| {
        json!({
            "containers": [], "nodeName": node, "tolerations": [{"key": "a", "operator": "NotYetInvented"}],
        })
    };
    let pods = [pod("bound", 1, &strange(json!("n1"))), pod("waiting", 2, &strange(Value::Null))];
    list(&view, pods.clone());
    let on_node: Vec<_> = view.pods_on(&"n1".into()).iter().map(|pod| pod.key.name.to_string()).collect();
    assert_eq!(on_node, ["bound"]);
    assert!(view.pod(&pod_key(&key(&pods[1]))).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_beside_a_pool_goes_with_it_and_late_answers_do_not_bring_it_back() {
    let view = World::new().context.view;
    view.put_pool(crate::fixture::pool("web"));
    let registered = || view.note_registration(&"uid-web".into(), &RegistrationOutcome::Success, None);
    assert!(registered().is_some());
    assert!(view.types_problem(&"web".into(), Some("no prices")));
    view.take(Seen::Deleted(crate::fixture::pool("web")));
    assert!(registered().is_none());
    assert!(!view.types_problem(&"web".into(), Some("no prices")));
    view.put_pool(pool_again());
    assert!(view.types_problem(&"web".into(), Some("no prices")), "of another pool of the name it is news");
}

/// The pool made again after its end.
fn pool_again() -> NodePool {
    let mut pool = crate::fixture::pool("web");
    pool.metadata.uid = Some("uid-again".to_owned());
    pool.metadata.resource_version = Some("9".to_owned());
    pool
}

fn web_pool(version: u32, spec: &Value) -> NodePool {
    let mut pool = json!({
        "metadata": {"name": "web", "uid": "uid-web", "resourceVersion": version.to_string()},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"},
            "requirements": [],
        }}},
    });
    pool["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(pool).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_cannot_be_read_any_more_takes_no_part_until_it_can() {
    let view = World::new().context.view;
    let limits = |cpu: &str| json!({"limits": {"cpu": cpu}});
    let known = || view.pool(&"web".into()).is_some();
    view.put_pool(web_pool(2, &limits("10")));
    assert!(known());
    view.put_pool(web_pool(1, &limits("many")));
    assert!(known(), "a late answer says nothing new");
    view.put_pool(web_pool(3, &limits("many")));
    assert!(!known());
    view.with_cluster(|cluster| assert!(cluster.freeze(jiff::Timestamp::UNIX_EPOCH).pools.is_empty()));
    view.put_pool(web_pool(2, &limits("10")));
    view.put_pool(web_pool(4, &limits("20")));
    assert!(known());
    view.with_cluster(|cluster| assert_eq!(cluster.freeze(jiff::Timestamp::UNIX_EPOCH).pools.len(), 1));
}

#[tokio::test(start_paused = true)]
async fn claims_and_nodes_that_can_be_read_in_part_are_what_they_say_now() {
    let view = World::new().context.view;
    let claim = |version: u32, more: &Value| {
        let mut claim = json!({
            "metadata": {"name": "web-1", "uid": "uid", "resourceVersion": version.to_string()},
            "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"},
            },
            "status": {"providerID": "memory:///a/1", "conditions": []},
        });
        claim["status"]["capacity"] = json!({"cpu": if version == 1 { "2" } else { "much" }});
        claim["metadata"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value::<NodeClaim>(claim).unwrap()
    };
    view.put_claim(claim(1, &json!({})));
    let deletion =
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["karpenter.sh/termination"]});
    view.put_claim(claim(2, &deletion));
    let known = view.claim(&"web-1".into()).expect("it is there");
    assert!(known.model.deletion.is_some(), "it is being deleted, readable or not");
    assert_eq!(view.claims_of(&"memory:///a/1".into()).len(), 1, "its machine is wanted");
    let node = |version: u32, effect: &str| {
        serde_json::from_value::<Node>(json!({
            "metadata": {"name": "n", "uid": "uid", "resourceVersion": version.to_string()},
            "spec": {"providerID": "memory:///a/1", "taints": [{"key": "t", "effect": effect}]},
            "status": {"conditions": [{"type": "Ready", "status": if version == 1 { "True" } else { "False" }}]},
        }))
        .unwrap()
    };
    view.put_node(node(1, "NoSchedule"));
    view.put_node(node(2, "NotYetInvented"));
    let known = view.node(&"n".into()).expect("it is there");
    assert!(!known.model.is_ready());
    assert_eq!(known.model.taints[0].to_string(), "t:NoSchedule");
}

#[tokio::test(start_paused = true)]
async fn who_wrote_which_field_is_not_kept() {
    let view = World::new().context.view;
    let managed =
        json!([{"manager": "kubectl", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {}}]);
    let class = json!({"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"});
    let mut pool = web_pool(1, &json!({}));
    pool.metadata.managed_fields = serde_json::from_value(managed.clone()).unwrap();
    view.put_pool(pool);
    assert_eq!(view.pool(&"web".into()).unwrap().object.metadata.managed_fields, None);
    let claim = json!({
        "metadata": {"name": "web-1", "uid": "uid", "resourceVersion": "1", "managedFields": managed},
        "spec": {"requirements": [], "nodeClassRef": class},
    });
    view.put_claim(serde_json::from_value(claim).unwrap());
    assert_eq!(view.claim(&"web-1".into()).unwrap().object.metadata.managed_fields, None);
}
