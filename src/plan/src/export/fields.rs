//! Fields that are written to an export, by kind: those that decisions read. All others are left out.

use karpenter_model::names::{annotation, label};
use serde_json::{Map, Value, json};

use crate::buffers::TEMPLATE;
use crate::objects::text;
use crate::settle::classes;

/// Fields of every object.
const METADATA: [&str; 10] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.labels",
];

/// Annotations that decisions read begin like this; all others may hold anything.
const ANNOTATIONS: [&str; 5] = [
    label::DOMAIN,
    label::aws::DOMAIN,
    annotation::POD_DELETION_COST,
    annotation::BIND_COMPLETED,
    annotation::SELECTED_NODE,
];

const POD: [&str; 31] = [
    "metadata.ownerReferences",
    "spec.nodeName",
    "spec.nodeSelector",
    "spec.affinity",
    "spec.tolerations",
    "spec.topologySpreadConstraints",
    "spec.containers.name",
    "spec.containers.resources",
    "spec.containers.ports",
    "spec.initContainers.name",
    "spec.initContainers.resources",
    "spec.initContainers.ports",
    "spec.initContainers.restartPolicy",
    "spec.resources",
    "spec.overhead",
    "spec.preemptionPolicy",
    "spec.priority",
    "spec.priorityClassName",
    "spec.hostNetwork",
    "spec.terminationGracePeriodSeconds",
    "spec.volumes.name",
    "spec.volumes.persistentVolumeClaim",
    "spec.schedulerName",
    "spec.resourceClaims",
    "status.phase",
    "status.conditions",
    "status.startTime",
    "status.nominatedNodeName",
    "status.containerStatuses",
    "status.initContainerStatuses",
    "status.resourceClaimStatuses",
];

/// Fields of the state of a container.
const CONTAINER_STATUS: [&str; 3] = ["name", "resources", "allocatedResources"];

/// An object as it is written; `None` for kinds that plans do not read.
pub(super) fn kept(kind: &str, object: &Value) -> Option<Value> {
    let fields: &[&str] = match kind {
        "Pod" => return Some(pod(object)),
        "DaemonSet" => return Some(daemon_set(object)),
        TEMPLATE => return Some(template(object)),
        "Node" => &[
            "metadata.ownerReferences",
            "metadata.finalizers",
            "spec.providerID",
            "spec.taints",
            "spec.unschedulable",
            "status.capacity",
            "status.allocatable",
            "status.conditions",
        ],
        "NodeClaim" => &["metadata.ownerReferences", "metadata.finalizers", "spec", "status"],
        "NodeOverlay"
        | "CapacityBuffer"
        | "NodePool"
        | "PodDisruptionBudget"
        | "LimitRange"
        | "CSINode"
        | "ResourceSlice"
        | "ResourceClaim" => &["spec", "status"],
        "EC2NodeClass" => {
            &["status.conditions", "status.subnets", "status.amis", "status.capacityReservations"]
        }
        "Namespace" => &[],
        "PersistentVolumeClaim" => &[
            "spec.volumeName",
            "spec.storageClassName",
            "spec.accessModes",
            "spec.volumeMode",
            "spec.resources.requests",
            "status.phase",
        ],
        "PersistentVolume" => &[
            "spec.storageClassName",
            "spec.claimRef.namespace",
            "spec.claimRef.name",
            "spec.capacity",
            "spec.accessModes",
            "spec.volumeMode",
            "spec.csi.driver",
            "spec.csi.volumeHandle",
            "spec.awsElasticBlockStore",
            "spec.local",
            "spec.hostPath",
            "spec.nodeAffinity",
        ],
        "StorageClass" => &["provisioner", "volumeBindingMode", "allowedTopologies"],
        "DeviceClass" => &["spec.selectors"],
        "PriorityClass" => &["value", "globalDefault", "preemptionPolicy"],
        "RuntimeClass" => &["overhead", "scheduling"],
        _ => return None,
    };
    let mut kept = pick(object, fields);
    if kind == "EC2NodeClass" {
        // Its fields do not decide anything, but the schema asks for them.
        kept["spec"] =
            json!({"amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []});
        classes::keep(object, &mut kept);
    }
    Some(kept)
}

fn pod(object: &Value) -> Value {
    let mut kept = pick(object, &POD);
    // The claim of an ephemeral volume has a name that follows from both.
    let name = text(object, "/metadata/name");
    let volumes = object.pointer("/spec/volumes").and_then(Value::as_array);
    let ephemeral = volumes.into_iter().flatten().filter(|volume| volume.get("ephemeral").is_some());
    let ephemeral: Vec<&str> = ephemeral.map(|volume| text(volume, "/name")).collect();
    let mut claims = Vec::new();
    for volume in kept.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten() {
        let of_volume = text(volume, "/name");
        if volume.get("persistentVolumeClaim").is_some() {
            claims.push(volume.clone());
        } else if ephemeral.contains(&of_volume) {
            let claim = format!("{name}-{of_volume}");
            claims.push(json!({"name": of_volume, "persistentVolumeClaim": {"claimName": claim}}));
        }
    }
    if let Some(spec) = kept["spec"].as_object_mut()
        && spec.contains_key("volumes")
    {
        spec.insert("volumes".to_owned(), Value::Array(claims));
    }
    for list in ["containerStatuses", "initContainerStatuses"] {
        for status in kept["status"][list].as_array_mut().into_iter().flatten() {
            *status = only(status, &CONTAINER_STATUS);
        }
    }
    tidy(&mut kept);
    kept
}

fn daemon_set(object: &Value) -> Value {
    let mut kept = pick(object, &["spec.selector"]);
    kept["spec"]["template"] = pod_template(&object["spec"]["template"]);
    kept
}

/// Returns the parts that a buffer takes from a workload.
fn template(object: &Value) -> Value {
    let mut kept = pick(object, &["spec.replicas"]);
    kept["spec"]["template"] = pod_template(&object["spec"]["template"]);
    kept
}

fn pod_template(template: &Value) -> Value {
    let template = json!({"metadata": template["metadata"], "spec": template["spec"]});
    let mut of_pod = pod(&template);
    let labels = template["metadata"]["labels"].clone();
    json!({"metadata": {"labels": labels}, "spec": of_pod["spec"].take()})
}

/// The fields of every object and those at `paths`; a path through a list goes into each of its items.
fn pick(object: &Value, paths: &[&str]) -> Value {
    let mut kept = json!({});
    for path in METADATA.iter().chain(paths) {
        copy(object, &mut kept, &path.split('.').collect::<Vec<_>>());
    }
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let annotations: Map<String, Value> = annotations
        .into_iter()
        .flatten()
        .filter(|(key, _)| is_read(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !annotations.is_empty() {
        kept["metadata"]["annotations"] = Value::Object(annotations);
    }
    kept
}

/// Returns whether decisions read an annotation.
pub(super) fn is_read(annotation: &str) -> bool {
    ANNOTATIONS.iter().any(|start| annotation.starts_with(start))
}

fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some(found) = from.get(first) else { return };
    if rest.is_empty() {
        to[*first] = found.clone();
        return;
    }
    match found {
        Value::Array(items) => {
            let target = &mut to[*first];
            if !target.is_array() {
                *target = Value::Array(vec![json!({}); items.len()]);
            }
            for (item, target) in items.iter().zip(target.as_array_mut().into_iter().flatten()) {
                copy(item, target, rest);
            }
        }
        Value::Object(_) => {
            let target = &mut to[*first];
            if target.is_null() {
                *target = json!({});
            }
            copy(found, target, rest);
        }
        _ => {}
    }
}

fn only(value: &Value, fields: &[&str]) -> Value {
    let entries = value.as_object().into_iter().flatten().filter(|(key, _)| fields.contains(&key.as_str()));
    Value::Object(entries.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Indexing has added nulls where nothing was.
fn tidy(object: &mut Value) {
    if let Some(status) = object["status"].as_object_mut() {
        status.retain(|_, value| !value.is_null());
    }
    if let Some(object) = object.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_container_is_written_but_what_it_takes() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "namespace": "shop",
                "annotations": {"password": "secret", annotation::DO_NOT_DISRUPT: "true"},
            },
            "spec": {
                "containers": [{
                    "name": "c", "image": "secret", "command": ["secret"], "args": ["secret"],
                    "env": [{"name": "PASSWORD", "value": "secret"}], "envFrom": [{"secretRef": {"name": "secret"}}],
                    "resources": {"requests": {"cpu": "1"}},
                }],
                "imagePullSecrets": [{"name": "secret"}],
                "volumes": [
                    {"name": "s", "secret": {"secretName": "secret"}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                ],
            },
            "status": {"phase": "Running", "hostIP": "10.0.0.1", "containerStatuses": [{"name": "c", "image": "secret"}]},
        });
        let kept = kept("Pod", &pod).unwrap();
        assert!(!kept.to_string().contains("secret"), "{kept}");
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "namespace": "shop", "annotations": {annotation::DO_NOT_DISRUPT: "true"},
            },
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                "volumes": [
                    {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "e", "persistentVolumeClaim": {"claimName": "a-e"}},
                ],
            },
            "status": {"phase": "Running", "containerStatuses": [{"name": "c"}]},
        });
        assert_eq!(kept, expected);
    }

    #[test]
    fn a_node_class_keeps_what_it_resolved_to_and_no_user_data() {
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"userData": "secret", "role": "secret"},
            "status": {"conditions": [{"type": "Ready"}], "instanceProfile": "secret"},
        });
        let kept = kept("EC2NodeClass", &class).unwrap();
        assert!(!kept.to_string().contains("secret"), "{kept}");
        assert_eq!(kept["status"]["conditions"][0]["type"], "Ready");
    }

    #[test]
    fn secrets_are_not_among_the_kinds() {
        for kind in ["Secret", "ConfigMap", "Deployment", "ServiceAccount"] {
            assert_eq!(kept(kind, &json!({"kind": kind, "metadata": {"name": "a"}})), None, "{kind}");
        }
    }
}
