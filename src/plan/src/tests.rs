//! A small cluster, planned from end to end: what people read, and that a file of it says the same.

use std::sync::Arc;

use expect_test::{Expect, expect};
use jiff::Timestamp;
use karpenter_cloud::NodeClassKind;
use karpenter_model::names::label;
use karpenter_model::{LabelRegistry, Settings};
use serde_json::{Value, json};

use crate::fixture::offerings;
use crate::{About, Forecast, Ground, Objects, Offerings, Verdict, WhatIf, World, forecast};

const AT: &str = "2026-01-02T00:00:00Z";
const CREATED: &str = "2026-01-01T00:00:00Z";

fn world(objects: Vec<Value>, what_if: WhatIf) -> World {
    let ground = Ground {
        registry: Arc::new(LabelRegistry::core()),
        classes: vec![NodeClassKind { group: "karpenter.k8s.aws", kind: "EC2NodeClass" }],
        settings: Arc::new(Settings::default()),
    };
    World::new(objects, AT.parse::<Timestamp>().unwrap(), ground, what_if).unwrap()
}

fn planned(objects: Vec<Value>, what_if: WhatIf) -> Forecast {
    let world = world(objects, what_if);
    let (snapshot, notes) = world.snapshot(&offerings(&["a", "b"]));
    forecast(&snapshot, notes)
}

fn check(objects: Vec<Value>, what_if: WhatIf, verdict: Verdict, expected: &Expect) {
    let forecast = planned(objects, what_if);
    expected.assert_eq(&forecast.text());
    assert_eq!(forecast.verdict, verdict);
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": CREATED})
}

fn pool(name: &str, spec: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "expireAfter": "Never",
            }},
            "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pool["spec"][field] = value.clone();
    }
    pool
}

fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "status": {"conditions": [condition("Ready")]},
    })
}

/// A machine of pool `a` with its claim, of the larger type.
fn machine(name: &str) -> Vec<Value> {
    let labels = json!({
        label::NODE_POOL: "a", label::INSTANCE_TYPE: "large", label::ZONE: "zone-a",
        label::CAPACITY_TYPE: "on-demand", label::HOSTNAME: name, label::ARCH: "amd64", label::OS: "linux",
        label::REGISTERED: "true", label::INITIALIZED: "true",
    });
    let room = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
    let id = format!("aws:///zone-a/{name}");
    let states = ["Launched", "Registered", "Initialized", "Consolidatable", "Ready"].map(condition);
    vec![
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("a-{name}"), "uid": format!("claim-{name}"), "labels": labels,
                "creationTimestamp": CREATED},
            "spec": {"requirements": [], "expireAfter": "Never",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": id, "nodeName": name, "capacity": room, "allocatable": room, "conditions": states},
        }),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": format!("node-{name}"), "labels": labels, "creationTimestamp": CREATED},
            "spec": {"providerID": id},
            "status": {"capacity": room, "allocatable": room, "conditions": [condition("Ready")]},
        }),
    ]
}

fn deployment(name: &str, replicas: u32, cpu: &str, spec: &Value) -> Value {
    let mut template = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
    for (field, value) in spec.as_object().into_iter().flatten() {
        template[field] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template}},
    })
}

#[test]
fn pods_take_the_room_there_is_and_new_machines_for_the_rest() {
    let mut objects = vec![pool("a", &json!({})), class(), deployment("api", 3, "3", &json!({}))];
    objects.extend(machine("one"));
    let scaled = |replicas: u32| {
        let manifests = vec![deployment("api", replicas, "3", &json!({}))];
        WhatIf { manifests, ..WhatIf::default() }
    };
    check(
        objects.clone(),
        WhatIf::default(),
        Verdict::Changes,
        &expect![[r#"
        Nodes would change, no pod would stay pending.

        Launch 2 nodes
          + 2 x pool `a`: large zone-a spot at $0.1200 each
              for shop/api-1, shop/api-2

        Room on nodes that are there or coming: 1 pod
            shop/api-0 on one

        Stay as they are: 1 node
            node is nominated for a pending pod (Nominated): one

        Pools
            a: weight 0, 1 node, 2 instance types to choose from

        Per hour: $0.4000 now, $0.6400 after (+$0.2400)
    "#]],
    );
    check(
        objects.clone(),
        scaled(1),
        Verdict::Unchanged,
        &expect![[r#"
        Nothing would change, no pod waits.

        Room on nodes that are there or coming: 1 pod
            shop/api-0 on one

        Stay as they are: 1 node
            node is nominated for a pending pod (Nominated): one

        Pools
            a: weight 0, 1 node, 2 instance types to choose from

        Per hour: $0.4000 now, $0.4000 after (+$0.0000)
    "#]],
    );
    check(
        objects,
        scaled(0),
        Verdict::Changes,
        &expect![[r#"
        Nodes would change, no pod would stay pending.

        Remove 1 node
          - one: pool `a` large zone-a on-demand at $0.4000
              because Empty (Emptiness), at 2026-01-02T00:00:15Z after a second look
              saves $0.4000 per hour

        Pools
            a: weight 0, 1 node, 2 instance types to choose from

        Per hour: $0.4000 now, $0.0000 after (-$0.4000)
    "#]],
    );
}

#[test]
fn pods_that_no_pool_takes_are_named_with_what_would_help() {
    let pools = [
        pool("a", &json!({"limits": {"cpu": "1"}, "weight": 10})),
        pool(
            "b",
            &json!({"template": {"spec": {
                "requirements": [{"key": label::ARCH, "operator": "In", "values": ["arm64"]}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }}}),
        ),
    ];
    let mut objects: Vec<Value> = pools.into();
    objects.extend([class(), deployment("api", 2, "1", &json!({}))]);
    check(
        objects,
        WhatIf::default(),
        Verdict::PodsWait,
        &expect![[r#"
        2 pods would stay pending.

        Stay pending: 2 pods
          ? shop/api-0, shop/api-1
              pool `a`: limits of the pool are exceeded: limit `cpu` is reached, 1 left and the smallest instance type has 2 (Limits)
              would help: raise spec.limits of pool `a`

        Pools
            a: weight 10, 0 nodes, 2 instance types to choose from
            b: weight 0, 0 nodes, takes no part: no instance type satisfies the requirements of the pool: karpenter.k8s.aws/ec2nodeclass In [default], karpenter.sh/nodepool In [b], kubernetes.io/arch In [arm64] (NoCompatibleInstanceTypes)

        Per hour: $0.0000 now, $0.0000 after (+$0.0000)
    "#]],
    );
}

#[test]
fn a_changed_template_is_planned_as_drift() {
    let never = json!({"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}});
    let mut objects =
        vec![pool("a", &never), class(), deployment("api", 1, "3", &json!({"nodeName": "one"}))];
    objects.extend(machine("one"));
    assert_eq!(planned(objects.clone(), WhatIf::default()).removals.len(), 0);
    let mut changed = pool("a", &never);
    changed["spec"]["template"]["metadata"] = json!({"labels": {"team": "x"}});
    let forecast = planned(objects, WhatIf { manifests: vec![changed], ..WhatIf::default() });
    let methods: Vec<&str> = forecast.removals.iter().map(|removal| removal.method.as_str()).collect();
    assert_eq!(methods, ["Drift"], "{}", forecast.text());
}

#[test]
fn an_export_of_a_cluster_plans_the_same() {
    let mut objects = vec![pool("a", &json!({})), class(), deployment("api", 3, "3", &json!({}))];
    objects.extend(machine("one"));
    let known = Offerings { problems: [("b".into(), "no subnets".to_owned())].into(), ..offerings(&["a"]) };
    let cluster = world(objects, WhatIf::default());
    let text = |world: &World, offerings: &Offerings| {
        let (snapshot, notes) = world.snapshot(offerings);
        forecast(&snapshot, notes).text()
    };
    let settings = ["reserved-enis=1".to_owned()];
    let about = About { settings: &settings, notes: &[] };
    let stream = cluster.export(&known, about, false);
    let read = Objects::read("export", &stream).unwrap();
    assert_eq!(crate::settings_of(&read), ["reserved-enis=1"]);
    let again = world(read, WhatIf::default());
    let exported = again.exported().unwrap().clone();
    assert_eq!(exported.types, known.types);
    assert_eq!(text(&again, &exported), text(&cluster, &known));
    assert_eq!(again.export(&exported, about, false), stream);
}
