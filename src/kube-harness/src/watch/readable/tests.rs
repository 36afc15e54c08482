//! Objects that do not fit their type, alone and between others in a watch.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::NodePool;
use karpenter_kube_sim::apiserver::{ApiServer, Fault, Rule};
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::fixture;

fn pool(name: &str, policy: &str) -> Value {
    let class = json!({"group": "g", "kind": "K", "name": "n"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"requirements": [], "nodeClassRef": class}},
            "disruption": {"consolidationPolicy": policy},
        },
    })
}

#[test]
fn what_does_not_fit_its_type_keeps_its_metadata_and_names_the_field() {
    let read: Readable<NodePool> = serde_json::from_value(pool("web", "Sometimes")).unwrap();
    assert_eq!(read.name_any(), "web");
    let Readable::Undecoded(object) = read else { panic!("`Sometimes` is no policy") };
    assert!(object.problem.starts_with("spec.disruption.consolidationPolicy: "), "{}", object.problem);
    assert_eq!(object.text("/spec/template/spec/nodeClassRef/name"), Some("n"));
    let read: Readable<NodePool> = serde_json::from_value(pool("web", "WhenEmpty")).unwrap();
    assert!(matches!(read, Readable::Whole(pool) if pool.name_any() == "web"));
}

/// Node pools whose definition takes anything.
fn lenient() -> ApiServer {
    let server = fixture::server();
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for mut definition in karpenter_api::crd::crd_values() {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = anything.clone();
        server.load(&definition).unwrap();
    }
    server
}

/// Follows the node pools of `server` and keeps what was said.
fn following(server: &ApiServer) -> Arc<Mutex<Vec<String>>> {
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let (api, keeps) = (Api::<Readable<NodePool>>::all(server.client()), Arc::clone(&said));
    tokio::spawn(async move {
        let listener = |seen: Seen<Readable<NodePool>>| {
            let of = |verb: &str, object: &Readable<NodePool>| match object {
                Readable::Whole(pool) => format!("{verb} {}", pool.name_any()),
                Readable::Undecoded(object) => format!("{verb} undecoded {}", object.key().1),
            };
            let text = match seen {
                Seen::Listing => "listing".to_owned(),
                Seen::Listed(object) => of("listed", &object),
                Seen::Applied(object) => of("applied", &object),
                Seen::Deleted(object) => of("deleted", &object),
                Seen::Complete(keys) => format!("complete {}", keys.len()),
            };
            keeps.lock().push(text);
        };
        follow_readable("NodePool", api, &Troubles::default(), CancellationToken::new(), listener).await;
    });
    said
}

/// Returns the events since the last call, once nothing more comes for a minute.
async fn since(said: &Mutex<Vec<String>>) -> Vec<String> {
    sleep(Duration::from_mins(1)).await;
    std::mem::take(&mut *said.lock())
}

async fn label(server: &ApiServer, name: &str) {
    let api: Api<DynamicObject> =
        Api::all_with(server.client(), &kube::api::ApiResource::erase::<NodePool>(&()));
    let change = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    api.patch(name, &PatchParams::default(), &change).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_hides_no_other_whether_lists_are_streamed_or_not() {
    for streamed in [true, false] {
        let server = lenient();
        server.load(&pool("bad", "Sometimes")).unwrap();
        server.load(&pool("good", "WhenEmpty")).unwrap();
        if !streamed {
            let rule = Rule::on("watch").resource("nodepools").times(1);
            server.faults().inject(rule, Fault::refuse(422, "Invalid", ""));
        }
        let said = following(&server);
        let listed = since(&said).await;
        assert!(
            listed.ends_with(&["listed undecoded bad", "listed good", "complete 2"].map(str::to_owned)),
            "{listed:?}"
        );
        server.load(&pool("later", "Often")).unwrap();
        label(&server, "good").await;
        assert_eq!(since(&said).await, ["applied undecoded later", "applied good"], "{streamed}");
    }
}

#[test]
fn each_version_is_logged_once() {
    let mut logged = Logged::default();
    let seen = |version: &str| {
        let mut value = pool("bad", "Sometimes");
        value["metadata"]["resourceVersion"] = json!(version);
        Seen::Applied(serde_json::from_value::<Readable<NodePool>>(value).unwrap())
    };
    for version in ["1", "1", "2"] {
        logged.note("NodePool", &seen(version));
        assert_eq!(logged.0.values().next(), Some(&Some(version.to_owned())));
    }
    logged.note::<NodePool>("NodePool", &Seen::Complete(std::collections::BTreeSet::new()));
    assert!(logged.0.is_empty(), "what is gone is forgotten");
}
