//! What admission plugins and per-kind strategies do to built-in objects before they are stored.

use serde_json::{Value, json};

use super::{Part, Store};
use crate::apiserver::{
    cause::Cause,
    crd,
    object::{self, Key, text},
    refusal::Refusal,
    resource::Resource,
};

/// Priority classes that every cluster has.
pub(super) const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Seconds a pod stays on a node that is not ready or not reachable, unless it says otherwise.
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

/// Completes and checks a new object.
pub(super) fn on_create(store: &Store, resource: &Resource, object: &mut Value) -> Result<(), Refusal> {
    if resource.is_core("pods") {
        require_containers(resource, object)?;
        resolve_priority(store, resource, object)?;
        tolerate_node_problems(object);
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

fn resolve_priority(store: &Store, resource: &Resource, pod: &mut Value) -> Result<(), Refusal> {
    let class = text(pod, "/spec/priorityClassName").to_owned();
    let classes = store.registry.get("scheduling.k8s.io", "v1", "priorityclasses");
    let classes = classes.expect("invariant: the kind is built in");
    let found = if class.is_empty() {
        let default = |(_, c): &(&Key, &std::sync::Arc<Value>)| c["globalDefault"] == true;
        store.table(&classes.table()).find(default).map(|(_, c)| c.clone())
    } else {
        let missing = |_| {
            Refusal::forbidden(
                resource,
                object::name(pod),
                &format!("no PriorityClass with name {class} was found"),
            )
        };
        Some(store.find(&classes, &Key::new("", &class)).map_err(missing)?)
    };
    if let Some(found) = &found {
        pod["spec"]["priorityClassName"] = json!(object::name(found));
    }
    let fields = found.as_ref().map(|c| (c["value"].clone(), c["preemptionPolicy"].clone()));
    let (value, preemption) = fields.unwrap_or((json!(0), Value::Null));
    let spec = object::map_mut(pod, "spec");
    spec.insert("priority".to_owned(), value);
    object::default_to(
        spec,
        "preemptionPolicy",
        if preemption.is_null() { json!("PreemptLowerPriority") } else { preemption },
    );
    Ok(())
}

fn tolerate_node_problems(pod: &mut Value) {
    let spec = object::map_mut(pod, "spec");
    object::default_to(spec, "serviceAccountName", "default");
    object::default_to(spec, "enableServiceLinks", true);
    object::default_to(spec, "tolerations", json!([]));
    let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |t: &Value| {
            let about_key = t["key"] == key || text(t, "/key").is_empty();
            about_key && matches!(text(t, "/effect"), "" | "NoExecute")
        };
        if !tolerations.iter().any(tolerates) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": DEFAULT_TOLERATION_SECONDS,
            }));
        }
    }
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
