//! The controllers are allowed exactly what they do.

use std::collections::BTreeSet;

use axum::body::Body;

use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use karpenter_cloud::memory::NODE_CLASS;
use karpenter_controllers::optional_rbac;
use karpenter_controllers::rbac;
use karpenter_kube_harness::server::probe_routes;
use serde_json::json;
use tower::ServiceExt;

use crate::world::{MINUTE, World};

/// Group, resource with subresource, verb.
type Permission = (String, String, String);

/// Permission that a request needs: the path without `/api/v1` or `/apis/<group>/<version>`, namespaces and names.
pub(crate) fn needed(method: &str, path: &str) -> Permission {
    let mut parts = path.trim_start_matches('/').split('/');
    let group = if parts.next() == Some("apis") { parts.next().unwrap() } else { "" };
    let mut parts: Vec<&str> = parts.skip(1).collect();
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    let resource = match parts.as_slice() {
        [resource] | [resource, _] => (*resource).to_owned(),
        [resource, _, subresource] => format!("{resource}/{subresource}"),
        _ => panic!("unexpected path `{path}`"),
    };
    let verb = match (method, parts.len()) {
        ("WATCH", _) => "watch",
        ("GET", 1) => "list",
        ("GET", _) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        _ => panic!("unexpected method `{method}`"),
    };
    (group.to_owned(), resource, verb.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_named_by_the_probe_and_granting_it_is_enough() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    world.forbidden.add("storageclasses");
    let process = world.start();
    let probe = async || {
        let request = Request::get("/readyz").body(Body::empty()).unwrap();
        let answer = probe_routes(process.readiness.clone(), process.metrics.progress.clone())
            .oneshot(request)
            .await
            .unwrap();
        let (status, body) =
            (answer.status(), axum::body::to_bytes(answer.into_body(), 1 << 16).await.unwrap());
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    tokio::time::sleep(MINUTE).await;
    let (status, text) = probe().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.starts_with("the view of the cluster is not complete yet: StorageClass ("), "{text}");
    assert!(text.contains("storageclasses is forbidden"), "{text}");
    assert!(world.claims().is_empty(), "nothing is decided on half a view");
    world.forbidden.clear();
    world.all_running().await;
    assert_eq!(probe().await, (StatusCode::OK, "ok".to_owned()));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rights_the_reference_does_not_ask_for_can_be_done_without() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    for rule in optional_rbac() {
        for resource in rule.resources.unwrap() {
            world.forbidden.add(&resource);
        }
    }
    let process = world.start();
    world.all_running().await;
    let watched =
        || process.calls.granted().contains(&("WATCH".to_owned(), "/api/v1/limitranges".to_owned()));
    assert!(!watched());
    // Granting them later is enough.
    world.forbidden.clear();
    tokio::time::sleep(6 * MINUTE).await;
    assert!(watched());
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_call_is_allowed_and_every_permission_to_write_is_used() {
    let world = World::with_pool(&json!({})).await;
    world.load(&json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "none"},
        "spec": {"requirements": []},
    }));
    world.pod("web", "1");
    // Every status that may be written is.
    world.load(&json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"}, "spec": {},
    }));
    let process = world.start_gated(|gates| (gates.capacity_buffer, gates.node_overlay) = (true, true));
    world.all_running().await;
    // Gone because it is idle.
    world.delete::<Pod>("web").await;
    world.all_gone().await;
    // Gone because another client deletes it, pods and all.
    world.pod("api", "1");
    world.all_running().await;
    for claim in world.claims() {
        world.delete::<karpenter_api::NodeClaim>(claim.metadata.name.as_deref().unwrap()).await;
    }
    world.all_gone().await;

    let done: BTreeSet<Permission> =
        process.calls.seen().iter().map(|(method, path)| needed(method, path)).collect();
    let allowed: BTreeSet<Permission> = rbac(&[NODE_CLASS])
        .into_iter()
        .flat_map(|rule| {
            let group = rule.api_groups.unwrap().remove(0);
            let verbs = rule.verbs;
            rule.resources.unwrap().into_iter().flat_map(move |resource| {
                let group = group.clone();
                verbs.clone().into_iter().map(move |verb| (group.clone(), resource.clone(), verb))
            })
        })
        .collect();
    let missing: Vec<_> = done.difference(&allowed).collect();
    assert!(missing.is_empty(), "not allowed: {missing:?}");
    // Written elsewhere than on this path: events by the recorder's own sink, pods ahead of a deadline.
    let elsewhere = [("", "events", "create"), ("", "events", "patch"), ("", "pods", "delete")];
    let unused: Vec<_> = allowed
        .difference(&done)
        .filter(|(_, _, verb)| !["get", "list", "watch"].contains(&verb.as_str()))
        .filter(|(group, resource, verb)| !elsewhere.contains(&(group, resource, verb)))
        .collect();
    assert!(unused.is_empty(), "allowed and never needed: {unused:?}");
    process.stop().await;
}
