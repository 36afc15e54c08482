//! Schemas of the built-in kinds that are read, as Kubernetes v1.35 publishes them: fields, types, and what is required.
//!
//! They are those of `k8s-openapi`, so they are of the version that the conversion to the model knows. A status is what
//! controllers write; nothing is required in it.

use std::sync::{LazyLock, OnceLock};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate,
    ReplicationController,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::schemars::JsonSchema;
use k8s_openapi::schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::schema::QUANTITY;

/// A kind by version and name, with its schema once it was asked for.
struct Kind {
    api_version: &'static str,
    name: &'static str,
    make: fn() -> Value,
    made: OnceLock<Value>,
}

macro_rules! kinds {
    ($($kind:ident)*) => {
        vec![$(Kind {
            api_version: <$kind as k8s_openapi::Resource>::API_VERSION,
            name: <$kind as k8s_openapi::Resource>::KIND,
            make: schema::<$kind>,
            made: OnceLock::new(),
        }),*]
    };
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    kinds![
        CSINode CronJob DaemonSet Deployment DeviceClass HorizontalPodAutoscaler Job LimitRange Namespace Node
        PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget PodTemplate PriorityClass ReplicaSet
        ReplicationController ResourceClaim ResourceClaimTemplate ResourceSlice RuntimeClass StatefulSet StorageClass
        VolumeAttachment
    ]
});

/// The schema of an object of a built-in kind; `None` for other kinds and versions.
pub(super) fn schema_of(object: &Value) -> Option<&'static Value> {
    let is_of = |kind: &&Kind| object["apiVersion"] == kind.api_version && object["kind"] == kind.name;
    KINDS.iter().find(is_of).map(|kind| kind.made.get_or_init(kind.make))
}

/// The schema of the metadata of every object.
pub(super) fn metadata() -> &'static Value {
    static MADE: LazyLock<Value> = LazyLock::new(schema::<ObjectMeta>);
    &MADE
}

fn schema<T: JsonSchema>() -> Value {
    let mut root = SchemaSettings::default().into_generator().into_root_schema_for::<T>().to_value();
    let definitions = root.get_mut("$defs").map(Value::take).unwrap_or_default();
    let mut whole = plain(&root, &definitions);
    if let Some(status) = whole.pointer_mut("/properties/status") {
        require_nothing(status);
    }
    whole
}

/// A schema without references, descriptions and what else no check looks at.
fn plain(schema: &Value, definitions: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/")) {
        return match name.rsplit('.').next() {
            Some("Quantity") => json!({"format": QUANTITY}),
            _ => plain(&definitions[name], definitions),
        };
    }
    let mut plain_one = Map::new();
    for field in ["type", "format", "required", "x-kubernetes-int-or-string"] {
        plain_one.extend(schema.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    for field in ["items", "additionalProperties"] {
        plain_one.extend(schema.get(field).map(|below| (field.to_owned(), plain(below, definitions))));
    }
    if schema["type"] == "object" {
        let properties = schema["properties"].as_object();
        let properties = properties.into_iter().flatten();
        let properties = properties.map(|(name, below)| (name.clone(), plain(below, definitions)));
        let properties: Map<String, Value> = properties.collect();
        if !properties.is_empty() {
            plain_one.insert("properties".to_owned(), Value::Object(properties));
        }
    }
    if schema["format"] == "int32" {
        plain_one.insert("minimum".to_owned(), json!(i32::MIN));
        plain_one.insert("maximum".to_owned(), json!(i32::MAX));
    }
    let is_open = schema.get("properties").is_none() && schema.get("additionalProperties").is_none();
    if schema["type"] == "object" && is_open || schema.get("type").is_none() {
        plain_one.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
    }
    Value::Object(plain_one)
}

fn require_nothing(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.shift_remove("required");
            fields.values_mut().for_each(require_nothing);
        }
        Value::Array(items) => items.iter_mut().for_each(require_nothing),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_have_no_references_and_know_amounts() {
        for kind in KINDS.iter() {
            let schema = (kind.make)();
            assert!(!schema.to_string().contains("$ref"), "{}", kind.name);
            assert_eq!(schema["type"], "object", "{}", kind.name);
        }
        let pod = schema_of(&json!({"apiVersion": "v1", "kind": "Pod"})).unwrap();
        let amounts = "/properties/spec/properties/containers/items/properties/resources/properties/requests";
        assert_eq!(pod.pointer(amounts).unwrap()["additionalProperties"], json!({"format": QUANTITY, }));
        assert_eq!(metadata()["properties"]["labels"]["additionalProperties"]["type"], "string");
    }
}
