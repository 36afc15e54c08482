//! A world in which nothing is wrong: a new EKS cluster as it is recorded, with and without Karpenter.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::facts::{Answer, Cluster, Facts, Names, Objects};

pub(super) const CLUSTER: &str = "demo";
/// The customer's key that encrypts the queue.
pub(super) const KEY: &str = "arn:aws:kms:us-west-2:123456789012:key/11111111-2222-3333-4444-555555555555";

/// An object from JSON.
pub(super) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// Puts an object into an answer, which is a list.
pub(super) fn push<L: DeserializeOwned + Serialize>(answer: &mut Answer<L>, value: Value) {
    let list = answer.as_mut().expect("an answer");
    let mut objects: Vec<Value> = object(serde_json::to_value(&*list).unwrap());
    objects.push(value);
    *list = object(json!(objects));
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
pub(super) fn first<T, L: Listed<T>>(answer: &mut Answer<L>) -> &mut T {
    answer.as_mut().and_then(|list| list.listed().first_mut()).expect("an object")
}

/// The last one.
pub(super) fn last<T, L: Listed<T>>(answer: &mut Answer<L>) -> &mut T {
    answer.as_mut().and_then(|list| list.listed().last_mut()).expect("an object")
}

/// Objects that can be changed.
pub(super) trait Listed<T> {
    fn listed(&mut self) -> &mut Vec<T>;
}

impl<T> Listed<T> for Vec<T> {
    fn listed(&mut self) -> &mut Self {
        self
    }
}

impl<T> Listed<T> for Objects<T> {
    fn listed(&mut self) -> &mut Vec<T> {
        &mut self.decoded
    }
}

/// The controller's Deployment, to be changed.
pub(super) fn controller(facts: &mut Facts) -> &mut Deployment {
    let all = facts.cluster.deployments.as_mut().unwrap().iter_mut();
    all.into_iter().find(|found| found.metadata.name.as_deref() == Some("karpenter")).unwrap()
}

/// A definition, to be changed.
pub(super) fn definition<'a>(facts: &'a mut Facts, name: &str) -> &'a mut CustomResourceDefinition {
    let all = facts.cluster.definitions.as_mut().unwrap().iter_mut();
    all.into_iter().find(|found| found.metadata.name.as_deref() == Some(name)).unwrap()
}

/// Sets a variable of the controller.
pub(super) fn set(facts: &mut Facts, name: &str, value: &str) {
    let pod = controller(facts).spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    let variables = pod.containers[0].env.as_mut().unwrap();
    variables.retain(|variable| variable.name != name);
    variables.push(object(json!({"name": name, "value": value})));
}

/// Kinds of the recorded manifests, the field of the facts each is an answer of, and what the API server calls them, in
/// the order in which objects can be made.
pub(super) const KINDS: [(&str, &str, &str); 19] = [
    ("CustomResourceDefinition", "definitions", "customresourcedefinitions"),
    ("Node", "nodes", "nodes"),
    ("Pod", "pods", "pods"),
    ("Deployment", "deployments", "deployments"),
    ("DaemonSet", "daemon_sets", "daemonsets"),
    ("PodDisruptionBudget", "budgets", "poddisruptionbudgets"),
    ("PersistentVolume", "volumes", "persistentvolumes"),
    ("PersistentVolumeClaim", "volume_claims", "persistentvolumeclaims"),
    ("StorageClass", "storage_classes", "storageclasses"),
    ("EC2NodeClass", "node_classes", "ec2nodeclasses"),
    ("NodePool", "node_pools", "nodepools"),
    ("NodeClaim", "node_claims", "nodeclaims"),
    ("Event", "events", "events"),
    ("ConfigMap", "config_maps", "configmaps"),
    ("ServiceAccount", "service_accounts", "serviceaccounts"),
    ("FlowSchema", "flow_schemas", "flowschemas"),
    ("ClusterRole", "cluster_roles", "clusterroles"),
    ("ClusterRoleBinding", "cluster_role_bindings", "clusterrolebindings"),
    ("Lease", "leases", "leases"),
];

/// Objects of a manifest.
pub(super) fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

/// Answers of an API server that has these objects and no others. What the doctor does not ask for is left out.
pub(super) fn answers(objects: &[Value]) -> Cluster {
    let mut cluster = json!({"log": {"seen": []}});
    for (kind, field, _) in KINDS {
        let of_kind: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
        cluster[field] = json!({ "seen": of_kind });
    }
    object(cluster)
}

/// A new EKS cluster, and the account it is in.
pub(super) fn recorded() -> Facts {
    let names = Names {
        node_role: "KarpenterNodeRole-demo".to_owned(),
        controller_role: "demo-karpenter".to_owned(),
        queue: "demo".to_owned(),
    };
    let mut facts = Facts::new(CLUSTER, names, "2026-01-01T12:00:00Z".parse().unwrap());
    facts.cluster = answers(&documents(include_str!("../../../recorded/eks.yaml")));
    facts.account = serde_json::from_str(include_str!("../../../recorded/eks-account.json")).unwrap();
    facts
}

/// A pod of a DaemonSet of EKS on the node that Karpenter launched.
fn daemon_pod(name: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("{name}-ours1"), "namespace": "kube-system", "labels": {"k8s-app": name},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "1", "controller": true},
            ],
        },
        "spec": {"nodeName": "ours-1", "priorityClassName": "system-node-critical", "priority": 2_000_001_000, "containers": [
            {"name": name, "image": name, "resources": {"requests": {"cpu": "25m"}}},
        ]},
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

/// Our definitions as Helm installs them.
pub(super) fn definitions() -> Vec<Value> {
    let owned = |mut crd: Value| {
        crd["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("Helm");
        crd["metadata"]["annotations"]["meta.helm.sh/release-name"] = json!("karpenter-crd");
        crd["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = json!("karpenter");
        crd
    };
    karpenter_api::crd_values().into_iter().map(owned).collect()
}

/// Karpenter outside `kube-system`, with a node of its own and classes for two operating systems.
#[allow(clippy::too_many_lines, reason = "a whole installation in one place")]
fn install(facts: &mut Facts) {
    let cluster = &mut facts.cluster;
    for crd in definitions() {
        push(&mut cluster.definitions, crd);
    }
    push(
        &mut cluster.nodes,
        json!({
            "metadata": {"name": "ours-1", "creationTimestamp": "2026-01-01T11:00:00Z", "labels": {
                "karpenter.sh/nodepool": "default", "karpenter.sh/initialized": "true",
                "node.kubernetes.io/instance-type": "m5.large",
            }},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
    let replica = json!({
        "metadata": {
            "name": "karpenter-1", "namespace": "karpenter",
            "labels": {"app.kubernetes.io/name": "karpenter"},
        },
        "spec": {
            "nodeName": "ip-10-0-1-10.us-west-2.compute.internal", "containers": [{"name": "controller"}],
        },
        "status": {"phase": "Running"},
    });
    for pod in [replica, app_pod("web-1"), daemon_pod("aws-node"), daemon_pod("kube-proxy")] {
        push(&mut cluster.pods, pod);
    }
    push(&mut cluster.deployments, deployment());
    let class_ref = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    push(
        &mut cluster.node_pools,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                ],
                "nodeClassRef": class_ref,
            }}},
        }),
    );
    push(
        &mut cluster.node_claims,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "default-abc"},
            "spec": {"requirements": [], "nodeClassRef": class_ref},
            "status": {"nodeName": "ours-1", "conditions": []},
        }),
    );
    push(
        &mut cluster.node_classes,
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "role": "KarpenterNodeRole-demo",
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
                "amiSelectorTerms": [{"alias": "al2023@v20250101"}],
                "kubelet": {"maxPods": 8},
            },
            "status": {"conditions": []},
        }),
    );
    push(
        &mut cluster.node_classes,
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "windows"},
            "spec": {
                "role": "WindowsNodes",
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": CLUSTER}}],
                "amiFamily": "Windows2022",
                "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}],
            },
        }),
    );
    let maps = cluster.config_maps.as_mut().unwrap().iter_mut();
    for map in maps.filter(|map| map.metadata.name.as_deref() == Some("amazon-vpc-cni")) {
        change(map, json!({"data": {"enable-windows-ipam": "true"}}));
    }
    push(
        &mut cluster.flow_schemas,
        json!({
            "metadata": {"name": "karpenter-workload"},
            "spec": {
                "priorityLevelConfiguration": {"name": "workload-high"},
                "rules": [{"subjects": [
                    {"kind": "ServiceAccount", "serviceAccount": {"name": "karpenter", "namespace": "karpenter"}},
                ]}],
            },
        }),
    );
    let rule = |group: &str, resources: Value| json!({"apiGroups": [group], "resources": resources, "verbs": ["watch", "patch"]});
    push(
        &mut cluster.cluster_roles,
        json!({"metadata": {"name": "karpenter"}, "rules": [
            rule("karpenter.sh", json!(["nodeoverlays", "nodeoverlays/status"])),
            rule("autoscaling.x-k8s.io", json!(["capacitybuffers", "capacitybuffers/status"])),
            rule("", json!(["podtemplates", "services", "replicationcontrollers"])),
        ]}),
    );
    push(
        &mut cluster.cluster_role_bindings,
        json!({
            "metadata": {"name": "karpenter"},
            "subjects": [{"kind": "ServiceAccount", "name": "karpenter", "namespace": "karpenter"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "karpenter"},
        }),
    );
    cluster.log.as_mut().unwrap().push("{\"level\":\"INFO\",\"message\":\"started\"}".to_owned());
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
    let classes = json!(["default", "windows"]);
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
            "issuer": "https://oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE",
        })),
        "subnets": seen(json!([
            {"id": "subnet-1", "zone": "us-west-2a", "free_addresses": 4000, "classes": classes},
        ])),
        "security_groups": seen(json!([
            {"id": "sg-1", "tags": {"kubernetes.io/cluster/demo": "owned"}, "classes": classes},
        ])),
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
        "identity_provider": seen(Value::Null),
        "keys": seen(json!({ KEY: seen(json!({"arn": KEY, "policy": key_policy})) })),
        "pods_by_type": seen(json!({"m5.large": 29})),
        "closed_subnets": seen(json!([])),
        "endpoints": seen(json!([])),
        "vcpu_quotas": seen(json!({"on-demand": 1152, "spot": 1152})),
        "rights": seen(json!([
            right("ec2:RunInstances", "arn:aws:ec2:us-west-2:123456789012:instance/i-0123456789abcdef0"),
            right("iam:PassRole", "arn:aws:iam::123456789012:role/KarpenterNodeRole-demo"),
            right("iam:PassRole", "arn:aws:iam::123456789012:role/WindowsNodes"),
        ])),
    })
}

/// Everything is right.
pub(super) fn healthy() -> Facts {
    let mut facts = recorded();
    facts.account = object(account());
    install(&mut facts);
    facts
}
