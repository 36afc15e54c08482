//! Kubernetes objects as tests load them: a test states what it is about, the rest is filled in here.
//!
//! Everything with a namespace is in `default`.

use serde_json::{Value, json};

/// Puts the fields of `change` into `object`; what it does not mention stays.
pub fn merge(object: &mut Value, change: &Value) {
    match (object, change) {
        (Value::Object(object), Value::Object(change)) => {
            for (key, value) in change {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, change) => *object = change.clone(),
    }
}

/// Returns `object` with the fields of `change` in it.
pub fn with(mut object: Value, change: &Value) -> Value {
    merge(&mut object, change);
    object
}

/// A requirement on a label: one of `values`.
pub fn one_of(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// A reference to an EC2NodeClass.
pub fn class_ref(name: &str) -> Value {
    json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name})
}

/// An EC2NodeClass that selects what is tagged for discovery by `cluster`, with the fields of `spec` in its spec.
pub fn node_class(name: &str, cluster: &str, spec: &Value) -> Value {
    let discovery = json!([{"tags": {"karpenter.sh/discovery": cluster}}]);
    let usual = json!({
        "role": format!("KarpenterNodeRole-{cluster}"),
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": discovery,
        "securityGroupSelectorTerms": discovery,
    });
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
        "spec": with(usual, spec),
    })
}

/// A NodePool of the EC2NodeClass `default`, with these requirements and the fields of `spec` in its spec.
pub fn node_pool(name: &str, requirements: &[Value], spec: &Value) -> Value {
    let template = json!({"spec": {"nodeClassRef": class_ref("default"), "requirements": requirements}});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": with(json!({"template": template}), spec),
    })
}

/// A NodeClaim of the EC2NodeClass `default`, with these requirements and with `change` in it.
pub fn node_claim(name: &str, requirements: &[Value], change: &Value) -> Value {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
        "spec": {"nodeClassRef": class_ref("default"), "requirements": requirements},
    });
    with(claim, change)
}

/// A pod that requests this much CPU, with `change` in it.
pub fn pod(name: &str, cpu: &str, change: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    with(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(cpu)}), change)
}

/// A ReplicaSet of pods labelled `app: <name>`, each with this much CPU and the fields of `spec` in its spec.
pub fn replica_set(name: &str, replicas: usize, cpu: &str, spec: &Value) -> Value {
    let mut set = workload("ReplicaSet", name, &with(pod_spec(cpu), spec));
    set["spec"]["replicas"] = replicas.into();
    set
}

/// A Deployment with the same pods as [`replica_set`].
pub fn deployment(name: &str, replicas: usize, cpu: &str, spec: &Value) -> Value {
    with(replica_set(name, replicas, cpu, spec), &json!({"kind": "Deployment"}))
}

/// A DaemonSet whose pods have this spec.
pub fn daemon_set(name: &str, spec: &Value) -> Value {
    workload("DaemonSet", name, spec)
}

fn workload(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    })
}

fn pod_spec(cpu: &str) -> Value {
    json!({
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
    })
}

/// Part of a pod's spec that keeps it off nodes with a pod labelled `app: <app>`.
pub fn apart(app: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}},
    ]}}})
}

/// Part of a pod's spec that takes a port of its node, so that no two such pods share one.
pub fn on_port_80(cpu: &str) -> Value {
    json!({"containers": [{
        "name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}},
        "ports": [{"containerPort": 80, "hostPort": 80}],
    }]})
}

/// A `PodDisruptionBudget` over the pods with the label `app: <app>`.
pub fn disruption_budget(name: &str, app: &str, allows: &Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": with(json!({"selector": {"matchLabels": {"app": app}}}), allows),
    })
}

/// A volume of EBS that exists in one zone.
pub fn volume(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [one_of("topology.kubernetes.io/zone", &[zone])]},
            ]}},
        },
    })
}

/// The attachment of a volume of EBS to a node.
pub fn attachment(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": "pv"}},
    })
}
