//! Changes that admission plugins and per-kind strategies make to built-in objects before they are stored.

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::convert::Admission;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Part, Store};
use crate::apiserver::{
    Cause, crd,
    object::{self, text},
    refusal::Refusal,
    resource::Resource,
};

/// Completes and checks a new object.
pub(super) fn on_create(store: &Store, resource: &Resource, object: &mut Value) -> Result<(), Refusal> {
    if resource.is_core("pods") {
        require_containers(resource, object)?;
        admit(store, resource, object)?;
        store.pod_webhook.iter().for_each(|webhook| webhook(object));
    }
    if resource.is_core("persistentvolumeclaims") && object["spec"]["storageClassName"].is_null() {
        let classes = admission(store, [("storage.k8s.io", "storageclasses")]);
        if let Some(class) = classes.default_storage_class() {
            object["spec"]["storageClassName"] = json!(class);
        }
    }
    if crd::is_crd_table(&resource.table()) {
        object["status"] = crd::established_status(object, &object::rfc3339(store.now()));
    }
    Ok(())
}

/// Checks what may not change once it is set.
pub(super) fn on_update(
    store: &Store,
    resource: &Resource,
    current: &Value,
    object: &mut Value,
    part: Part,
) -> Result<(), Refusal> {
    if object::is_deleting(current) {
        let before = object::finalizers(current);
        if let Some(added) = object::finalizers(object).iter().find(|f| !before.contains(f)) {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{\"{added}\"}}"
            );
            let cause = Cause::forbidden("metadata.finalizers", &why);
            return Err(Refusal::invalid(resource, object::name(current), vec![cause]));
        }
    }
    if part == Part::Main && resource.is_core("pods") {
        check_pod_spec(resource, current, object)?;
    }
    if resource.is_core("nodes") {
        let (before, after) = (text(current, "/spec/providerID"), text(object, "/spec/providerID"));
        if !before.is_empty() && before != after {
            let cause = Cause::forbidden(
                "spec.providerID",
                "node updates may not change providerID except from \"\" to valid",
            );
            return Err(Refusal::invalid(resource, object::name(current), vec![cause]));
        }
    }
    if crd::is_crd_table(&resource.table()) && part == Part::Main {
        object["status"] = crd::established_status(object, &object::rfc3339(store.now()));
        keep_transition_times(current, object);
    }
    Ok(())
}

fn keep_transition_times(current: &Value, object: &mut Value) {
    if let (Some(before), Some(after)) =
        (current.pointer("/status/conditions"), object.pointer_mut("/status/conditions"))
    {
        *after = before.clone();
    }
}

fn require_containers(resource: &Resource, pod: &Value) -> Result<(), Refusal> {
    if object::list(pod, "/spec/containers").is_empty() {
        let cause = Cause::required("spec.containers", "");
        return Err(Refusal::invalid(resource, object::name(pod), vec![cause]));
    }
    Ok(())
}

/// Returns the objects of these kinds that others are admitted by.
fn admission<const N: usize>(store: &Store, kinds: [(&str, &str); N]) -> Admission {
    let tables = kinds.map(|(group, plural)| {
        store.registry.get(group, "v1", plural).expect("invariant: the kind is built in").table()
    });
    Admission::of(tables.iter().flat_map(|table| store.table(table)).map(|(_, object)| &**object))
}

/// A pod as the admission plugins of the API server leave it.
fn admit(store: &Store, resource: &Resource, pod: &mut Value) -> Result<(), Refusal> {
    let kinds =
        [("", "limitranges"), ("node.k8s.io", "runtimeclasses"), ("scheduling.k8s.io", "priorityclasses")];
    let mut read = Pod::deserialize(&*pod).map_err(|error| Refusal::bad_request(error.to_string()))?;
    if let Some(why) = admission(store, kinds).admit(&mut read).first() {
        return Err(Refusal::forbidden(resource, object::name(pod), &why.to_string()));
    }
    let spec = object::map_mut(pod, "spec");
    if let Value::Object(admitted) = json!(read.spec) {
        spec.extend(admitted);
    }
    object::default_to(spec, "serviceAccountName", "default");
    object::default_to(spec, "enableServiceLinks", true);
    Ok(())
}

/// Fields of a pod spec that may change in some direction. Selectors may only while the pod is gated; a client
/// that changes them otherwise is not what this double is meant to catch.
const MUTABLE_POD_FIELDS: [&str; 6] = [
    "tolerations",
    "schedulingGates",
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "nodeSelector",
    "affinity",
];

/// Images, deadlines, scheduling gates (removal) and tolerations (addition) are all that may change.
fn check_pod_spec(resource: &Resource, current: &Value, object: &Value) -> Result<(), Refusal> {
    let frozen = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        if let Some(map) = spec.as_object_mut() {
            for field in MUTABLE_POD_FIELDS {
                map.shift_remove(field);
            }
        }
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        spec
    };
    if frozen(current) != frozen(object) {
        let why = "pod updates may not change fields other than `spec.containers[*].image`, \
                   `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only \
                   additions to existing tolerations)";
        let cause = Cause::forbidden("spec", why);
        return Err(Refusal::invalid(resource, object::name(current), vec![cause]));
    }
    Ok(())
}
