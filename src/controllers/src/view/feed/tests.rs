//! What listeners hear when a watch had to list anew, and what becomes of pods that cannot be read.

use std::collections::BTreeSet;
use std::sync::Mutex;

use karpenter_lifecycle::step::RegistrationOutcome;
use serde_json::{Value, json};

use super::*;
use crate::fixture::World;
use crate::watch::key;

fn pod(name: &str, version: u32, spec: &Value) -> Pod {
    let metadata = json!({
        "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
    });
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Lists `pods` and nothing else.
fn list(feed: &mut Feed, view: &View, pods: &[Pod]) {
    feed.pod(view, Seen::Listing);
    for pod in pods {
        feed.pod(view, Seen::Listed(pod.clone()));
    }
    feed.pod(view, Seen::Complete(pods.iter().map(key).collect()));
}

#[tokio::test(start_paused = true)]
async fn pods_that_vanish_while_a_watch_is_broken_are_told_to_be_gone() {
    let view = World::new().context.view;
    let gone = Arc::new(Mutex::new(BTreeSet::new()));
    let told = Arc::clone(&gone);
    view.subscribers().pods(move |seen| {
        if let PodSeen::Deleted(pod) = seen {
            told.lock().unwrap().insert(pod.key.name.clone());
        }
    });
    let spec = json!({"containers": []});
    let (mut feed, pods) = (Feed::default(), [pod("a", 1, &spec), pod("b", 2, &spec)]);
    list(&mut feed, &view, &pods);
    list(&mut feed, &view, &pods[..1]);
    assert_eq!(*gone.lock().unwrap(), BTreeSet::from(["b".into()]));
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
    list(&mut Feed::default(), &view, &pods);
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
    Feed::default().pool(&view, Seen::Deleted(crate::fixture::pool("web")));
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
