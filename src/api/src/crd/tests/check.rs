//! The leaves of objects and of schemas, and what the Rust types always write.

use std::collections::BTreeSet;

use serde_json::Value;

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Paths of everything that is not an object or a list; map keys written as themselves.
pub(super) fn leaves(value: &Value) -> BTreeSet<String> {
    fn walk(value: &Value, path: &str, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                fields.iter().for_each(|(name, v)| walk(v, &child(path, name), into));
            }
            Value::Array(items) => items.iter().for_each(|v| walk(v, &format!("{path}[]"), into)),
            _ => {
                into.insert(path.to_owned());
            }
        }
    }
    let mut paths = BTreeSet::new();
    walk(value, "", &mut paths);
    paths
}

/// Returns the paths of the leaves of a schema; free map keys are written as `{}`.
pub(super) fn schema_leaves(schema: &Value) -> BTreeSet<String> {
    fn walk(schema: &Value, path: &str, into: &mut BTreeSet<String>) {
        if let Some(fields) = schema["properties"].as_object() {
            fields.iter().for_each(|(name, field)| walk(field, &child(path, name), into));
        } else if schema["additionalProperties"].is_object() {
            walk(&schema["additionalProperties"], &child(path, "{}"), into);
        } else if schema["items"].is_object() {
            walk(&schema["items"], &format!("{path}[]"), into);
        } else {
            into.insert(path.to_owned());
        }
    }
    let mut paths = BTreeSet::new();
    walk(schema, "", &mut paths);
    paths.retain(|path| path.starts_with("spec.") || path.starts_with("status."));
    paths
}

/// Equal, except for fields the types always write: the condition texts old versions left out, the node
/// count, and booleans that are false.
pub(super) fn same_but_for_written_defaults(stored: &Value, again: &Value) -> bool {
    match (stored, again) {
        (Value::Object(stored), Value::Object(again)) => {
            let kept = stored.iter().all(|(key, value)| match again.get(key) {
                Some(written) => same_but_for_written_defaults(value, written),
                None => value == false,
            });
            let added = again.keys().filter(|key| !stored.contains_key(*key));
            kept && added
                .into_iter()
                .all(|key| ["reason", "message", "nodes", "metadata"].contains(&key.as_str()))
        }
        (Value::Array(stored), Value::Array(again)) => {
            stored.len() == again.len()
                && stored.iter().zip(again).all(|(s, a)| same_but_for_written_defaults(s, a))
        }
        _ => stored == again,
    }
}
