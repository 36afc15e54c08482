//! The command on files, on a cluster in memory and on exports of it.

use clap::Parser;
use jiff::Timestamp;
use karpenter_compose::playground::{Playground, Speed};
use karpenter_kube_sim::VirtualClock;
use karpenter_model::names::{finalizer, label};
use karpenter_model::settings::FeatureGates;
use karpenter_plan::About;
use serde_json::{Value, json};

use super::gather::OfferedBy;
use super::*;

const NODEPOOL: &str = include_str!("../../../../../docs/examples/nodepool.yaml");
const INFLATE: &str = include_str!("../../../../../docs/examples/inflate.yaml");

mod pull_requests;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

/// Runs the command on these files, named after an `@`.
async fn plan(files: &[(&str, &str)], line: &str) -> (String, u8) {
    tried(files, line).await.unwrap()
}

async fn tried(files: &[(&str, &str)], line: &str) -> Result<(String, u8)> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let words = line.split_whitespace().map(|word| match word.strip_prefix('@') {
        Some(file) => folder.path().join(file).display().to_string(),
        None => word.to_owned(),
    });
    let line = Line::parse_from(std::iter::once("plan".to_owned()).chain(words));
    planned(&line.arguments).await
}

fn inflate(replicas: u32) -> String {
    INFLATE.replace("replicas: 0", &format!("replicas: {replicas}"))
}

#[tokio::test]
async fn manifests_without_pods_change_nothing() {
    let (text, code) = plan(&[("a.yaml", NODEPOOL), ("b.yaml", INFLATE)], "-f @a.yaml -f @b.yaml").await;
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("Nothing would change, no pod waits.\n"), "{text}");
}

#[tokio::test]
async fn pods_of_a_manifest_are_launched_for_at_a_price() {
    let inflate = inflate(3);
    let (text, code) =
        plan(&[("a.yaml", NODEPOOL), ("b.yaml", &inflate)], "-f @a.yaml --what-if @b.yaml").await;
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("+ 1 x pool `general`: "), "{text}");
    assert!(text.contains("for default/inflate-0, default/inflate-1, default/inflate-2"), "{text}");
    assert!(text.contains("instance types are those of us-east-1"), "{text}");
}

#[tokio::test]
async fn every_current_family_can_be_planned_with_without_an_account() {
    let inflate = inflate(1);
    for family in ["m7i", "r7i", "c7a", "c8i", "m8a", "r8i"] {
        let asked = format!("{{key: karpenter.k8s.aws/instance-family, operator: In, values: [{family}]}}");
        let pool = NODEPOOL.replace("requirements:", &format!("requirements:\n        - {asked}"));
        assert!(pool.contains(&asked), "{pool}");
        let (text, code) = plan(&[("a.yaml", &pool), ("b.yaml", &inflate)], "-f @a.yaml -f @b.yaml").await;
        assert_eq!(code, 2, "{family}: {text}");
        assert!(text.contains(&format!("+ 1 x pool `general`: {family}.")), "{family}: {text}");
    }
}

#[tokio::test]
async fn pods_that_no_pool_takes_have_an_exit_code_of_their_own() {
    let arm =
        inflate(1).replace("containers:", "nodeSelector: {kubernetes.io/arch: arm64}\n      containers:");
    let (text, code) =
        plan(&[("a.yaml", NODEPOOL), ("b.yaml", &arm)], "-f @a.yaml -f @b.yaml --output json").await;
    assert_eq!(code, 3, "{text}");
    let forecast: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(forecast["verdict"], "pods-wait");
    assert_eq!(forecast["pending"][0]["pod"], "default/inflate-0");
    assert_eq!(forecast["pending"][0]["reasons"][0]["code"], "Requirements");
    assert!(forecast["pending"][0]["help"][0].as_str().unwrap().contains("pool `general`"), "{text}");
}

#[tokio::test]
async fn a_page_is_one_whole_file() {
    let inflate = inflate(3);
    let (page, code) = plan(
        &[("a.yaml", NODEPOOL), ("b.yaml", &inflate)],
        "-f @a.yaml -f @b.yaml --cluster-name prod --output html",
    )
    .await;
    assert_eq!(code, 2, "{page}");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("<h1>Plan for cluster prod</h1>") && page.contains("default/inflate-0"), "{page}");
}

#[tokio::test]
async fn a_flag_that_nothing_matches_is_an_error_that_names_what_there_is() {
    let inflate = inflate(3);
    let files = [("a.yaml", NODEPOOL), ("b.yaml", inflate.as_str()), ("none.yaml", "# later\n")];
    for (flags, expected) in [
        ("--without-zone us-west-2q", "cannot plan without zone `us-west-2q`: no node is in it"),
        ("--without-zone us-west-2q", "; there are `us-west-2a`, `us-west-2b`"),
        ("--price spott=150%", "; `spot` is probably meant"),
        ("--price m5.lage=150%", "; `m5.large` is probably meant"),
        ("--price reserved=150%", "cannot plan with another price of `reserved`"),
        ("--what-if @none.yaml", "none.yaml`; name files or folders with manifests"),
    ] {
        let error = tried(&files, &format!("-f @a.yaml -f @b.yaml {flags}")).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{flags}: {error}");
    }
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    let (text, _) =
        plan(&[("a.yaml", NODEPOOL), ("c.yaml", config)], "-f @a.yaml --what-if @c.yaml -o json").await;
    let forecast: Value = serde_json::from_str(&text).unwrap();
    let notes = forecast["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().ends_with("ConfigMap `a`")), "{notes:?}");
}

/// A cluster with two machines, pods on them and pods that wait.
fn cluster() -> Vec<Value> {
    let mut objects = karpenter_plan::Objects::read("nodepool.yaml", NODEPOOL).unwrap();
    let at = "2026-01-01T00:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at});
    for object in &mut objects {
        object["metadata"]["uid"] = json!(format!("uid-{}", object["kind"].as_str().unwrap()));
        if object["kind"] == "EC2NodeClass" {
            let subnets = ["a", "b"]
                .map(|zone| json!({"id": format!("subnet-{zone}"), "zone": format!("us-west-2{zone}")}));
            object["status"] = json!({"subnets": subnets, "conditions": [condition("Ready")]});
        }
    }
    for (number, kind) in ["m5.4xlarge", "m5.large"].into_iter().enumerate() {
        let labels = json!({
            label::NODE_POOL: "general",
            label::INSTANCE_TYPE: kind,
            label::ZONE: "us-west-2a",
            label::CAPACITY_TYPE: "on-demand",
            label::ARCH: "amd64", label::OS: "linux",
            label::HOSTNAME: format!("node-{number}"),
            label::REGISTERED: "true", label::INITIALIZED: "true",
        });
        let id = format!("aws:///us-west-2a/i-{number}");
        let (cpu, memory) = if number == 0 { ("16", "60Gi") } else { ("2", "7Gi") };
        let room = json!({"cpu": cpu, "memory": memory, "pods": "58", "ephemeral-storage": "20Gi"});
        let states = ["Launched", "Registered", "Initialized", "Consolidatable", "Ready"].map(condition);
        objects.push(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("general-{number}"), "uid": format!("claim-{number}"), "labels": labels,
                "creationTimestamp": at, "finalizers": [finalizer::TERMINATION]},
            "spec": {"requirements": [], "expireAfter": "Never",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": id, "nodeName": format!("node-{number}"), "capacity": room, "allocatable": room,
                "conditions": states},
        }));
        objects.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("node-{number}"), "uid": format!("node-{number}"), "labels": labels,
                "creationTimestamp": at},
            "spec": {"providerID": id},
            "status": {"capacity": room, "allocatable": room, "conditions": [condition("Ready")]},
        }));
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "api", "uid": "rs", "controller": true}]);
        objects.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("api-{number}"), "namespace": "shop", "uid": format!("pod-{number}"),
                "labels": {"app": "api"}, "creationTimestamp": at, "ownerReferences": owner},
            "spec": {"nodeName": format!("node-{number}"), "containers": [
                {"name": "c", "image": "i", "env": [{"name": "PASSWORD", "value": "hunter2"}],
                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
            ]},
            "status": {"phase": "Running", "startTime": at, "conditions": [condition("PodScheduled"), condition("Ready")]},
        }));
    }
    objects.push(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "big", "namespace": "shop", "uid": "big", "creationTimestamp": at},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "30"}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]},
    }));
    objects
}

async fn gathered(objects: Vec<Value>, line: &str) -> Gathered {
    let line = format!("plan --at 2026-01-02T00:00:00Z {line}");
    let line = Line::parse_from(line.split_whitespace());
    line.arguments.sources.gathered(objects, WhatIf::default(), OfferedBy::Memory, Vec::new()).await.unwrap()
}

fn about(gathered: &Gathered) -> About<'_> {
    About { settings: &gathered.settings, notes: &gathered.notes }
}

fn text_of(gathered: &Gathered) -> String {
    gathered.world.forecast(&gathered.offerings, gathered.notes.clone()).text()
}

#[tokio::test]
async fn an_export_plans_as_the_cluster_and_holds_no_secret() {
    for settings in ["", "--set feature-gates=SpotToSpotConsolidation=true"] {
        let cluster = gathered(cluster(), settings).await;
        let planned = text_of(&cluster);
        assert!(planned.contains("Launch 1 node") && planned.contains("Remove 1 node"), "{planned}");
        let stream = cluster.world.export(&cluster.offerings, about(&cluster), false);
        assert!(!stream.contains("hunter2") && !stream.contains("PASSWORD"));
        let again = gathered(karpenter_plan::Objects::read("export", &stream).unwrap(), "").await;
        assert_eq!(text_of(&again), planned);
        assert_eq!(again.settings, cluster.settings);
        let offered = |gathered: &Gathered| gathered.offerings.types.clone();
        assert_eq!(offered(&again), offered(&cluster), "types are read as they were written");
        let twice = again.world.export(&again.offerings, about(&cluster), false);
        assert_eq!(twice, stream, "the export of an export is the same");
    }
}

#[tokio::test]
async fn an_anonymous_export_plans_alike_under_other_names() {
    let cluster = gathered(cluster(), "").await;
    let stream = cluster.world.export(&cluster.offerings, about(&cluster), true);
    for name in ["general", "shop", "api-0", "node-0", "\"big\""] {
        assert!(!stream.contains(name), "{name}");
    }
    let again = gathered(karpenter_plan::Objects::read("export", &stream).unwrap(), "").await;
    let shape = |gathered: &Gathered| {
        let forecast = gathered.world.forecast(&gathered.offerings, Vec::new());
        let removed: Vec<(String, usize)> =
            forecast.removals.iter().map(|one| (one.method.clone(), one.nodes.len())).collect();
        (forecast.verdict, forecast.price, forecast.launches.len(), removed)
    };
    assert_eq!(shape(&again), shape(&cluster));
}

#[tokio::test]
async fn a_cluster_is_listed_as_its_files_say() {
    let clock =
        std::sync::Arc::new(VirtualClock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap()));
    let playground = Playground::new(clock, "demo", Speed::demo());
    for definition in karpenter_api::crd_values() {
        playground.load(&definition).unwrap();
    }
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    for object in std::iter::once(shop).chain(cluster()) {
        playground.load(&object).unwrap();
    }
    let (objects, notes) =
        super::cluster::objects(&playground.client(), &FeatureGates::default()).await.unwrap();
    assert_eq!(notes, Vec::<String>::new());
    let said = |objects: &[Value]| {
        // Some of these every API server has.
        let listed =
            objects.iter().filter(|one| one["kind"] != "Namespace" && one["kind"] != "PriorityClass");
        let said = |one: &Value| format!("{} {} {}", one["apiVersion"], one["kind"], one["metadata"]["name"]);
        let mut said: Vec<String> = listed.map(said).collect();
        said.sort();
        said
    };
    assert_eq!(said(&objects), said(&cluster()));
    let planned = text_of(&gathered(objects, "").await);
    assert!(planned.contains("general: weight 0, "), "{planned}");
}

#[tokio::test]
async fn a_manifest_that_an_api_server_refuses_is_an_error_with_place_and_fields() {
    let inflate = inflate(3);
    for (from, to, expected) in [
        ("consolidateAfter: 30s", "consolidateAfter: 30", "`spec.disruption.consolidateAfter`"),
        ("consolidateAfter: 30s", "consolidateAfter: 30d", "`spec.disruption.consolidateAfter`"),
        (
            "consolidateAfter: 30s",
            "consolidateAfte: 30s",
            "`spec.disruption.consolidateAfte`: there is no such field",
        ),
        ("operator: In", "operator: Is", ".operator`: Unsupported value"),
    ] {
        let wrong = NODEPOOL.replacen(from, to, 1);
        assert_ne!(wrong, NODEPOOL, "{from}");
        let files = [("a.yaml", NODEPOOL), ("w.yaml", wrong.as_str()), ("b.yaml", inflate.as_str())];
        for line in ["-f @a.yaml --what-if @w.yaml", "-f @w.yaml -f @b.yaml"] {
            let error = format!("{:#}", tried(&files, line).await.unwrap_err());
            assert!(error.contains("w.yaml:") && error.contains(expected), "{line} {to}: {error}");
        }
    }
}

#[tokio::test]
async fn a_gate_names_what_is_assumed_and_fails_by_its_effects_alone() {
    let (waits, inflate) =
        (inflate(1).replace("inflate", "waits").replace("cpu: \"1\"", "cpu: \"500\""), inflate(3));
    let files = [("a.yaml", NODEPOOL), ("w.yaml", waits.as_str()), ("i.yaml", inflate.as_str())];
    for (flags, expected) in [
        ("", 3),
        ("--what-if @i.yaml", 3),
        ("--what-if @i.yaml --fail-on new-pending --fail-on removals", 0),
        ("--what-if @i.yaml --fail-on changes", 5),
        ("--what-if @w.yaml --fail-on new-pending", 0),
        ("--price on-demand=200% --fail-on new-pending", 0),
    ] {
        let (text, code) = plan(&files, &format!("-f @a.yaml -f @w.yaml {flags}")).await;
        assert_eq!(code, expected, "{flags}: {text}");
        assert_eq!(text.contains("\nAssumed\n"), !flags.is_empty(), "{flags}: {text}");
    }
    let (text, _) = plan(&files, "-f @a.yaml --what-if @i.yaml --price on-demand=150%").await;
    assert!(text.contains("i.yaml` is applied\n    on-demand at 150 % of its price\n    makes +$"), "{text}");
}

#[tokio::test]
async fn a_region_is_one_there_is_and_says_whose_prices_it_gets() {
    let inflate = inflate(1);
    let files = [("a.yaml", NODEPOOL), ("b.yaml", inflate.as_str())];
    let error = tried(&files, "-f @a.yaml -f @b.yaml --region eu-west-9").await.unwrap_err().to_string();
    let expected = "cannot use region `eu-west-9`: there is none of that name; there are af-south-1, ";
    assert!(error.starts_with(expected) && error.contains("eu-west-1"), "{error}");
    let (text, _) = plan(&files, "-f @a.yaml -f @b.yaml --region eu-west-1").await;
    assert!(
        text.contains(" eu-west-1a ") && text.contains("on-demand prices those of us-east-1 on "),
        "{text}"
    );
}

#[test]
fn an_instant_or_a_price_that_is_none_is_refused_with_what_to_write() {
    for (flags, expected) in [
        ("--at yesterday", "write it as 2026-01-31T15:00:00Z"),
        ("--at 2026-01-01", "write it as 2026-01-31T15:00:00Z"),
        ("--price on-demand=0%", "write whole percents above 0"),
        ("--price on-demand=90.5%", "write whole percents above 0"),
    ] {
        let words = std::iter::once("plan").chain(flags.split_whitespace());
        let error = Line::try_parse_from(words).err().unwrap().to_string();
        assert!(error.contains(expected), "{flags}: {error}");
    }
}

#[tokio::test]
async fn negotiated_prices_count_before_the_list() {
    let inflate = inflate(1);
    let prices = "instance_type,price_per_hour\nc7i.2xlarge,0.0010\n";
    let files =
        [("a.yaml", NODEPOOL), ("b.yaml", inflate.as_str()), ("p.csv", prices), ("wrong.csv", "a,b\n")];
    let (text, _) = plan(&files, "-f @a.yaml -f @b.yaml --price-file @p.csv").await;
    assert!(text.contains("c7i.2xlarge us-west-2a on-demand at $0.0010"), "{text}");
    assert!(text.contains("on-demand prices of `"), "{text}");
    let error = tried(&files, "-f @a.yaml -f @b.yaml --price-file @wrong.csv").await.unwrap_err();
    assert!(format!("{error:#}").contains("wrong.csv`: line 1, field `header`"), "{error:#}");
}

#[tokio::test]
async fn help_for_a_pod_without_a_pool_is_tried_with_every_instance_type() {
    for (what, pod, conflict, help) in [
        (
            "gpu",
            inflate(1).replace("requests:", "limits:").replace("cpu: \"1\"", "nvidia.com/gpu: \"1\""),
            "the pod asks for 1 nvidia.com/gpu, which no instance type that it allows has",
            "would help: allow `karpenter.k8s.aws/instance-category` `g` in pool `general`\n",
        ),
        (
            "architecture",
            inflate(1).replace("containers:", "nodeSelector: {kubernetes.io/arch: arm64}\n      containers:"),
            "the pod asks for `kubernetes.io/arch` `arm64`, and it allows `amd64`",
            "would help: allow `kubernetes.io/arch` `arm64` in pool `general`\n",
        ),
        (
            "zone",
            inflate(1).replace(
                "containers:",
                "nodeSelector: {topology.kubernetes.io/zone: us-west-2z}\n      containers:",
            ),
            "no instance type that it allows has `topology.kubernetes.io/zone` `us-west-2z`, which the pod asks for",
            "would help: ask for `topology.kubernetes.io/zone` `us-west-2a`, `us-west-2b` or `us-west-2c`\n",
        ),
        (
            "size",
            inflate(1).replace("cpu: \"1\"", "cpu: \"5000\""),
            "the pod asks for 5000 cpu, and the largest instance type that it allows has ",
            "would help: ask for at most ",
        ),
    ] {
        let (text, code) = plan(&[("a.yaml", NODEPOOL), ("b.yaml", &pod)], "-f @a.yaml -f @b.yaml").await;
        assert_eq!(code, 3, "{what}: {text}");
        assert!(
            text.contains(&format!("pool `general`: {conflict}")) && text.contains(help),
            "{what}: {text}"
        );
    }
    let zones = ["a", "b", "c"].map(|zone| format!("--without-zone us-west-2{zone}")).join(" ");
    let inflate = inflate(1);
    let files = [("a.yaml", NODEPOOL), ("b.yaml", inflate.as_str())];
    let (text, _) = plan(&files, &format!("-f @a.yaml -f @b.yaml {zones}")).await;
    assert!(text.contains("no instance type can be launched, because no offering is available"), "{text}");
    assert!(!text.contains("would help"), "{text}");
}

#[tokio::test]
async fn a_lost_zone_and_other_prices_are_planned_for() {
    let line = Line::parse_from("plan --at 2026-01-02T00:00:00Z".split_whitespace());
    let what_if = WhatIf { lost_zones: vec!["us-west-2a".into()], ..WhatIf::default() };
    let lost =
        line.arguments.sources.gathered(cluster(), what_if, OfferedBy::Memory, Vec::new()).await.unwrap();
    let lost = text_of(&lost);
    assert!(lost.contains("shop/api-0") && lost.contains("us-west-2b"), "{lost}");
    assert!(!lost.contains(" us-west-2a "), "{lost}");
    let what_if = WhatIf { prices: vec!["on-demand=200%".parse().unwrap()], ..WhatIf::default() };
    let dear =
        line.arguments.sources.gathered(cluster(), what_if, OfferedBy::Memory, Vec::new()).await.unwrap();
    let usual = gathered(cluster(), "").await;
    let now =
        |gathered: &Gathered| gathered.world.forecast(&gathered.offerings, Vec::new()).price.now.nanos();
    assert_eq!(now(&dear), 2 * now(&usual));
}
