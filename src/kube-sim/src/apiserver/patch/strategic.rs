//! Strategic merge patch: merge patch that knows which lists of built-in kinds are maps.
//!
//! Directives: `$patch: delete|replace`, `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`,
//! `$retainKeys`.

use serde_json::{Map, Value, json};

use super::lists::{ListKind, kind_of};
use crate::apiserver::refusal::Refusal;

/// `target` with `patch` merged in.
pub(crate) fn merged(target: &Value, patch: &Value) -> Result<Value, Refusal> {
    let mut result = target.clone();
    merge(&mut result, patch)?;
    Ok(result)
}

/// Merges `patch` into `target`, of which nothing is to be used when that is refused.
pub(crate) fn merge(target: &mut Value, patch: &Value) -> Result<(), Refusal> {
    let Value::Object(patch) = patch else {
        return Err(Refusal::bad_request("a strategic merge patch must be a map"));
    };
    if !target.is_object() {
        *target = json!({});
    }
    merge_map(target.as_object_mut().expect("invariant: made a map above"), patch)
}

fn merge_map(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Refusal> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = without_directives(patch);
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(Refusal::bad_request(format!("unknown patch directive `{other}`"))),
    }
    if let Some(Value::Array(retained)) = patch.get("$retainKeys") {
        target.retain(|field, _| retained.iter().any(|kept| kept == field));
    }
    for (field, change) in patch {
        if let Some(list) = field.strip_prefix("$deleteFromPrimitiveList/") {
            delete_scalars(target, list, change);
        } else if !field.starts_with('$') {
            merge_field(target, field, change)?;
        }
    }
    for (field, order) in patch {
        if let (Some(list), Value::Array(order)) = (field.strip_prefix("$setElementOrder/"), order) {
            set_order(target, list, order);
        }
    }
    Ok(())
}

fn merge_field(target: &mut Map<String, Value>, field: &str, change: &Value) -> Result<(), Refusal> {
    match change {
        Value::Null => {
            target.shift_remove(field);
        }
        Value::Object(changes) => {
            let slot = target.entry(field.to_owned()).or_insert_with(|| json!({}));
            if !slot.is_object() {
                *slot = json!({});
            }
            merge_map(slot.as_object_mut().expect("invariant: made a map above"), changes)?;
        }
        Value::Array(changes) => {
            let slot = target.entry(field.to_owned()).or_insert_with(|| json!([]));
            let current = slot.as_array().cloned().unwrap_or_default();
            *slot = Value::Array(merge_list(field, current, changes)?);
        }
        scalar => {
            target.insert(field.to_owned(), scalar.clone());
        }
    }
    Ok(())
}

fn merge_list(field: &str, mut current: Vec<Value>, changes: &[Value]) -> Result<Vec<Value>, Refusal> {
    let replaces = |entry: &Value| {
        entry.as_object().is_some_and(|e| e.len() == 1 && e.get("$patch") == Some(&json!("replace")))
    };
    if changes.iter().any(replaces) {
        return Ok(changes.iter().filter(|entry| !replaces(entry)).cloned().collect());
    }
    match kind_of(field, changes) {
        ListKind::Atomic => return Ok(changes.to_vec()),
        ListKind::Set => {
            for change in changes {
                if !current.contains(change) {
                    current.push(change.clone());
                }
            }
        }
        ListKind::Keyed(key) => {
            for change in changes {
                merge_entry(&mut current, key, change)?;
            }
        }
    }
    Ok(current)
}

fn merge_entry(current: &mut Vec<Value>, key: &str, change: &Value) -> Result<(), Refusal> {
    let Some(changes) = change.as_object() else {
        return Err(Refusal::bad_request("entries of a keyed list must be maps"));
    };
    let at = current.iter().position(|entry| entry.get(key) == changes.get(key));
    let deletes = changes.get("$patch") == Some(&json!("delete"));
    match at {
        Some(index) if deletes => {
            current.remove(index);
        }
        Some(index) => {
            let entry = current[index].as_object_mut();
            merge_map(entry.ok_or_else(|| Refusal::internal("a keyed list holds a scalar"))?, changes)?;
        }
        None if deletes => {}
        None => {
            let mut entry = Map::new();
            merge_map(&mut entry, changes)?;
            current.push(Value::Object(entry));
        }
    }
    Ok(())
}

fn delete_scalars(target: &mut Map<String, Value>, field: &str, doomed: &Value) {
    let doomed = doomed.as_array().cloned().unwrap_or_default();
    if let Some(list) = target.get_mut(field).and_then(Value::as_array_mut) {
        list.retain(|entry| !doomed.contains(entry));
    }
}

/// Entries named in `order` come in that order; others keep their place behind.
fn set_order(target: &mut Map<String, Value>, field: &str, order: &[Value]) {
    let Some(list) = target.get_mut(field).and_then(Value::as_array_mut) else { return };
    let rank = |entry: &Value| {
        let is_it = |wanted: &Value| match wanted.as_object() {
            Some(keys) => keys.iter().all(|(key, value)| entry.get(key) == Some(value)),
            None => wanted == entry,
        };
        order.iter().position(is_it).unwrap_or(order.len())
    };
    list.sort_by_key(rank);
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch.iter().filter(|(field, _)| !field.starts_with('$')).map(|(f, v)| (f.clone(), v.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_built_in_kinds_merge_by_their_key() {
        let target = json!({
            "metadata": {"finalizers": ["a", "b"]},
            "spec": {"containers": [{"name": "x", "image": "1"}, {"name": "y", "image": "1"}], "taints": [{"key": "t"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "False"}]},
        });
        let cases = [
            (
                json!({"spec": {"containers": [{"name": "x", "image": "2"}]}}),
                "/spec/containers/0/image",
                json!("2"),
            ),
            (
                json!({"spec": {"containers": [{"name": "x", "$patch": "delete"}]}}),
                "/spec/containers",
                json!([{"name": "y", "image": "1"}]),
            ),
            (
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                "/status/conditions/1/status",
                json!("False"),
            ),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
                "/metadata/finalizers",
                json!(["b"]),
            ),
            (json!({"metadata": {"finalizers": ["c"]}}), "/metadata/finalizers", json!(["a", "b", "c"])),
            (json!({"spec": {"taints": []}}), "/spec/taints", json!([])),
            (
                json!({"spec": {"$setElementOrder/containers": [{"name": "y"}, {"name": "x"}]}}),
                "/spec/containers/0/name",
                json!("y"),
            ),
            (json!({"spec": {"$patch": "replace", "nodeName": "n"}}), "/spec", json!({"nodeName": "n"})),
            (json!({"spec": {"$retainKeys": ["taints"]}}), "/spec", json!({"taints": [{"key": "t"}]})),
        ];
        for (patch, pointer, expected) in cases {
            let result = merged(&target, &patch).expect("a valid patch");
            assert_eq!(result.pointer(pointer), Some(&expected), "{patch}");
        }
    }

    #[test]
    fn unknown_directives_are_refused() {
        assert!(merged(&json!({}), &json!({"spec": {"$patch": "explode"}})).is_err());
    }
}
