//! The doctor against an account and an API server in memory: what it asks, what it cannot ask, what it repairs.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a helper that meets the unexpected says so and fails its test"
)]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use karpenter_api::EC2NodeClass;
use karpenter_aws_api::ec2::{SecurityGroupQuery, SubnetQuery};
use karpenter_aws_api::iam::RoleSpec;
use karpenter_aws_sdk as sdk;
use karpenter_aws_sim::{Account, Fault, Options, examples};
use karpenter_doctor::diagnose::{Health, Report, diagnose};
use karpenter_doctor::facts::{Answer, Names};
use karpenter_doctor::repair::{Connections, Repair, RepairError, repair};
use karpenter_doctor::{Facts, gather};
use karpenter_kube_sim::VirtualClock;
use karpenter_kube_sim::apiserver::ApiServer;
use kube::Api;
use serde_json::{Value, json};

const CLUSTER: &str = "demo";

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// An API server with our definitions and these objects.
fn server(objects: &[Value]) -> ApiServer {
    server_of(karpenter_api::crd_values(), objects)
}

fn server_of(definitions: Vec<Value>, objects: &[Value]) -> ApiServer {
    let server = ApiServer::new(Arc::new(VirtualClock::starting_at(now())));
    for mut crd in definitions {
        crd["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("Helm");
        crd["metadata"]["annotations"]["meta.helm.sh/release-name"] = json!("karpenter-crd");
        crd["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = json!("kube-system");
        server.load(&crd).unwrap();
    }
    for object in objects {
        server.load(object).unwrap_or_else(|refusal| panic!("{object}: {refusal:?}"));
    }
    server
}

async fn examine(account: &Account, server: &ApiServer) -> (Facts, Report) {
    examine_at(now(), account, server).await
}

async fn examine_at(now: Timestamp, account: &Account, server: &ApiServer) -> (Facts, Report) {
    let names = Names {
        node_role: "KarpenterNodeRole-demo".to_owned(),
        controller_role: "demo-karpenter".to_owned(),
        queue: "demo".to_owned(),
    };
    let mut facts = Facts::new(CLUSTER, names, now);
    facts.cluster = gather::cluster(&server.client()).await;
    facts.account = gather::account(&account.clients(), &facts).await;
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
    // The node role has not been made in this account yet.
    assert_eq!(ids(&report), ["P-20"], "{:#?}", report.findings);
}

#[tokio::test]
async fn classes_may_select_by_id_and_then_nothing_needs_a_tag() {
    let account = Account::new(Options::default());
    let ec2 = account.clients().ec2;
    let subnets = ec2.describe_subnets(&SubnetQuery::default()).await.unwrap();
    let groups = ec2.describe_security_groups(&SecurityGroupQuery::default()).await.unwrap();
    let ids_of_all = subnets.iter().map(|found| found.id.to_string());
    let ids_of_all: Vec<String> = ids_of_all.chain(groups.iter().map(|found| found.id.to_string())).collect();
    ec2.delete_tags(&ids_of_all, &["karpenter.sh/discovery".to_owned()]).await.unwrap();
    let networks = ["P-17", "D-18"].map(str::to_owned);
    // Nothing has the tag, and the class selects by it.
    let (facts, _) = examine(&account, &server(&[class()])).await;
    let report = diagnose(&facts, &networks);
    assert_eq!((ids(&report), report.health()), (vec!["P-17", "D-18"], Health::Unhealthy));
    let mut class = class();
    class["spec"]["subnetSelectorTerms"] = json!([{"id": subnets[0].id.as_str()}, {"id": "subnet-gone"}]);
    class["spec"]["securityGroupSelectorTerms"] = json!([{"name": groups[0].name}]);
    let (facts, _) = examine(&account, &server(&[class])).await;
    assert_eq!(ids(&diagnose(&facts, &networks)), Vec::<&str>::new());
    assert_eq!(facts.account.subnets.get().unwrap().len(), 1);
    // Without a class nothing selects anything yet.
    let (facts, _) = examine(&account, &server(&[])).await;
    let report = diagnose(&facts, &networks);
    assert_eq!((ids(&report), report.health()), (vec!["P-17", "D-18"], Health::Healthy));
}

/// Makes the controller's role with a boundary that allows everything on these resources, and reading that knows none.
async fn bound(account: &Account, resources: &[&str]) {
    let clients = account.clients();
    let policy = async |name: &str, resources: &[&str]| {
        let reading = json!({"Effect": "Allow", "Action": ["ec2:Describe*", "pricing:*"], "Resource": "*"});
        let statements = [reading, json!({"Effect": "Allow", "Action": "*", "Resource": resources})];
        let document = json!({"Version": "2012-10-17", "Statement": statements});
        clients.iam.create_policy(&examples::policy(name, &document.to_string())).await.unwrap().arn
    };
    let boundary = policy("boundary", resources).await;
    let grants = policy("grants", &["*"]).await;
    let role = RoleSpec {
        trust: json!({"Version": "2012-10-17", "Statement": []}).to_string(),
        permissions_boundary: Some(boundary),
        ..examples::role("demo-karpenter")
    };
    clients.iam.create_role(&role).await.unwrap();
    clients.iam.attach_role_policy("demo-karpenter", &grants).await.unwrap();
}

#[tokio::test]
async fn a_boundary_is_asked_about_what_the_controller_handles() {
    let services = ["ec2:us-west-2", "eks:us-west-2", "iam:", "sqs:us-west-2", "ssm:us-west-2"];
    let all = services.map(|service| format!("arn:aws:{service}:*"));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let only = ["P-4".to_owned()];
    let narrow = Account::new(Options::default());
    bound(&narrow, &all).await;
    let (facts, _) = examine(&narrow, &server(&[])).await;
    assert_eq!(ids(&diagnose(&facts, &only)), Vec::<&str>::new());
    let narrower = Account::new(Options::default());
    bound(&narrower, &all[1..]).await;
    let (facts, _) = examine(&narrower, &server(&[])).await;
    let report = diagnose(&facts, &only);
    assert_eq!(ids(&report), ["P-4"]);
    let seen = &report.findings[0].evidence[0].seen;
    assert!(seen.contains("ec2:RunInstances") && !seen.contains("sqs:ReceiveMessage"), "{seen}");
}

#[tokio::test]
async fn variables_of_a_map_in_another_namespace_are_asked_for() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "k", "namespace": "default", "labels": {"app.kubernetes.io/name": "karpenter"}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "m"}}]}]},
        }},
    });
    let map = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
            "data": {"INTERRUPTION_QUEUE": name},
        })
    };
    let cluster = gather::cluster(&server(&[deployment, map("m"), map("other")]).client()).await;
    assert_eq!(cluster.setting("INTERRUPTION_QUEUE"), Ok(Some("m".to_owned())));
    assert_eq!(cluster.config_maps.get().unwrap().len(), 1, "others are nobody's business");
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

/// A pool whose policy this release does not know, as a newer one could write it, beside one that c1.medium is allowed in.
fn pools() -> [Value; 2] {
    let pool = |name: &str, policy: &str| {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        let key = "node.kubernetes.io/instance-type";
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {
                "disruption": {"consolidateAfter": "0s", "consolidationPolicy": policy},
                "template": {"spec": {
                    "nodeClassRef": class,
                    "requirements": [{"key": key, "operator": "In", "values": ["c1.medium"]}],
                }},
            },
        })
    };
    [pool("newer", "Sometimes"), pool("small", "WhenEmpty")]
}

#[tokio::test]
async fn a_pool_that_cannot_be_decoded_hides_no_other() {
    let mut definitions = karpenter_api::crd_values();
    let policy = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/disruption/properties/consolidationPolicy";
    let widened = definitions.iter_mut().find_map(|crd| crd.pointer_mut(policy)).unwrap();
    widened.as_object_mut().unwrap().remove("enum").unwrap();
    let server = server_of(definitions, &pools());
    let (_, report) = examine(&Account::new(Options::default()), &server).await;
    assert_eq!(ids(&report), ["D-11", "D-46"], "{report:#?}");
    assert_eq!(report.findings[0].evidence[0].object, "NodePool small");
    let [undecoded] = report.findings[1].evidence.as_slice() else { panic!("{report:#?}") };
    assert_eq!(undecoded.object, "NodePool newer");
    assert!(undecoded.seen.contains("spec.disruption.consolidationPolicy: "), "{}", undecoded.seen);
    // Checks that found nothing in the other pools have not looked at all of them.
    let unseen = report.unseen_by_reason();
    let reasons: Vec<&str> = unseen.keys().copied().collect();
    assert_eq!(reasons, ["NodePool newer cannot be decoded, see D-46"]);
    assert_eq!(unseen[reasons[0]], ["D-45"]);
}

#[tokio::test]
async fn definitions_that_are_not_installed_are_no_refusal() {
    let bare = ApiServer::new(Arc::new(VirtualClock::starting_at(now())));
    let cluster = gather::cluster(&bare.client()).await;
    assert!(cluster.node_pools.get().unwrap().decoded().is_empty());
    assert!(cluster.node_classes.get().unwrap().decoded().is_empty());
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

/// An API server that has a controller of one replica, and refuses everything else; its log if it is asked for like this.
async fn with_controller(mut log_query: Vec<(&str, &str)>) -> mockito::ServerGuard {
    let mut server = mockito::Server::new_async().await;
    let labels = json!({"app.kubernetes.io/name": "karpenter"});
    let metadata = |name: &str| json!({"name": name, "namespace": "karpenter", "labels": labels});
    let containers = json!({"containers": [{"name": "controller", "image": "karpenter"}]});
    let deployment = json!({
        "metadata": metadata("karpenter"),
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": containers}},
    });
    let pod =
        json!({"metadata": metadata("karpenter-1"), "spec": containers, "status": {"phase": "Running"}});
    let refusal = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "nodes is forbidden",
    });
    let any = mockito::Matcher::Any;
    for (path, item) in [("/apis/apps/v1/deployments", deployment), ("/api/v1/pods", pod)] {
        let list = json!({"metadata": {}, "items": [item]});
        let mock = server.mock("GET", path).match_query(any.clone());
        mock.with_body(list.to_string()).create_async().await;
    }
    log_query.push(("container", "controller"));
    let query =
        log_query.iter().map(|(key, value)| mockito::Matcher::UrlEncoded((*key).into(), (*value).into()));
    let log = server.mock("GET", "/api/v1/namespaces/karpenter/pods/karpenter-1/log");
    log.match_query(mockito::Matcher::AllOf(query.collect())).with_body("one\ntwo\n").create_async().await;
    // The first mock that fits and was not asked yet answers, so this one comes last.
    server.mock("GET", any).with_status(403).with_body(refusal.to_string()).create_async().await;
    server
}

#[tokio::test]
async fn the_log_is_asked_for_its_end_as_long_as_events_are_kept() {
    let server = with_controller(vec![("tailLines", "2000"), ("sinceSeconds", "3600")]).await;
    let client = kube::Client::try_from(kube::Config::new(server.url().parse().unwrap())).unwrap();
    let cluster = gather::cluster(&client).await;
    assert_eq!(cluster.log, Answer::Seen(vec!["one".to_owned(), "two".to_owned()]));
}

#[tokio::test]
async fn a_refusal_of_the_api_server_names_the_right_to_add() {
    let server = with_controller(vec![("never", "asked")]).await;
    let client = kube::Client::try_from(kube::Config::new(server.url().parse().unwrap())).unwrap();
    let cluster = gather::cluster(&client).await;
    for (answer, expected) in [
        (
            cluster.nodes.get().unwrap_err(),
            "cannot list nodes: 403 nodes is forbidden; grant the caller `list` on `nodes`",
        ),
        (
            cluster.node_pools.get().map(|_| ()).unwrap_err(),
            "grant the caller `list` on `nodepools.karpenter.sh`",
        ),
        (cluster.log.get().unwrap_err(), "grant the caller `get` on `pods/log`"),
    ] {
        assert!(answer.0.ends_with(expected), "{}", answer.0);
    }
}

#[tokio::test]
async fn a_refusal_of_aws_names_the_action_to_allow() {
    let account = Account::new(Options::default());
    account.inject(Fault::fail("GetAccountSummary", "AccessDenied"));
    let (facts, _) = examine(&account, &server(&[])).await;
    let why = facts.account.identity_limits.get().unwrap_err().0;
    assert!(why.ends_with("grant the caller this action on this resource: `iam:GetAccountSummary`"), "{why}");
}

/// Returns the SDK's error when a call to this endpoint fails.
async fn failed_call(endpoint_url: String) -> String {
    let config = sdk::Config {
        region: Some("us-west-2".to_owned()),
        endpoint_url: Some(endpoint_url),
        credentials: sdk::Credentials::Emulator,
        retries: sdk::Retries::Never,
        ..sdk::Config::default()
    };
    sdk::connect(config).await.unwrap().sts.get_caller_identity().await.unwrap_err().to_string()
}

/// The error has no host, which the texts of the reference have.
#[tokio::test]
async fn failed_calls_of_this_controller_are_known_by_what_the_sdk_says() {
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // A label has 63 characters at most, so that no resolver knows the name.
    let unknown = format!("http://{}.invalid", "a".repeat(64));
    let (mut facts, _) = examine(&Account::new(Options::default()), &server(&[])).await;
    for (endpoint, expected) in [(format!("http://{refused}"), "P-13"), (unknown, "D-03")] {
        let text = failed_call(endpoint).await;
        assert!(!text.contains("amazonaws.com"), "{text}");
        facts.cluster.log = Answer::Seen(vec![text.clone()]);
        let report = diagnose(&facts, &["P-13".to_owned(), "D-03".to_owned(), "D-38".to_owned()]);
        assert_eq!(ids(&report), [expected], "{text}");
    }
}

#[tokio::test]
async fn the_spot_role_is_made_once_however_often_asked() {
    let account = Account::new(Options { spot_service_linked_role: false, ..Options::default() });
    let server = server(&[]);
    let (_, report) = examine(&account, &server).await;
    assert_eq!(ids(&report), ["P-16"]);
    let wanted = report.findings[0].evidence[0].repair.clone().unwrap();
    let connections = Connections { aws: Some(account.clients()), kubernetes: None };
    for _ in 0..2 {
        repair(&connections, &wanted, "1").await.unwrap();
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
    assert_eq!((ids(&report), &report.findings[0].evidence[0].repair), (vec!["D-10"], &None));
    let later = now() + SignedDuration::from_mins(15);
    let (_, report) = examine_at(later, &account, &server).await;
    assert_eq!(ids(&report), ["D-10"], "{:#?}", report.findings);
    let wanted = report.findings[0].evidence[0].repair.clone().unwrap();
    let connections = Connections { kubernetes: Some(server.client()), aws: None };
    repair(&connections, &wanted, "1").await.unwrap();
    let left = nodes.get("n").await.unwrap().metadata.finalizers;
    assert_eq!(left, Some(vec!["example.com/other".to_owned()]), "only ours is removed");
    assert_eq!(ids(&examine(&account, &server).await.1), Vec::<&str>::new());
    repair(&connections, &Repair::DropFinalizer { node: "gone".to_owned() }, "1").await.unwrap();
}

#[tokio::test]
async fn a_node_is_left_to_a_controller_that_holds_its_lease() {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "finalizers": ["karpenter.sh/termination"]},
    });
    let lease = |namespace: &str, name: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"holderIdentity": "elsewhere", "renewTime": "2026-01-01T12:59:50.000000Z"},
        })
    };
    let of_node = lease("kube-node-lease", "karpenter-node");
    for (lease, expected) in [(lease("default", "karpenter-leader-election"), &[][..]), (of_node, &["D-10"])]
    {
        let server = server(&[node.clone(), lease]);
        let nodes: Api<Node> = Api::all(server.client());
        nodes.delete("n", &kube::api::DeleteParams::default()).await.unwrap();
        let later = now() + SignedDuration::from_hours(1);
        let (_, report) = examine_at(later, &Account::new(Options::default()), &server).await;
        assert_eq!(ids(&report), expected);
    }
}

#[tokio::test]
async fn definitions_of_nobody_are_given_to_the_release_that_the_pages_use() {
    let server = ApiServer::new(Arc::new(VirtualClock::starting_at(now())));
    for crd in karpenter_api::crd_values() {
        server.load(&crd).unwrap();
    }
    let connections = Connections { kubernetes: Some(server.client()), aws: None };
    let account = Account::new(Options::default());
    let (_, report) = examine(&account, &server).await;
    assert_eq!((ids(&report), report.health()), (vec!["D-09"], Health::Healthy));
    for evidence in &report.findings[0].evidence {
        repair(&connections, evidence.repair.as_ref().unwrap(), "1").await.unwrap();
    }
    assert_eq!(ids(&examine(&account, &server).await.1), Vec::<&str>::new());
    let crds: Api<CustomResourceDefinition> = Api::all(server.client());
    let metadata = crds.get("nodepools.karpenter.sh").await.unwrap().metadata;
    // Labels and annotations that `helm install` asks of an object that is there already.
    assert_eq!(metadata.labels.unwrap()["app.kubernetes.io/managed-by"], "Helm");
    let annotations = metadata.annotations.unwrap();
    assert_eq!(annotations["meta.helm.sh/release-name"], "karpenter-crd");
    assert_eq!(annotations["meta.helm.sh/release-namespace"], "kube-system");
}

#[tokio::test]
async fn torn_definitions_are_given_to_one_release() {
    let server = ApiServer::new(Arc::new(VirtualClock::starting_at(now())));
    for crd in karpenter_api::crd_values() {
        server.load(&crd).unwrap();
    }
    let connections = Connections { kubernetes: Some(server.client()), aws: None };
    let give = |definition: &str| Repair::GiveToRelease {
        definition: definition.to_owned(),
        release: "karpenter-crd".to_owned(),
        namespace: "kube-system".to_owned(),
    };
    repair(&connections, &give("nodepools.karpenter.sh"), "1").await.unwrap();
    let account = Account::new(Options::default());
    let (_, report) = examine(&account, &server).await;
    assert_eq!(ids(&report), ["D-09"]);
    assert_eq!(report.findings[0].evidence.len(), 4, "the other definitions");
    for evidence in &report.findings[0].evidence {
        repair(&connections, evidence.repair.as_ref().unwrap(), "1").await.unwrap();
    }
    assert_eq!(ids(&examine(&account, &server).await.1), Vec::<&str>::new());
}

#[tokio::test]
async fn a_class_is_touched_to_be_validated_anew() {
    let server = server(&[class()]);
    let connections = Connections { kubernetes: Some(server.client()), aws: None };
    repair(&connections, &Repair::Touch { class: "default".to_owned() }, "2026").await.unwrap();
    let found = Api::<EC2NodeClass>::all(server.client()).get("default").await.unwrap();
    assert_eq!(found.metadata.annotations.unwrap()["karpenter.k8s.aws/validate-again"], "2026");
}

#[tokio::test]
async fn a_repair_without_client_or_with_a_refusal_is_an_error_that_says_which() {
    let touch = Repair::Touch { class: "default".to_owned() };
    let error = repair(&Connections::default(), &touch, "1").await.unwrap_err();
    assert!(
        matches!(error, RepairError::NotConnected { .. })
            && error.to_string().contains("EC2NodeClass default")
    );
    let connections = Connections { kubernetes: Some(server(&[]).client()), aws: None };
    assert!(matches!(repair(&connections, &touch, "1").await, Err(RepairError::Kubernetes { .. })));
}
