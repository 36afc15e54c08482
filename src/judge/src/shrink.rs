//! Cuts a world down while it still shows a difference: whole objects first, then fields.

use serde_json::Value;

use crate::objects::key;

/// Fields whose loss leaves an object that the API server would take, by the path to what holds them.
const FIELDS: [(&str, &[&str]); 8] = [
    (
        "/spec",
        &[
            "affinity",
            "topologySpreadConstraints",
            "nodeSelector",
            "tolerations",
            "volumes",
            "taints",
            "limits",
            "weight",
            "initContainers",
            "overhead",
            "priority",
            "priorityClassName",
            "hostNetwork",
            "unschedulable",
        ],
    ),
    ("/spec/affinity", &["nodeAffinity", "podAffinity", "podAntiAffinity"]),
    (
        "/spec/affinity/podAffinity",
        &[
            "preferredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ],
    ),
    (
        "/spec/affinity/podAntiAffinity",
        &[
            "preferredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ],
    ),
    (
        "/spec/affinity/nodeAffinity",
        &[
            "preferredDuringSchedulingIgnoredDuringExecution",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ],
    ),
    ("/spec/containers/0", &["ports"]),
    (
        "/spec/template/spec",
        &[
            "nodeSelector",
            "affinity",
            "hostNetwork",
            "priority",
            "priorityClassName",
            "tolerations",
            "taints",
        ],
    ),
    ("/spec/template/spec/containers/0", &["ports"]),
];

/// Lists of which single entries may go.
const LISTS: [&str; 4] = [
    "/spec/topologySpreadConstraints",
    "/spec/template/spec/requirements",
    "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution",
    "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution",
];

/// The smallest objects found for which `still` holds.
pub fn shrink(objects: &[Value], mut still: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
    let mut objects = objects.to_vec();
    loop {
        let before = objects.clone();
        drop_objects(&mut objects, &mut still);
        drop_fields(&mut objects, &mut still);
        if objects == before {
            return objects;
        }
    }
}

fn drop_objects(objects: &mut Vec<Value>, still: &mut impl FnMut(&[Value]) -> bool) {
    let mut index = objects.len();
    while index > 0 {
        index -= 1;
        let mut without = objects.clone();
        let gone = without.remove(index);
        // A claim or a volume that pods need goes with them, or the pod is another one.
        if key(&gone).0 != "EC2NodeClass" && still(&without) {
            *objects = without;
            index = index.min(objects.len());
        }
    }
}

fn drop_fields(objects: &mut Vec<Value>, still: &mut impl FnMut(&[Value]) -> bool) {
    for index in 0..objects.len() {
        for (holder, fields) in FIELDS {
            for field in fields {
                attempt(objects, index, still, |object| {
                    let holder = object.pointer_mut(holder).and_then(Value::as_object_mut);
                    holder.is_some_and(|holder| holder.shift_remove(*field).is_some())
                });
            }
        }
        for list in LISTS {
            let length = |objects: &[Value]| {
                objects[index].pointer(list).and_then(Value::as_array).map_or(0, Vec::len)
            };
            for entry in (0..length(objects)).rev() {
                attempt(objects, index, still, |object| {
                    let entries = object.pointer_mut(list).and_then(Value::as_array_mut);
                    entries.is_some_and(|entries| {
                        entries.remove(entry);
                        true
                    })
                });
            }
        }
    }
}

fn attempt(
    objects: &mut Vec<Value>,
    index: usize,
    still: &mut impl FnMut(&[Value]) -> bool,
    change: impl FnOnce(&mut Value) -> bool,
) {
    let mut changed = objects.clone();
    if change(&mut changed[index]) && still(&changed) {
        *objects = changed;
    }
}
