//! Duration of a plan of an export, from the text of the file to the text that is printed:
//! `cargo bench -p karpenter-compose --features demo --bench plan_export` prints the figure of docs/plan.md.
//!
//! The export has 1,000 nodes of one pool with 9,000 pods, 500 pods that wait, and every
//! instance type of the account in memory in three zones.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use karpenter_aws::NODE_CLASS_KIND;
use karpenter_aws::registry::label_registry;
use karpenter_aws_sim::{Account, Options};
use karpenter_compose::WallClock;
use karpenter_compose::offered::OfferingsReader;
use karpenter_model::names::label;
use karpenter_plan::{About, Forecast, Objects, PlanInputs, WhatIf, World, forecast};
use karpenter_testkit::objects::{class_ref, node_class, node_pool, with};
use serde_json::{Value, json};

const NODES: usize = 1_000;
const PODS_OF_NODE: usize = 9;
const WAITING: usize = 500;
const AT: &str = "2026-01-02T00:00:00Z";
const BEFORE: &str = "2026-01-01T00:00:00Z";
/// Bar that the issue of the plan promises.
const BAR: Duration = Duration::from_secs(2);

fn main() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let stream = runtime.block_on(export())?;
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let forecast = planned(&stream)?;
        let text = forecast.text();
        best = best.min(began.elapsed());
        ensure!(text.contains("Launch "), "pods wait, so there are launches: {text}");
    }
    let forecast = planned(&stream)?;
    let began = Instant::now();
    let page = forecast.html("bench").len();
    println!(
        "an export of {NODES} nodes and {} pods, {} MiB, is planned in {:.2} s; its page, {} KiB, takes {} ms more",
        NODES * PODS_OF_NODE + WAITING,
        stream.len() >> 20,
        best.as_secs_f64(),
        page >> 10,
        began.elapsed().as_millis()
    );
    ensure!(best <= BAR, "the bar is {} s", BAR.as_secs());
    Ok(())
}

fn plan_inputs() -> PlanInputs {
    PlanInputs {
        registry: Arc::new(label_registry()),
        classes: vec![NODE_CLASS_KIND],
        settings: Arc::new(karpenter_model::Settings::default()),
        repair: Arc::default(),
    }
}

/// Computes what `karpenter plan -f export.yaml` does between reading and printing.
fn planned(stream: &str) -> Result<Forecast> {
    let world = World::new(Objects::read("export", stream)?, AT.parse()?, plan_inputs(), WhatIf::default())?;
    let offerings = world.exported().ok_or_else(|| anyhow!("no export"))?;
    let (snapshot, notes) = world.snapshot(offerings);
    Ok(forecast(&snapshot, notes))
}

async fn export() -> Result<String> {
    let world = World::new(objects(), AT.parse()?, plan_inputs(), WhatIf::default())?;
    let settings = karpenter_aws::Settings::new("bench", "https://bench.invalid");
    let account = Account::with_clock(Options { zones: 6, ..Options::default() }, Arc::new(WallClock));
    let clients = account.clients();
    let mut reader = OfferingsReader::new(clients, settings, Arc::new(WallClock))
        .await
        .context("cannot ask the account in memory")?;
    let offerings = reader.offerings(&world.pools(), &world.node_classes()).await;
    Ok(world.export(&offerings, About::default(), false))
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": BEFORE})
}

fn objects() -> Vec<Value> {
    let class = class_ref("default");
    let subnets = ["a", "b", "c"]
        .map(|zone| json!({"id": format!("subnet-{zone}"), "zone": format!("us-west-2{zone}")}));
    let amis = ["amd64", "arm64"].map(|architecture| {
        json!({"id": format!("ami-{architecture}"), "name": architecture, "requirements": [
            {"key": label::ARCH, "operator": "In", "values": [architecture]},
        ]})
    });
    let status = json!({
        "subnets": subnets, "securityGroups": [{"id": "sg-nodes", "name": "nodes"}], "amis": amis,
        "conditions": [condition("Ready")],
    });
    let spec = json!({
        "template": {"spec": {"expireAfter": "Never"}},
        "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "10%"}]},
    });
    let mut objects = vec![
        with(node_pool("general", &[], &spec), &json!({"metadata": {"uid": "pool"}})),
        with(
            node_class("default", "bench", &json!({})),
            &json!({"metadata": {"uid": "class"}, "status": status}),
        ),
    ];
    for number in 0..NODES {
        node(&mut objects, number, &class);
    }
    for number in 0..WAITING {
        let mut waiting = pod(&format!("waiting-{number}"), number);
        waiting["status"] = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]});
        // Half of them fit the nodes there are, which have room and are all amd64; the others need new ones.
        if number % 2 == 1 {
            waiting["spec"]["nodeSelector"] = json!({label::ARCH: "arm64"});
        }
        objects.push(waiting);
    }
    objects
}

fn node(objects: &mut Vec<Value>, number: usize, class: &Value) {
    let name = format!("node-{number}");
    let zone = format!("us-west-2{}", ["a", "b", "c"][number % 3]);
    let (kind, cpu, memory) =
        [("m5.2xlarge", 8, 30), ("c5.4xlarge", 16, 29), ("r5.xlarge", 4, 30)][number % 3];
    let labels = json!({
        label::NODE_POOL: "general", label::INSTANCE_TYPE: kind, label::ZONE: zone, label::CAPACITY_TYPE: "on-demand",
        label::ARCH: "amd64", label::OS: "linux", label::HOSTNAME: name, label::REGISTERED: "true",
        label::INITIALIZED: "true",
    });
    let room = json!({"cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": "58"});
    let id = format!("aws:///{zone}/i-{number}");
    let states = ["Launched", "Registered", "Initialized", "Consolidatable", "Ready"].map(condition);
    objects.push(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("general-{number}"), "uid": format!("claim-{number}"), "labels": labels, "creationTimestamp": BEFORE},
        "spec": {"requirements": [], "expireAfter": "Never", "nodeClassRef": class},
        "status": {"providerID": id, "nodeName": name, "capacity": room, "allocatable": room,
            "conditions": states},
    }));
    objects.push(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": labels, "creationTimestamp": BEFORE},
        "spec": {"providerID": id},
        "status": {"capacity": room, "allocatable": room, "conditions": [condition("Ready")]},
    }));
    for index in 0..PODS_OF_NODE {
        let mut bound = pod(&format!("app-{number}-{index}"), number * PODS_OF_NODE + index);
        bound["spec"]["nodeName"] = json!(name);
        bound["status"] = json!({"phase": "Running", "startTime": BEFORE, "conditions": [condition("PodScheduled"), condition("Ready")]});
        objects.push(bound);
    }
}

fn pod(name: &str, number: usize) -> Value {
    let app = format!("app-{}", number % 40);
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]);
    let (cpu, memory) = (100 * (1 + number % 7), 256 * (1 + number % 5));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": app}, "creationTimestamp": BEFORE,
            "ownerReferences": owner},
        "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}}},
        ]},
    })
}
