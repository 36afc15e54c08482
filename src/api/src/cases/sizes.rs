//! Cases for the largest and the first too large list, map and text, which are too long to read as YAML.
//!
//! The largest ones also show that the CEL rules stay within the cost an API server grants at run time.

use serde_json::{Map, Value, json};

use super::{Case, Expected, Step, merge};

/// A field with a limit, and how to fill it with `n` things.
struct Limited {
    kind: &'static str,
    path: &'static str,
    most: usize,
    fill: fn(usize) -> Value,
}

const LIMITED: [Limited; 14] = [
    Limited {
        kind: "NodePool",
        path: "spec.template.metadata.labels",
        most: 100,
        fill: |n| map(n, "karpenter.k8s.aws.example.com/label"),
    },
    Limited { kind: "NodePool", path: "spec.template.spec.requirements", most: 100, fill: requirements },
    Limited { kind: "NodeClaim", path: "spec.requirements", most: 100, fill: requirements },
    Limited { kind: "NodeOverlay", path: "spec.requirements", most: 100, fill: requirements },
    Limited { kind: "NodePool", path: "spec.template.spec.requirements[0].key", most: 316, fill: long_key },
    Limited {
        kind: "NodePool",
        path: "spec.disruption.budgets",
        most: 50,
        fill: |n| list(n, |_| json!({"nodes": "1", "schedule": "0 0 * * *", "duration": "1h"})),
    },
    Limited {
        kind: "EC2NodeClass",
        path: "spec.subnetSelectorTerms",
        most: 30,
        fill: |n| list(n, |i| json!({"id": format!("subnet-{i}")})),
    },
    Limited {
        kind: "EC2NodeClass",
        path: "spec.subnetSelectorTerms[0].tags",
        most: 20,
        fill: |n| json!([{"tags": map(n, "tag")}]),
    },
    Limited {
        kind: "EC2NodeClass",
        path: "spec.securityGroupSelectorTerms",
        most: 30,
        fill: |n| list(n, |i| json!({"id": format!("sg-{i}")})),
    },
    Limited {
        kind: "EC2NodeClass",
        path: "spec.capacityReservationSelectorTerms",
        most: 30,
        fill: |n| list(n, |i| json!({"id": format!("cr-{i}")})),
    },
    Limited {
        kind: "EC2NodeClass",
        path: "spec.amiSelectorTerms",
        most: 30,
        fill: |n| list(n, |i| json!({"id": format!("ami-{i}")})),
    },
    Limited {
        kind: "EC2NodeClass",
        path: "spec.blockDeviceMappings",
        most: 50,
        fill: |n| list(n, |i| json!({"deviceName": format!("/dev/{i}"), "ebs": {"volumeSize": "1Gi"}})),
    },
    Limited {
        kind: "EC2NodeClass",
        path: "spec.networkInterfaces",
        most: 150,
        fill: |n| list(n, |i| json!({"networkCardIndex": 0, "deviceIndex": i, "interfaceType": "interface"})),
    },
    Limited {
        kind: "EC2NodeClass",
        path: "spec.amiSelectorTerms[0].alias",
        most: 30,
        fill: |n| json!([{"alias": format!("al2023@{}", "v".repeat(n - "al2023@".len()))}]),
    },
];

/// The cases for one kind, on top of its base object.
pub(super) fn cases(kind: &str, base: &Value) -> Vec<Case> {
    let mut cases: Vec<Case> = LIMITED
        .iter()
        .filter(|limited| limited.kind == kind)
        .flat_map(|limited| {
            let refused = Expected::Reject { mentions: limited.path.to_owned() };
            [(limited.most, Expected::Accept { stored: json!({}) }), (limited.most + 1, refused)].map(
                |(count, expected)| {
                    let name = format!("{kind}: {count} in {}", limited.path);
                    case(name, base, &patch_at(limited.path, (limited.fill)(count)), expected)
                },
            )
        })
        .collect();
    if kind == "NodePool" {
        let values: Vec<String> = (0..60).map(|i| format!("v{i}")).collect();
        let requirement = json!([{"key": "a", "operator": "In", "values": values}]);
        cases.push(case(
            format!("{kind}: 60 values without minValues"),
            base,
            &patch_at("spec.template.spec.requirements", requirement),
            Expected::Accept { stored: json!({}) },
        ));
    }
    for (index, case) in cases.iter_mut().enumerate() {
        case.object["metadata"] = json!({"name": format!("size-{index:03}")});
    }
    cases
}

fn case(name: String, base: &Value, patch: &Value, expected: Expected) -> Case {
    let mut object = base.clone();
    merge(&mut object, patch);
    // Image ids need a family next to them; harmless otherwise.
    if object["spec"]["amiSelectorTerms"][0]["id"].is_string() {
        object["spec"]["amiFamily"] = "AL2023".into();
    }
    Case { name, object, then: Step::Nothing, expected }
}

/// A merge patch that sets the field; a path into a list sets the whole list.
fn patch_at(path: &str, value: Value) -> Value {
    let list = path.split_once('[').map_or(path, |(list, _)| list);
    list.rsplit('.').fold(value, |inner, field| json!({field: inner}))
}

fn requirements(count: usize) -> Value {
    list(
        count,
        |i| json!({"key": format!("karpenter.k8s.aws.example.com/label-{i}"), "operator": "In", "values": ["a"]}),
    )
}

fn long_key(length: usize) -> Value {
    json!([{"key": "a".repeat(length), "operator": "Exists"}])
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..count).map(item).collect())
}

fn map(count: usize, prefix: &str) -> Value {
    let entries: Map<String, Value> = (0..count).map(|i| (format!("{prefix}-{i}"), "v".into())).collect();
    Value::Object(entries)
}
