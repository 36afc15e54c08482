//! Sets of fields, as `managedFields` records them (`FieldsV1`).
//!
//! A leaf is a scalar, an atomic list or an empty map. Entries of keyed lists are named by their key, entries of
//! sets by their value.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::lists::{ListKind, kind_of};

/// A path of `FieldsV1` elements such as `f:spec` or `k:{"name":"app"}`.
pub(super) type Path = Vec<String>;

/// The leaves of an applied configuration. Identity fields (`apiVersion`, `kind`, names) have no owner.
pub(super) fn leaves(intent: &Value) -> BTreeSet<Path> {
    let mut found = BTreeSet::new();
    for (field, value) in intent.as_object().into_iter().flatten() {
        match field.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                for (field, value) in value.as_object().into_iter().flatten() {
                    if matches!(field.as_str(), "labels" | "annotations" | "finalizers" | "ownerReferences") {
                        collect(
                            field,
                            value,
                            &mut vec!["f:metadata".to_owned(), format!("f:{field}")],
                            &mut found,
                        );
                    }
                }
            }
            _ => collect(field, value, &mut vec![format!("f:{field}")], &mut found),
        }
    }
    found
}

fn collect(field: &str, value: &Value, path: &mut Path, found: &mut BTreeSet<Path>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (field, value) in map {
                path.push(format!("f:{field}"));
                collect(field, value, path, found);
                path.pop();
            }
        }
        Value::Array(list) if !list.is_empty() => collect_list(field, list, path, found),
        _ => {
            found.insert(path.clone());
        }
    }
}

fn collect_list(field: &str, list: &[Value], path: &mut Path, found: &mut BTreeSet<Path>) {
    match kind_of(field, list) {
        ListKind::Atomic => {
            found.insert(path.clone());
        }
        ListKind::Set => {
            for entry in list {
                path.push(format!("v:{entry}"));
                found.insert(path.clone());
                path.pop();
            }
        }
        ListKind::Keyed(key) => {
            for entry in list {
                path.push(format!("k:{}", json!({key: entry[key]})));
                collect("", entry, path, found);
                path.pop();
            }
        }
    }
}

/// The nested `FieldsV1` form of a set.
pub(super) fn to_fields_v1(paths: &BTreeSet<Path>) -> Value {
    let mut root = Map::new();
    for path in paths {
        let mut at = &mut root;
        for step in path {
            let slot = at.entry(step.clone()).or_insert_with(|| json!({}));
            at = slot.as_object_mut().expect("invariant: only maps are inserted");
        }
    }
    Value::Object(root)
}

/// The set behind a nested `FieldsV1` form.
pub(super) fn from_fields_v1(fields: &Value) -> BTreeSet<Path> {
    fn walk(at: &Value, path: &mut Path, found: &mut BTreeSet<Path>) {
        match at.as_object() {
            Some(map) if !map.is_empty() => {
                for (step, below) in map {
                    path.push(step.clone());
                    walk(below, path, found);
                    path.pop();
                }
            }
            _ => {
                found.insert(path.clone());
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(fields, &mut Vec::new(), &mut found);
    found.retain(|path| !path.is_empty());
    found
}

/// The value a path names.
pub(super) fn lookup<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |at, step| match entry_index(at, step) {
        Some(index) => at.get(index),
        None => at.get(step.strip_prefix("f:")?),
    })
}

/// Removes what a path names, and the maps and entries that become empty by it.
pub(super) fn remove(object: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    if let Some(index) = entry_index(object, step) {
        let list = object.as_array_mut().expect("invariant: only lists have entries");
        remove(&mut list[index], rest);
        let only_key = list[index].as_object().is_some_and(|entry| entry.len() <= 1);
        if rest.is_empty() || only_key {
            list.remove(index);
        }
        return;
    }
    let (Some(field), Some(map)) = (step.strip_prefix("f:"), object.as_object_mut()) else { return };
    if rest.is_empty() {
        map.shift_remove(field);
    } else if let Some(below) = map.get_mut(field) {
        remove(below, rest);
        let is_empty =
            below.as_object().is_some_and(Map::is_empty) || below.as_array().is_some_and(Vec::is_empty);
        if is_empty {
            map.shift_remove(field);
        }
    }
}

fn entry_index(list: &Value, step: &str) -> Option<usize> {
    let list = list.as_array()?;
    if let Some(value) = step.strip_prefix("v:") {
        let value: Value = serde_json::from_str(value).ok()?;
        return list.iter().position(|entry| *entry == value);
    }
    let keys: Map<String, Value> = serde_json::from_str(step.strip_prefix("k:")?).ok()?;
    list.iter().position(|entry| keys.iter().all(|(key, value)| entry.get(key) == Some(value)))
}
