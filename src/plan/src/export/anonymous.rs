//! Names and labels of users replaced by digests, the same text by the same digest, so that selectors, references and
//! hashes still agree. Keys that Kubernetes, AWS or Karpenter give a meaning to stay. Values stay of those labels alone whose
//! values are not for users to choose: a key such as `app.kubernetes.io/name` is known, and its value is a name.
//!
//! The digest is cut short and has no key: a person who knows a name can check for it; nothing more is promised.

use std::collections::BTreeMap;

use karpenter_api::NodePool;
use karpenter_model::names::{annotation, label};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::fields;
use crate::buffers::TEMPLATE;
use crate::objects::text;
use crate::offerings::INSTANCE_TYPE;

/// Domains whose labels, taints and annotations have a meaning of their own.
const KNOWN_DOMAINS: [&str; 6] =
    ["kubernetes.io", "k8s.io", label::DOMAIN, label::aws::DOMAIN, "eks.amazonaws.com", "k8s.aws"];

/// Labels whose values are names of objects, which are digests also where they are of digits alone.
const NAMES: [&str; 4] =
    [label::HOSTNAME, label::NODE_POOL, label::aws::EC2_NODE_CLASS, label::NAMESPACE_NAME];

/// Labels besides the well-known ones whose values the controller sets, or AWS.
const SET_BY_CONTROLLERS: [&str; 4] =
    [label::REGISTERED, label::INITIALIZED, label::DO_NOT_SYNC_TAINTS, label::EXCLUDE_FROM_LOAD_BALANCERS];

/// Maps from label to value.
const LABEL_MAPS: [&str; 3] = ["labels", "matchLabels", "nodeSelector"];

/// Fields with a name of an object.
const NAME_FIELDS: [&str; 20] = [
    "claimName",
    "counterSet",
    "device",
    "deviceClassName",
    "hostIP",
    "name",
    "namespace",
    "nodeName",
    "nominatedNodeName",
    "ownerID",
    "path",
    "pool",
    "priorityClassName",
    "providerID",
    "request",
    "resourceClaimName",
    "schedulerName",
    "storageClassName",
    "uid",
    "volumeHandle",
];

/// The documents of an export without names of users.
pub(super) fn anonymous(documents: Vec<Value>) -> Vec<Value> {
    let hashes = |documents: &[Value]| -> Vec<Option<String>> { documents.iter().map(pool_hash).collect() };
    let before = hashes(&documents);
    let mut documents: Vec<Value> = documents.into_iter().map(document).collect();
    // A template with other names has another hash; machines that had the old one must have the new one.
    let renamed: BTreeMap<String, String> =
        before.into_iter().zip(hashes(&documents)).filter_map(|(old, new)| old.zip(new)).collect();
    for document in &mut documents {
        let hash =
            document.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(annotation::POOL_HASH));
        if let Some(hash) = hash
            && let Some(new) = hash.as_str().and_then(|old| renamed.get(old))
        {
            *hash = json!(new);
        }
    }
    documents
}

fn pool_hash(document: &Value) -> Option<String> {
    (document["kind"] == "NodePool")
        .then(|| NodePool::deserialize(document).ok())
        .flatten()
        .map(|pool| pool.hash())
}

fn document(mut document: Value) -> Value {
    match text(&document, "/kind") {
        "Export" => {
            let problems = document["spec"]["problems"].as_object().cloned().unwrap_or_default();
            let problems: Map<String, Value> =
                problems.into_iter().map(|(pool, _)| (digest(&pool), json!("left out"))).collect();
            document["spec"]["problems"] = Value::Object(problems);
            document
        }
        INSTANCE_TYPE => {
            for pool in document["spec"]["pools"].as_array_mut().into_iter().flatten() {
                *pool = json!(digest(pool.as_str().unwrap_or_default()));
            }
            let name = text(&document, "/metadata/name");
            let of_type = text(&document, "/spec/name");
            let pools = name.strip_prefix(of_type).unwrap_or_default();
            document["metadata"]["name"] = json!(format!("{of_type}.{}", digest(pools)));
            document
        }
        // Its name is found by that of the workload.
        TEMPLATE => {
            let name = text(&document, "/metadata/name").to_owned();
            let (kind, workload) = name.split_once('.').unwrap_or_default();
            let mut document = walk(document);
            document["metadata"]["name"] = json!(format!("{kind}.{}", digest(workload)));
            document
        }
        // Their other names are those of drivers.
        "CSINode" | "DeviceClass" => {
            document["metadata"] = walk(document["metadata"].take());
            for driver in document["spec"]["drivers"].as_array_mut().into_iter().flatten() {
                if let Some(id) = driver.get_mut("nodeID") {
                    *id = digest_of(id);
                }
            }
            document
        }
        _ => walk(document),
    }
}

fn walk(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(walk).collect()),
        Value::Object(fields) => {
            let is_expression = fields.contains_key("key")
                && ["operator", "values", "effect", "value"].iter().any(|field| fields.contains_key(*field));
            if is_expression { expression(fields) } else { object(fields) }
        }
        other => other,
    }
}

fn object(fields: Map<String, Value>) -> Value {
    let is_condition = fields.contains_key("status") && fields.contains_key("type");
    let entries = fields.into_iter().filter_map(|(field, value)| {
        let value = match (field.as_str(), value) {
            // Texts for people name objects.
            ("message", _) if is_condition => return None,
            // Devices have a node selector too, which is of terms.
            (map, Value::Object(labels))
                if LABEL_MAPS.contains(&map) && labels.values().all(Value::is_string) =>
            {
                labels_of(labels)
            }
            ("topologyKey", Value::String(key)) => json!(key_of(&key)),
            ("namespaces", Value::Array(names)) => names.iter().map(digest_of).collect(),
            ("annotations", Value::Object(all)) => annotations_of(all),
            ("finalizers", Value::Array(keys)) => {
                keys.iter().map(|key| json!(key_of(key.as_str().unwrap_or_default()))).collect()
            }
            ("disruptedPods", Value::Object(pods)) => {
                Value::Object(pods.into_iter().map(|(pod, at)| (digest(&pod), at)).collect())
            }
            // Requests of devices are a list, of names or of objects, those of resources a map.
            ("requests", Value::Array(all)) => {
                all.into_iter().map(|one| if one.is_string() { digest_of(&one) } else { walk(one) }).collect()
            }
            ("matchLabelKeys" | "mismatchLabelKeys", Value::Array(keys)) => {
                keys.iter().map(|key| json!(key_of(key.as_str().unwrap_or_default()))).collect()
            }
            // A name of a resource or a driver stays one.
            ("driver" | "capacity" | "allocatable" | "requests" | "limits", value) => value,
            (name, Value::String(text)) if NAME_FIELDS.contains(&name) => named(name, &text),
            ("volumeName", Value::String(text)) => json!(digest(&text)),
            (_, value) => walk(value),
        };
        Some((field, value))
    });
    Value::Object(entries.collect())
}

/// A requirement, a taint, a toleration or a part of a selector.
fn expression(mut fields: Map<String, Value>) -> Value {
    let key = fields.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (field, value) in &mut fields {
        match (field.as_str(), &mut *value) {
            ("key", Value::String(key)) => *key = key_of(key),
            ("value", Value::String(text)) => *text = value_of(&key, text),
            ("values", Value::Array(values)) => {
                for value in values {
                    *value = json!(value_of(&key, value.as_str().unwrap_or_default()));
                }
            }
            _ => {}
        }
    }
    Value::Object(fields)
}

fn labels_of(labels: Map<String, Value>) -> Value {
    let entries = labels.into_iter().map(|(key, value)| {
        let value = value_of(&key, value.as_str().unwrap_or_default());
        (key_of(&key), json!(value))
    });
    Value::Object(entries.collect())
}

/// Annotations that decisions read. Users choose the name of an instance profile, and nodes have names.
fn annotations_of(all: Map<String, Value>) -> Value {
    let read = all.into_iter().filter(|(key, _)| fields::is_read(key));
    let entries = read.map(|(key, value)| {
        let names = [annotation::aws::INSTANCE_PROFILE_NAME, annotation::SELECTED_NODE];
        let value = if names.contains(&key.as_str()) { digest_of(&value) } else { value };
        (key, value)
    });
    Value::Object(entries.collect())
}

/// Labels that are other names of well-known ones.
fn is_other_name(key: &str) -> bool {
    label::NORMALIZED.iter().chain(&label::aws::NORMALIZED).any(|(other, _)| key == *other)
}

/// Returns whether a key has a meaning of its own.
fn keeps_key(key: &str) -> bool {
    let domain = label::domain(key);
    let is_known =
        KNOWN_DOMAINS.iter().any(|known| domain == *known || domain.ends_with(&format!(".{known}")));
    is_known || is_other_name(key) || key.is_empty()
}

/// Returns whether a value tells what a node is and is no text of users. Labels that instance types have are among them,
/// because instance types are written with their values.
fn keeps_value(key: &str, value: &str) -> bool {
    if NAMES.contains(&key) {
        return value.is_empty();
    }
    let well_known = label::WELL_KNOWN.iter().chain(&label::aws::WELL_KNOWN).chain(&SET_BY_CONTROLLERS);
    let is_flag = ["true", "false"].contains(&value) && keeps_key(key);
    // Numbers are compared.
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    is_number || is_flag || is_other_name(key) || well_known.into_iter().any(|known| key == *known)
}

fn key_of(key: &str) -> String {
    if keeps_key(key) { key.to_owned() } else { digest(key) }
}

fn value_of(key: &str, value: &str) -> String {
    if keeps_value(key, value) { value.to_owned() } else { digest(value) }
}

/// An instance keeps its zone, which is part of what it is; names that Kubernetes gives classes and schedulers decide
/// something.
fn named(field: &str, text: &str) -> Value {
    match (field, text.rsplit_once('/')) {
        ("priorityClassName", _) if text.starts_with("system-") => json!(text),
        ("schedulerName", _) if text == "default-scheduler" => json!(text),
        ("providerID", Some((place, id))) => json!(format!("{place}/{}", digest(id))),
        _ if text.is_empty() => json!(text),
        _ => json!(digest(text)),
    }
}

fn digest_of(name: &Value) -> Value {
    json!(digest(name.as_str().unwrap_or_default()))
}

/// Begins with a letter, as names of objects do.
fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("x{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_still_match_and_names_are_gone() {
        let pod = json!({
            "kind": "Pod", "metadata": {"name": "pay-0", "namespace": "bank", "labels": {"app": "pay"}},
            "spec": {
                "nodeSelector": {"team": "money", label::ARCH: "arm64"},
                "tolerations": [{"key": "team", "operator": "Equal", "value": "money", "effect": "NoSchedule"}],
                "topologySpreadConstraints": [
                    {"topologyKey": label::ZONE, "labelSelector": {"matchLabels": {"app": "pay"}}},
                ],
                "containers": [{"name": "pay", "resources": {"requests": {"cpu": "1"}}}],
            },
        });
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "money"},
            "spec": {"template": {
                "metadata": {"labels": {"team": "money"}},
                "spec": {
                    "requirements": [{"key": label::ARCH, "operator": "In", "values": ["arm64"]}],
                    "taints": [{"key": "team", "value": "money", "effect": "NoSchedule"}],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "money"},
                },
            }},
        });
        let before = pool_hash(&pool).unwrap();
        let claim = json!({
            "kind": "NodeClaim",
            "metadata": {"name": "money-a", "annotations": {annotation::POOL_HASH: before}},
        });
        let written = anonymous(vec![pod, pool, claim]);
        let all = json!(written).to_string();
        for name in ["pay", "bank", "money", "team"] {
            assert!(!all.contains(name), "{name} in {all}");
        }
        let (pod, pool) = (&written[0], &written[1]);
        assert_eq!(pod["spec"]["nodeSelector"][digest("team")], digest("money"));
        assert_eq!(pool["spec"]["template"]["metadata"]["labels"][digest("team")], digest("money"));
        assert_eq!(
            pod["spec"]["tolerations"][0]["value"],
            pool["spec"]["template"]["spec"]["taints"][0]["value"]
        );
        assert_eq!(pod["spec"]["nodeSelector"][label::ARCH], "arm64");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
        assert_eq!(
            pod["metadata"]["labels"],
            pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]
        );
        let hash = &written[2]["metadata"]["annotations"][annotation::POOL_HASH];
        assert_eq!(hash.as_str(), pool_hash(pool).as_deref(), "the machine has not drifted");
    }

    #[test]
    fn values_are_digests_unless_their_label_has_a_closed_meaning() {
        let names = [
            "app.kubernetes.io/name",
            "app.kubernetes.io/instance",
            "app.kubernetes.io/part-of",
            "app.kubernetes.io/component",
            "app.kubernetes.io/version",
            "statefulset.kubernetes.io/pod-name",
            "batch.kubernetes.io/job-name",
            "eks.amazonaws.com/nodegroup",
            "alpha.eksctl.io/cluster-name",
            "node.kubernetes.io/purpose",
            "node-role.kubernetes.io/worker",
            "karpenter.sh/provisioner-name",
            "karpenter.k8s.aws/custom",
            "job-name",
            label::HOSTNAME,
            label::NODE_POOL,
            label::aws::EC2_NODE_CLASS,
        ];
        let meant = [
            (label::ARCH, "arm64"),
            (label::OS, "linux"),
            (label::INSTANCE_TYPE, "m7g.large"),
            (label::ZONE, "eu-west-1a"),
            (label::REGION, "eu-west-1"),
            (label::CAPACITY_TYPE, "spot"),
            (label::REGISTERED, "true"),
            (label::EXCLUDE_FROM_LOAD_BALANCERS, "karpenter"),
            (label::aws::INSTANCE_FAMILY, "m7g"),
            (label::aws::CAPACITY_RESERVATION_ID, "cr-1"),
            (label::aws::ZONE_ID, "euw1-az1"),
            ("failure-domain.beta.kubernetes.io/zone", "eu-west-1a"),
            ("topology.ebs.csi.aws.com/zone", "eu-west-1a"),
            ("node-role.kubernetes.io/worker", ""),
            ("node-role.kubernetes.io/worker", "true"),
        ];
        let changed = names.map(|key| (key, "money", digest("money")));
        let kept = meant.map(|(key, value)| (key, value, value.to_owned()));
        for (key, value, expected) in changed.into_iter().chain(kept) {
            let key_written = key_of(key);
            let labels = walk(json!({"labels": {key: value}}));
            assert_eq!(labels["labels"], json!({key_written.as_str(): expected}), "{key}");
            let expression = walk(json!({"key": key, "operator": "In", "values": [value]}));
            assert_eq!(
                (&expression["key"], &expression["values"]),
                (&json!(key_written), &json!([expected])),
                "selectors match as before: {key}"
            );
            let taint = walk(json!({"key": key, "value": value, "effect": "NoSchedule"}));
            assert_eq!(taint["value"], json!(expected), "{key}");
        }
    }

    #[test]
    fn a_name_of_digits_is_the_same_in_labels_and_in_objects() {
        let node = json!({"kind": "Node", "metadata": {"name": "7", "labels": {label::HOSTNAME: "7"}}});
        let node = &anonymous(vec![node])[0]["metadata"];
        assert_eq!(node["labels"][label::HOSTNAME], node["name"]);
    }

    #[test]
    fn no_name_is_left_beside_labels() {
        let annotated = json!({
            "karpenter.k8s.aws/instance-profile-name": "money", "kubernetes.io/description": "money",
            annotation::POD_DELETION_COST: "1",
        });
        let documents = [
            json!({"kind": "EC2NodeClass", "status": {"capacityReservations": [{"id": "cr-1", "ownerID": "111122223333"}]}}),
            json!({"kind": "NodePool", "spec": {"template": {"metadata": {"annotations": annotated}}}}),
            json!({"kind": "NodeClaim", "metadata": {"annotations": annotated, "finalizers": ["money.com/x"]}}),
            json!({"kind": "Pod", "spec": {"priorityClassName": "money", "schedulerName": "money"}}),
            json!({"kind": "StorageClass", "metadata": {"name": "money", "labels": {"team": "money"}}}),
            json!({"kind": "CSINode", "metadata": {"name": "money", "labels": {"app.kubernetes.io/name": "money"}}}),
            json!({"kind": "PodDisruptionBudget", "status": {"disruptedPods": {"money": "2026-01-01T00:00:00Z"}}}),
        ];
        for one in documents {
            let written = anonymous(vec![one])[0].to_string();
            for name in ["money", "111122223333"] {
                assert!(!written.contains(name), "{written}");
            }
        }
        let meant = json!({"kind": "Pod", "spec": {
            "priorityClassName": "system-node-critical", "schedulerName": "default-scheduler",
        }});
        assert_eq!(anonymous(vec![meant.clone()]), [meant]);
    }

    #[test]
    fn devices_are_found_by_their_names_as_before() {
        let documents = anonymous(vec![
            json!({"kind": "DeviceClass", "metadata": {"name": "gpus"}}),
            json!({"kind": "ResourceSlice", "spec": {
                "driver": "gpu.example.com", "pool": {"name": "p", "generation": 1},
                "nodeSelector": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": label::ZONE, "operator": "In", "values": ["zone-a"]}]},
                ]},
                "devices": [{"name": "gpu-0"}],
            }}),
            json!({"kind": "ResourceClaim",
                "spec": {"devices": {
                    "requests": [{"name": "one", "exactly": {"deviceClassName": "gpus", "capacity": {"requests": {"m": "1"}}}}],
                    "constraints": [{"requests": ["one"], "matchAttribute": "gpu.example.com/numa"}],
                }},
                "status": {"allocation": {"devices": {"results": [
                    {"request": "one", "driver": "gpu.example.com", "pool": "p", "device": "gpu-0"},
                ]}}},
            }),
        ]);
        let [class, slice, claim] = &documents[..] else { panic!("{documents:?}") };
        let devices = &claim["spec"]["devices"];
        let request = &devices["requests"][0];
        let result = &claim["status"]["allocation"]["devices"]["results"][0];
        assert_eq!(request["exactly"]["deviceClassName"], class["metadata"]["name"]);
        assert_eq!(request["exactly"]["capacity"]["requests"], json!({"m": "1"}));
        assert_eq!(
            (&devices["constraints"][0]["requests"][0], &result["request"]),
            (&request["name"], &request["name"])
        );
        assert_eq!(devices["constraints"][0]["matchAttribute"], "gpu.example.com/numa");
        assert_eq!(result["driver"], slice["spec"]["driver"]);
        assert_eq!(result["pool"], slice["spec"]["pool"]["name"]);
        assert_eq!(result["device"], slice["spec"]["devices"][0]["name"]);
        let terms = &slice["spec"]["nodeSelector"]["nodeSelectorTerms"];
        assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["zone-a"]));
        let all = json!(documents).to_string();
        for name in ["\"gpus\"", "\"one\"", "\"p\"", "\"gpu-0\""] {
            assert!(!all.contains(name), "{name} in {all}");
        }
    }

    #[test]
    fn values_that_are_compared_as_numbers_stay() {
        let requirement = json!({"key": "example.com/size", "operator": "Gt", "values": ["4"]});
        assert_eq!(walk(requirement)["values"], json!(["4"]));
    }
}
