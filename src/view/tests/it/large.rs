//! A cluster of any size, object by object: the input of the test of memory and of the bench.

use karpenter_model::names::label::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, OS, ZONE};
use karpenter_view::{Shown, World};
use serde_json::{Value, json};

/// Pods of each node.
pub(crate) const PODS: usize = 10;
const ZONES: [&str; 3] = ["eu-west-1a", "eu-west-1b", "eu-west-1c"];
const TYPES: [&str; 5] = ["m5.xlarge", "c7g.2xlarge", "r6i.large", "m7a.4xlarge", "c6a.8xlarge"];

/// `nodes` nodes of ten pools, each with a claim and ten pods; one pod in 500 waits.
pub(crate) fn cluster(nodes: usize) -> World {
    let mut world = World::new(Shown::new(&["nvidia.com/gpu".to_owned()]));
    for number in 0..nodes {
        world.put_node(&read(node(number)));
        world.put_claim(&read(claim(number)));
        for index in number * PODS..(number + 1) * PODS {
            world.put_pod(&read(pod(index)));
        }
    }
    world
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object of its kind")
}

fn name(number: usize) -> String {
    format!("ip-10-{}-{}-{}.eu-west-1.compute.internal", number / 65_536, number / 256 % 256, number % 256)
}

fn labels(number: usize) -> Value {
    let mut labels = json!({
        NODE_POOL: format!("pool-{}", number % 10), INSTANCE_TYPE: TYPES[number % 5], ZONE: ZONES[number % 3],
        CAPACITY_TYPE: if number.is_multiple_of(2) { "spot" } else { "on-demand" }, ARCH: "amd64", OS: "linux",
        HOSTNAME: name(number),
    });
    // Labels of the provider: machines of AWS carry some twenty of them.
    for index in 0..20 {
        labels[format!("karpenter.k8s.aws/fact-{index}")] = format!("{}", number % (index + 1)).into();
    }
    labels
}

/// Node `number`.
pub(crate) fn node(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name(number), "labels": labels(number), "creationTimestamp": "2026-01-02T09:00:00Z"},
        "spec": {"providerID": format!("aws:///eu-west-1a/i-{number:017x}")},
        "status": {"allocatable": {"cpu": "3920m", "memory": "15623080Ki", "pods": "58"},
                   "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Returns the claim with this number.
pub(crate) fn claim(number: usize) -> Value {
    let conditions =
        ["Launched", "Registered", "Initialized", "Consolidatable", "ConsistentStateFound", "Ready"].map(
            |kind| {
                json!({"type": kind, "status": "True", "reason": kind, "message": "",
                   "lastTransitionTime": "2026-01-02T09:00:00Z"})
            },
        );
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("pool-{}-{number:05x}", number % 10), "labels": labels(number),
                     "creationTimestamp": "2026-01-02T08:59:00Z"},
        "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": [],
                 "resources": {"requests": {"cpu": "3", "memory": "6Gi"}}},
        "status": {"providerID": format!("aws:///eu-west-1a/i-{number:017x}"), "nodeName": name(number),
                   "allocatable": {"cpu": "3920m", "memory": "15623080Ki"}, "conditions": conditions},
    })
}

/// Pod `index`, of all pods.
pub(crate) fn pod(index: usize) -> Value {
    let waits = index.is_multiple_of(500);
    let refused = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/5000 nodes are available: 5000 Insufficient cpu."}]);
    let requests = json!({"cpu": format!("{}m", 100 + index % 7 * 50), "memory": "512Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": format!("team-{}", index % 50), "name": format!("service-{}-7d9f8b6c5d-{index:05x}", index % 400),
                     "creationTimestamp": "2026-01-02T11:00:00Z"},
        "spec": {"nodeName": (!waits).then(|| name(index / PODS)),
                 "containers": [{"name": "app", "image": "registry.example.com/app:1", "resources": {"requests": requests}}]},
        "status": {"phase": if waits { "Pending" } else { "Running" },
                   "conditions": if waits { refused } else { json!([]) }},
    })
}
