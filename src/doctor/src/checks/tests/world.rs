//! A world in which nothing is wrong.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::facts::{Answer, Facts};

pub(super) const CLUSTER: &str = "demo";
/// The customer's key that encrypts the queue.
pub(super) const KEY: &str = "arn:aws:kms:us-west-2:123456789012:key/11111111-2222-3333-4444-555555555555";

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

#[allow(clippy::too_many_lines, reason = "a whole cluster in one place")]
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
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
                "amiSelectorTerms": [{"alias": "al2023@v20250101"}],
            },
            "status": {"conditions": []},
        }, {
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "windows"},
            "spec": {
                "role": "WindowsNodes",
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
                "amiFamily": "Windows2022",
                "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}],
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

/// A trust policy.
pub(super) fn trust(service: &str) -> String {
    let statement = json!({"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"});
    json!({"Version": "2012-10-17", "Statement": [statement]}).to_string()
}

fn account() -> Value {
    let seen = |value: Value| json!({"seen": value});
    let role = |name: &str, trust: &str| {
        let arn = format!("arn:aws:iam::123456789012:role/{name}");
        json!({"arn": arn, "path": "/", "trust": trust, "boundary": null, "policies": 1})
    };
    let key_policy = json!({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": ["kms:GenerateDataKey", "kms:Decrypt"],
        "Resource": "*",
    }]})
    .to_string();
    let right = |action: &str, resource: &str| {
        json!({
            "role": "arn:aws:iam::123456789012:role/demo-karpenter",
            "action": action, "resource": resource, "allowed": true,
        })
    };
    json!({
        "region": seen(json!("us-west-2")),
        "eks": seen(json!({
            "version": "1.33", "authentication_mode": "API_AND_CONFIG_MAP", "zonal_shift": false,
        })),
        "subnets": seen(json!([{"id": "subnet-1", "zone": "us-west-2a", "free_addresses": 4000}])),
        "security_groups": seen(json!([{"id": "sg-1", "tags": {"kubernetes.io/cluster/demo": "owned"}}])),
        "roles": seen(json!({
            "KarpenterNodeRole-demo": role("KarpenterNodeRole-demo", &trust("ec2.amazonaws.com")),
            "WindowsNodes": role("WindowsNodes", &trust("ec2.amazonaws.com")),
            "demo-karpenter": role("demo-karpenter", &trust("pods.eks.amazonaws.com")),
        })),
        "spot_role": seen(json!(true)),
        "queues": seen(json!({
            "demo": {"tags": {"eks:eks-cluster-name": "demo"}, "kms_key": KEY, "rules": ["Spot"]},
            "Karpenter-demo": null,
        })),
        "access_entries": seen(json!([
            {"principal": "arn:aws:iam::123456789012:role/KarpenterNodeRole-demo", "kind": "EC2_LINUX"},
            {"principal": "arn:aws:iam::123456789012:role/WindowsNodes", "kind": "EC2_WINDOWS"},
        ])),
        "pod_identity": seen(json!("arn:aws:iam::123456789012:role/demo-karpenter")),
        "identity_limits": seen(json!({
            "AttachedPoliciesPerRoleQuota": 10, "InstanceProfiles": 0, "InstanceProfilesQuota": 1000,
        })),
        "reservations": seen(json!([])),
        "volumes": seen(json!({"encrypted": false, "key": "alias/aws/ebs"})),
        "keys": seen(json!({ KEY: seen(json!(key_policy)) })),
        "closed_subnets": seen(json!([])),
        "endpoints": seen(json!([])),
        "vcpu_quotas": seen(json!({"on-demand": 1152, "spot": 1152})),
        "rights": seen(json!([
            right("ec2:RunInstances", "*"),
            right("iam:PassRole", "*"),
            right("iam:PassRole", "arn:aws:iam::123456789012:role/KarpenterNodeRole-demo"),
            right("iam:PassRole", "arn:aws:iam::123456789012:role/WindowsNodes"),
        ])),
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
