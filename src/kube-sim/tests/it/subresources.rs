//! Eviction, binding, scale, and faults on purpose.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use karpenter_kube_sim::apiserver::{Fault, Rule};
use kube::{
    Api,
    api::{EvictParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::world::{code, pod, running_pod, server, typed};

async fn budget(budgets: &Api<PodDisruptionBudget>, name: &str, spec: Value) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let budget = typed(json!({"metadata": {"name": name}, "spec": spec}));
    budgets.create(&PostParams::default(), &budget).await.expect("created");
}

#[tokio::test(start_paused = true)]
async fn eviction_asks_the_budget_and_says_why_not() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(server.client());
    running_pod(&pods, "a", "n").await;
    running_pod(&pods, "b", "n").await;
    budget(&budgets, "pdb", json!({"minAvailable": 1})).await;
    pods.evict("a", &EvictParams::default()).await.expect("one may go");
    let refused = pods.evict("b", &EvictParams::default()).await.expect_err("the last may not");
    let kube::Error::Api(status) = refused else { panic!("expected a refusal, got {refused:?}") };
    assert_eq!(status.code, 429);
    let cause = &status.details.as_ref().expect("details").causes[0];
    assert_eq!(cause.reason, "DisruptionBudget");
    assert!(
        cause.message.contains("disruption budget pdb needs 1 healthy pods and has 1 currently"),
        "{}",
        cause.message
    );
}

#[tokio::test(start_paused = true)]
async fn a_written_status_of_a_budget_is_binding_and_spent() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(server.client());
    for name in ["a", "b", "c"] {
        running_pod(&pods, name, "n").await;
    }
    budget(&budgets, "pdb", json!({"minAvailable": 0})).await;
    let status = json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 0, "expectedPods": 3}});
    budgets.patch_status("pdb", &PatchParams::default(), &Patch::Merge(status)).await.expect("written");
    pods.evict("a", &EvictParams::default()).await.expect("one may go");
    assert_eq!(code(pods.evict("b", &EvictParams::default()).await), 429);
}

#[tokio::test(start_paused = true)]
async fn two_budgets_over_one_pod_are_an_error_and_an_idle_pod_needs_none() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(server.client());
    running_pod(&pods, "a", "n").await;
    pods.create(&PostParams::default(), &pod("pending")).await.expect("created");
    budget(&budgets, "one", json!({"maxUnavailable": 0})).await;
    assert_eq!(code(pods.evict("a", &EvictParams::default()).await), 429);
    pods.evict("pending", &EvictParams::default()).await.expect("nothing runs");
    budget(&budgets, "two", json!({"maxUnavailable": 0})).await;
    assert_eq!(code(pods.evict("a", &EvictParams::default()).await), 500);
}

/// Makes a pod that runs stop being ready.
async fn fail(pods: &Api<Pod>, name: &str) {
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.expect("written");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_ready_goes_without_asking_while_enough_others_are() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(server.client());
    for name in ["a", "b", "c"] {
        running_pod(&pods, name, "n").await;
    }
    fail(&pods, "a").await;
    budget(&budgets, "pdb", json!({"minAvailable": 2})).await;
    assert_eq!(code(pods.evict("b", &EvictParams::default()).await), 429);
    pods.evict("a", &EvictParams::default()).await.expect("it is not one of the two");
    fail(&pods, "b").await;
    assert_eq!(code(pods.evict("b", &EvictParams::default()).await), 429);
}

/// As in a real cluster: the condition of the API server is `currentHealthy >= desiredHealthy && desiredHealthy > 0`.
#[tokio::test(start_paused = true)]
async fn a_budget_that_wants_no_healthy_pod_counts_a_pod_that_is_not_ready() {
    for (policy, may_go) in [(None, false), (Some("IfHealthyBudget"), false), (Some("AlwaysAllow"), true)] {
        let server = server();
        let pods: Api<Pod> = Api::default_namespaced(server.client());
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(server.client());
        running_pod(&pods, "a", "n").await;
        fail(&pods, "a").await;
        let mut spec = json!({"maxUnavailable": "100%"});
        if let Some(policy) = policy {
            spec["unhealthyPodEvictionPolicy"] = json!(policy);
        }
        budget(&budgets, "pdb", spec).await;
        let evicted = pods.evict("a", &EvictParams::default()).await;
        assert_eq!(evicted.is_ok(), may_go, "{policy:?}: {evicted:?}");
        if !may_go {
            assert_eq!(code(evicted), 429, "{policy:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn eviction_keeps_to_the_uid_it_was_asked_for() {
    let pods: Api<Pod> = Api::default_namespaced(server().client());
    running_pod(&pods, "a", "n").await;
    let eviction = |uid: &str| {
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"},
            "deleteOptions": {"preconditions": {"uid": uid}},
        })
    };
    let params = PostParams::default();
    let refused: Result<Value, _> =
        pods.create_subresource("eviction", "a", &params, &eviction("other")).await;
    assert_eq!(code(refused), 409);
    assert_eq!(code(pods.evict("missing", &EvictParams::default()).await), 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    pods.create(&PostParams::default(), &pod("a")).await.expect("created");
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    let _: Value =
        pods.create_subresource("binding", "a", &PostParams::default(), &binding).await.expect("bound");
    let bound = pods.get("a").await.expect("found");
    assert_eq!(bound.spec.and_then(|s| s.node_name).as_deref(), Some("n1"));
    let again: Result<Value, _> =
        pods.create_subresource("binding", "a", &PostParams::default(), &binding).await;
    assert_eq!(code(again), 409);
}

#[tokio::test(start_paused = true)]
async fn scale_reads_and_writes_replicas() {
    let deployments: Api<Deployment> = Api::default_namespaced(server().client());
    let deployment = typed(json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "x"}]}}}}));
    deployments.create(&PostParams::default(), &deployment).await.expect("created");
    let patch = Patch::Merge(json!({"spec": {"replicas": 5}}));
    deployments.patch_scale("d", &PatchParams::default(), &patch).await.expect("scaled");
    let scale = deployments.get_scale("d").await.expect("read");
    assert_eq!(scale.spec.and_then(|s| s.replicas), Some(5));
    assert_eq!(scale.status.and_then(|s| s.selector).as_deref(), Some("app=web"));
    assert_eq!(deployments.get("d").await.expect("found").metadata.generation, Some(2));
}

#[tokio::test(start_paused = true)]
async fn faults_hit_what_they_are_aimed_at() {
    let server = server();
    let nodes: Api<Node> = Api::all(server.client());
    nodes.create(&PostParams::default(), &typed(json!({"metadata": {"name": "n"}}))).await.expect("created");
    server.faults().inject(Rule::on("get").resource("nodes").times(1), Fault::Conflict);
    server.faults().inject(Rule::on("get").resource("nodes").times(1), Fault::InternalError);
    server.faults().inject(Rule::any(), Fault::Delay(Duration::from_secs(7)));
    assert_eq!(code(nodes.get("n").await), 409);
    assert_eq!(code(nodes.get("n").await), 500);
    let begun = tokio::time::Instant::now();
    nodes.get("n").await.expect("answered");
    assert_eq!(begun.elapsed().as_secs(), 7);
}
