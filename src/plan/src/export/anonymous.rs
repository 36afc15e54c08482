//! Names and labels of users replaced by digests, the same text by the same digest, so that selectors, references and
//! hashes still agree. Keys and values that Kubernetes, AWS or Karpenter give a meaning to stay.
//!
//! The digest is cut short and of plain texts: who knows a name can check whether it was that; nothing more is promised.

use std::collections::BTreeMap;

use karpenter_api::NodePool;
use karpenter_model::names::{annotation, label};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::buffers::TEMPLATE;
use crate::objects::text;
use crate::offerings::INSTANCE_TYPE;

/// Domains whose labels, taints and annotations have a meaning of their own.
const KNOWN_DOMAINS: [&str; 6] =
    ["kubernetes.io", "k8s.io", label::DOMAIN, label::aws::DOMAIN, "eks.amazonaws.com", "k8s.aws"];

/// Labels of those domains whose values are names all the same.
const NAMES: [&str; 4] =
    [label::HOSTNAME, label::NODE_POOL, label::aws::EC2_NODE_CLASS, "kubernetes.io/metadata.name"];

/// Maps from label to value.
const LABEL_MAPS: [&str; 3] = ["labels", "matchLabels", "nodeSelector"];

/// Fields with a name of an object.
const NAME_FIELDS: [&str; 12] = [
    "claimName",
    "hostIP",
    "name",
    "namespace",
    "nodeName",
    "nominatedNodeName",
    "path",
    "providerID",
    "resourceClaimName",
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
        "CSINode" | "StorageClass" | "DeviceClass" => {
            let name = digest_of(&document["metadata"]["name"]);
            let mut document = document;
            document["metadata"]["name"] = name;
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
            (map, Value::Object(labels)) if LABEL_MAPS.contains(&map) => labels_of(labels),
            ("topologyKey", Value::String(key)) => json!(key_of(&key)),
            ("namespaces", Value::Array(names)) => names.iter().map(digest_of).collect(),
            // A name of a resource or a driver stays one.
            ("annotations", Value::Object(all)) => {
                Value::Object(all.into_iter().filter(|(key, _)| is_known(key)).collect())
            }
            ("matchLabelKeys" | "mismatchLabelKeys", Value::Array(keys)) => {
                keys.iter().map(|key| json!(key_of(key.as_str().unwrap_or_default()))).collect()
            }
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

fn is_known(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    KNOWN_DOMAINS.iter().any(|known| domain == *known || domain.ends_with(&format!(".{known}")))
}

fn key_of(key: &str) -> String {
    if is_known(key) || key.is_empty() { key.to_owned() } else { digest(key) }
}

/// Numbers stay, because they are compared.
fn value_of(key: &str, value: &str) -> String {
    let is_meant = is_known(key) && !NAMES.contains(&key);
    if is_meant || value.is_empty() || value.bytes().all(|byte| byte.is_ascii_digit()) {
        value.to_owned()
    } else {
        digest(value)
    }
}

/// An instance keeps its zone, which is part of what it is.
fn named(field: &str, text: &str) -> Value {
    match (field, text.rsplit_once('/')) {
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
    fn values_that_are_compared_as_numbers_stay() {
        let requirement = json!({"key": "example.com/size", "operator": "Gt", "values": ["4"]});
        assert_eq!(walk(requirement)["values"], json!(["4"]));
    }
}
