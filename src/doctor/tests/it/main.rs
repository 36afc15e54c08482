//! The doctor against an account and an API server in memory: what it asks, what it cannot ask, what it repairs.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a helper that meets the unexpected says so and fails its test"
)]

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::EC2NodeClass;
use karpenter_aws_client::memory::{Account, Fault, Options};
use karpenter_doctor::diagnose::{Report, diagnose};
use karpenter_doctor::facts::Answer;
use karpenter_doctor::repair::{Hands, Repair, RepairError, repair};
use karpenter_doctor::{Facts, gather};
use karpenter_sim::VirtualClock;
use karpenter_sim::apiserver::ApiServer;
use kube::Api;
use serde_json::{Value, json};

const CLUSTER: &str = "demo";

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// An API server with our definitions and these objects.
fn server(objects: &[Value]) -> ApiServer {
    let server = ApiServer::new(Arc::new(VirtualClock::starting_at(now())));
    for crd in karpenter_api::crd_values() {
        server.load(&crd).unwrap();
    }
    for object in objects {
        server.load(object).unwrap_or_else(|refusal| panic!("{object}: {refusal:?}"));
    }
    server
}

async fn examine(account: &Account, server: &ApiServer) -> (Facts, Report) {
    let mut facts = Facts::new(CLUSTER, now());
    facts.cluster = gather::cluster(&server.client()).await;
    facts.account = gather::account(&account.clients(), CLUSTER, &facts.cluster).await;
    let report = diagnose(&facts, &[]);
    (facts, report)
}

fn ids(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.id).collect()
}

fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "KarpenterNodeRole-demo",
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "amiSelectorTerms": [{"alias": "al2023@v20250101"}],
        },
    })
}

#[tokio::test]
async fn everything_is_asked_and_answered() {
    let (facts, report) = examine(&Account::new(Options::default()), &server(&[class()])).await;
    let answers = serde_json::to_value(&facts).unwrap();
    for part in ["account", "cluster"] {
        for (name, answer) in answers[part].as_object().unwrap() {
            assert!(answer.get("seen").is_some(), "{part}.{name}: {answer}");
        }
    }
    assert_eq!(report.unseen, []);
    // Nobody has made the node role in this account yet.
    assert_eq!(ids(&report), ["P-20"], "{:#?}", report.findings);
}

#[tokio::test]
async fn a_refused_call_keeps_its_checks_from_looking_and_no_others() {
    let account = Account::new(Options::default());
    account.inject(Fault::fail("DescribeSecurityGroups", "UnauthorizedOperation"));
    let (facts, report) = examine(&account, &server(&[])).await;
    assert!(matches!(facts.account.security_groups, Answer::Unseen(_)));
    let unseen: Vec<_> = report.unseen.iter().map(|unseen| unseen.id).collect();
    assert_eq!(unseen, ["P-17"], "{:?}", report.unseen);
    assert!(report.unseen[0].why.contains("UnauthorizedOperation"), "{:?}", report.unseen);
}

#[tokio::test]
async fn definitions_that_are_not_installed_are_no_refusal() {
    let bare = ApiServer::new(Arc::new(VirtualClock::starting_at(now())));
    let cluster = gather::cluster(&bare.client()).await;
    assert_eq!(cluster.node_pools, Answer::Seen(Vec::new()));
    assert_eq!(cluster.node_classes, Answer::Seen(Vec::new()));
}

#[tokio::test]
async fn pods_are_asked_for_without_their_variables() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "PASSWORD", "value": "secret"}]}]},
    });
    let cluster = gather::cluster(&server(&[pod]).client()).await;
    let text = serde_json::to_string(&cluster).unwrap();
    assert!(text.contains("\"name\":\"p\"") && !text.contains("secret"));
}

#[tokio::test]
async fn the_spot_role_is_made_once_however_often_asked() {
    let account = Account::new(Options { spot_service_linked_role: false, ..Options::default() });
    let server = server(&[]);
    let (_, report) = examine(&account, &server).await;
    assert_eq!(ids(&report), ["P-16"]);
    let wanted = report.findings[0].evidence[0].repair.clone().unwrap();
    let hands = Hands { aws: Some(account.clients()), kubernetes: None };
    for _ in 0..2 {
        repair(&hands, &wanted, "1").await.unwrap();
    }
    assert_eq!(ids(&examine(&account, &server).await.1), Vec::<&str>::new());
}

#[tokio::test]
async fn a_node_that_nobody_ends_is_let_go() {
    let server = server(&[json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "finalizers": ["karpenter.sh/termination", "example.com/other"]},
    })]);
    let nodes: Api<Node> = Api::all(server.client());
    nodes.delete("n", &kube::api::DeleteParams::default()).await.unwrap();
    let account = Account::new(Options::default());
    let (_, report) = examine(&account, &server).await;
    assert_eq!(ids(&report), ["D-10"], "{:#?}", report.findings);
    let wanted = report.findings[0].evidence[0].repair.clone().unwrap();
    let hands = Hands { kubernetes: Some(server.client()), aws: None };
    repair(&hands, &wanted, "1").await.unwrap();
    let left = nodes.get("n").await.unwrap().metadata.finalizers;
    assert_eq!(left, Some(vec!["example.com/other".to_owned()]), "only ours is removed");
    assert_eq!(ids(&examine(&account, &server).await.1), Vec::<&str>::new());
    repair(&hands, &Repair::DropFinalizer { node: "gone".to_owned() }, "1").await.unwrap();
}

#[tokio::test]
async fn torn_definitions_are_given_to_one_release() {
    let server = server(&[]);
    let hands = Hands { kubernetes: Some(server.client()), aws: None };
    let give = |definition: &str| Repair::GiveToRelease {
        definition: definition.to_owned(),
        release: "karpenter-crd".to_owned(),
        namespace: "kube-system".to_owned(),
    };
    repair(&hands, &give("nodepools.karpenter.sh"), "1").await.unwrap();
    let account = Account::new(Options::default());
    let (_, report) = examine(&account, &server).await;
    assert_eq!(ids(&report), ["D-09"]);
    assert_eq!(report.findings[0].evidence.len(), 4, "the other definitions");
    for evidence in &report.findings[0].evidence {
        repair(&hands, evidence.repair.as_ref().unwrap(), "1").await.unwrap();
    }
    assert_eq!(ids(&examine(&account, &server).await.1), Vec::<&str>::new());
}

#[tokio::test]
async fn a_class_is_touched_to_be_validated_anew() {
    let server = server(&[class()]);
    let hands = Hands { kubernetes: Some(server.client()), aws: None };
    repair(&hands, &Repair::Touch { class: "default".to_owned() }, "2026").await.unwrap();
    let found = Api::<EC2NodeClass>::all(server.client()).get("default").await.unwrap();
    assert_eq!(found.metadata.annotations.unwrap()["karpenter.k8s.aws/validate-again"], "2026");
}

#[tokio::test]
async fn a_repair_without_client_or_with_a_refusal_is_an_error_that_says_which() {
    let touch = Repair::Touch { class: "default".to_owned() };
    let error = repair(&Hands::default(), &touch, "1").await.unwrap_err();
    assert!(
        matches!(error, RepairError::NoHands { .. }) && error.to_string().contains("EC2NodeClass default")
    );
    let hands = Hands { kubernetes: Some(server(&[]).client()), aws: None };
    assert!(matches!(repair(&hands, &touch, "1").await, Err(RepairError::Kubernetes { .. })));
}
