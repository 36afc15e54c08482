//! Room of capacity buffers: the virtual pods the controller would let wait for it. Only with the feature gate
//! `CapacityBuffer`.
//!
//! Objects that a buffer names are looked up among the others. An export has no workloads, so each one that a buffer names is
//! written as what the buffer takes from it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use karpenter_api::CapacityBuffer;
use karpenter_api::convert::{self, Admission};
use karpenter_lifecycle::buffer::{self, Pattern, Unresolved};
use karpenter_model::{Buffer, Pod};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{ObjectKey, Objects, text};
use crate::offerings::API_VERSION;

/// Kind of what a buffer takes from a workload, in an export.
pub(crate) const TEMPLATE: &str = "BufferTemplate";

/// The virtual pods of every buffer in the order of their names, and why those of others are not known.
pub(crate) fn pods(objects: &Objects, at: Timestamp) -> (Vec<Pod>, Vec<String>) {
    let (mut pods, mut notes) = (Vec::new(), Vec::new());
    let admission = objects.admission();
    for (key, object) in objects.of_kind("CapacityBuffer") {
        if object["metadata"].get("deletionTimestamp").is_some() {
            continue;
        }
        match resolved(objects, object, &admission) {
            Ok((buffer, pattern)) => {
                let count = buffer::replicas(&buffer, &pattern);
                pods.extend(buffer::pods(&buffer, &pattern.pod, count, at));
            }
            Err(problem) => {
                notes.push(format!("buffer `{}/{}` holds no room: {problem}", key.namespace, key.name));
            }
        }
    }
    (pods, notes)
}

fn resolved(
    objects: &Objects,
    object: &Value,
    admission: &Admission,
) -> Result<(Buffer, Pattern), Unresolved> {
    let unreadable = |problem: String| Unresolved::Unreadable(problem);
    let object = CapacityBuffer::deserialize(object).map_err(|error| unreadable(error.to_string()))?;
    let buffer = convert::buffer(&object).map_err(|error| unreadable(error.to_string()))?;
    let source = buffer::source(&buffer)?;
    let (kind, name) = source.named();
    let namespace = buffer.key.namespace.as_str().to_owned();
    let (template, replicas) = found(objects, kind, &namespace, name).ok_or_else(|| source.missing())?;
    let template = PodTemplateSpec::deserialize(&template).map_err(|error| unreadable(error.to_string()))?;
    let pod = convert::template_pod(kind, (&namespace, name), Some(&template), admission)
        .map_err(|error| unreadable(error.to_string()))?;
    Ok((buffer, Pattern { pod, replicas }))
}

/// Template and number of pods of a workload, or of what an export has of it.
fn found(objects: &Objects, kind: &str, namespace: &str, name: &str) -> Option<(Value, Option<u32>)> {
    let key = |kind: &str, name: &str| ObjectKey {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    if let Some(object) = objects.get(&key(kind, name)) {
        return Some(taken(object));
    }
    let written = objects.get(&key(TEMPLATE, &format!("{kind}.{name}")))?;
    let (template, replicas) = taken(written);
    Some((template, replicas.filter(|_| kind != "PodTemplate")))
}

/// Returns the parts of a workload or a pod template that a buffer takes, to stand instead of it: a Deployment of a cluster has
/// its pods, while one of a manifest stands for them.
pub fn template_of(object: &Value) -> Value {
    let (kind, namespace) = (text(object, "/kind"), text(object, "/metadata/namespace"));
    let (template, replicas) = taken(object);
    of(kind, namespace, text(object, "/metadata/name"), &template, replicas)
}

fn taken(object: &Value) -> (Value, Option<u32>) {
    if object["kind"] == "PodTemplate" {
        return (object["template"].clone(), None);
    }
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    (object["spec"]["template"].clone(), Some(u32::try_from(replicas).unwrap_or_default()))
}

fn of(kind: &str, namespace: &str, name: &str, template: &Value, replicas: Option<u32>) -> Value {
    let mut spec = json!({"template": template});
    if let Some(replicas) = replicas {
        spec["replicas"] = json!(replicas);
    }
    json!({
        "apiVersion": API_VERSION, "kind": TEMPLATE,
        "metadata": {"name": format!("{kind}.{name}"), "namespace": namespace}, "spec": spec,
    })
}

/// Returns the parts that buffers take from the workloads they name, as objects of an export.
pub(crate) fn written(objects: &Objects) -> Vec<Value> {
    let mut written = Vec::new();
    for (key, object) in objects.of_kind("CapacityBuffer") {
        let Ok(object) = CapacityBuffer::deserialize(object) else { continue };
        let Ok(buffer) = convert::buffer(&object) else { continue };
        let Ok(source) = buffer::source(&buffer) else { continue };
        let (kind, name) = source.named();
        let Some((template, replicas)) = found(objects, kind, &key.namespace, name) else { continue };
        let object = of(kind, &key.namespace, name, &template, replicas);
        if !written.contains(&object) {
            written.push(object);
        }
    }
    written
}
