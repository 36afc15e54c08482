//! A world in which nothing is wrong.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::facts::{Answer, Facts};

pub(super) const CLUSTER: &str = "demo";

/// An object from JSON.
pub(super) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// Puts an object into an answer.
pub(super) fn push<T: DeserializeOwned>(answer: &mut Answer<Vec<T>>, value: Value) {
    answer.as_mut().expect("an answer").push(object(value));
}

/// Changes an object: the fields of `change` in place of its own, as a JSON merge patch would.
pub(super) fn change<T: DeserializeOwned + serde::Serialize>(target: &mut T, change: Value) {
    fn merge(base: &mut Value, change: Value) {
        match change {
            Value::Object(changes) => {
                if !base.is_object() {
                    *base = json!({});
                }
                for (key, value) in changes {
                    merge(&mut base[key], value);
                }
            }
            other => *base = other,
        }
    }
    let mut value = serde_json::to_value(&*target).unwrap();
    merge(&mut value, change);
    *target = object(value);
}

/// The first object of an answer, to be changed.
pub(super) fn first<T>(answer: &mut Answer<Vec<T>>) -> &mut T {
    answer.as_mut().and_then(|list| list.first_mut()).expect("an object")
}

/// Sets a variable of the controller.
pub(super) fn set(facts: &mut Facts, name: &str, value: &str) {
    let deployment = first(&mut facts.cluster.deployments);
    let pod = deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    let variables = pod.containers[0].env.as_mut().unwrap();
    variables.retain(|variable| variable.name != name);
    variables.push(object(json!({"name": name, "value": value})));
}

fn node(name: &str, labels: Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T11:00:00Z"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn dns_pod() -> Value {
    json!({
        "metadata": {"name": "coredns-1", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
        "spec": {"nodeName": "group-1", "containers": [{"name": "coredns"}]},
        "status": {"phase": "Running"},
    })
}

/// A pod with requests on the node that Karpenter launched.
pub(super) fn app_pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"nodeName": "ours-1", "containers": [
            {"name": "web", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
        ]},
        "status": {"phase": "Running"},
    })
}

fn deployment() -> Value {
    let labels = json!({"app.kubernetes.io/name": "karpenter"});
    json!({
        "metadata": {"name": "karpenter", "namespace": "karpenter", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": "karpenter",
                "dnsPolicy": "ClusterFirst",
                "containers": [{"name": "controller", "image": "ghcr.io/karpenter-rs/karpenter:0.1.0", "env": [
                    {"name": "CLUSTER_NAME", "value": CLUSTER},
                    {"name": "INTERRUPTION_QUEUE", "value": CLUSTER},
                    {"name": "LOG_LEVEL", "value": "info"},
                    {"name": "FEATURE_GATES", "value": "ReservedCapacity=true"},
                ]}],
            }},
        },
    })
}

fn cluster() -> Value {
    let seen = |value: Value| json!({"seen": value});
    let controller_pod = json!({
        "metadata": {
            "name": "karpenter-1", "namespace": "karpenter",
            "labels": {"app.kubernetes.io/name": "karpenter"},
        },
        "spec": {"nodeName": "group-1", "containers": [{"name": "controller"}]},
        "status": {"phase": "Running"},
    });
    json!({
        "nodes": seen(json!([
            node("group-1", json!({})),
            node("group-2", json!({})),
            node("ours-1", json!({"karpenter.sh/nodepool": "default", "karpenter.sh/initialized": "true"})),
        ])),
        "pods": seen(json!([controller_pod, dns_pod(), app_pod("web-1")])),
        "deployments": seen(json!([deployment()])),
        "daemon_sets": seen(json!([])),
        "budgets": seen(json!([])),
        "volumes": seen(json!([])),
        "storage_classes": seen(json!([])),
        "definitions": seen(serde_json::to_value(karpenter_api::crds()).unwrap()),
        "node_pools": seen(json!([{
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                ],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }}},
        }])),
        "node_claims": seen(json!([{
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "default-abc"},
            "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            },
            "status": {"nodeName": "ours-1", "conditions": []},
        }])),
        "node_classes": seen(json!([{
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "role": "KarpenterNodeRole-demo",
                "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
                "amiSelectorTerms": [{"alias": "al2023@v20250101"}],
            },
            "status": {"conditions": []},
        }, {
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "windows"},
            "spec": {
                "role": "WindowsNodes",
                "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
                "amiSelectorTerms": [{"alias": "windows2022@v1"}],
            },
        }])),
        "events": seen(json!([])),
        "config_maps": seen(json!([{
            "metadata": {"name": "amazon-vpc-cni", "namespace": "kube-system"},
            "data": {"enable-windows-ipam": "true"},
        }])),
        "service_accounts": seen(json!([])),
        "flow_schemas": seen(json!([{
            "metadata": {"name": "karpenter-workload"},
            "spec": {
                "priorityLevelConfiguration": {"name": "workload-high"},
                "rules": [{"subjects": [
                    {"kind": "ServiceAccount", "serviceAccount": {"name": "karpenter", "namespace": "karpenter"}},
                ]}],
            },
        }])),
        "log": seen(json!(["{\"level\":\"INFO\",\"message\":\"started\"}"])),
    })
}

fn account() -> Value {
    let seen = |value: Value| json!({"seen": value});
    let role = |trust: &str| json!({"path": "/", "trust": trust, "boundary": null, "policies": 4});
    json!({
        "region": seen(json!("us-west-2")),
        "eks": seen(json!({"version": "1.33", "authentication_mode": "API_AND_CONFIG_MAP"})),
        "subnets": seen(json!([{"id": "subnet-1", "zone": "us-west-2a", "free_addresses": 4000}])),
        "security_groups": seen(json!([{"id": "sg-1", "tags": {"kubernetes.io/cluster/demo": "owned"}}])),
        "roles": seen(json!({
            "KarpenterNodeRole-demo": role("{\"Service\":\"ec2.amazonaws.com\"}"),
            "WindowsNodes": role("{\"Service\":\"ec2.amazonaws.com\"}"),
            "demo-karpenter": role("{\"Service\":\"pods.eks.amazonaws.com\"}"),
        })),
        "spot_role": seen(json!(true)),
        "queues": seen(json!({
            "demo": {"tags": {"eks:eks-cluster-name": "demo"}, "kms_key": null, "rules": ["Spot"]},
            "Karpenter-demo": null,
        })),
        "access_entries": seen(json!([
            {"principal": "arn:aws:iam::111122223333:role/KarpenterNodeRole-demo", "kind": "EC2_LINUX"},
            {"principal": "arn:aws:iam::111122223333:role/WindowsNodes", "kind": "EC2_WINDOWS"},
        ])),
        "pod_identity": seen(json!(true)),
        "instance_profiles": seen(json!(10)),
        "reservations": seen(json!([])),
    })
}

/// Everything is right.
pub(super) fn healthy() -> Facts {
    object(json!({
        "cluster_name": CLUSTER,
        "now": "2026-01-01T12:00:00Z",
        "account": account(),
        "cluster": cluster(),
    }))
}
