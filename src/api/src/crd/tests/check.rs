//! Just enough of structural schemas to judge the tables without an API server, and the list of their leaves.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::Value;

/// Complaints about `value` in the form `path: what is wrong`.
pub(super) fn structure(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |what: String| complaints.push(format!("{path}: {what}"));
    if !type_matches(schema, value) {
        complain(format!("{value} has the wrong type"));
        return complaints;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        complain(format!("{value} is not one of the allowed values"));
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !matches(pattern, text)
    {
        complain(format!("{value} does not match"));
    }
    for (size, least, most) in sizes(value) {
        let too_small = schema[least].as_i64().is_some_and(|least| size < least);
        let too_large = schema[most].as_i64().is_some_and(|most| size > most);
        if too_small || too_large {
            complain(format!("{size} is out of bounds"));
        }
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            complaints.push(format!("{}: required", child(path, name)));
        }
    }
    complaints.extend(repeated(schema, value, path));
    complaints.extend(below(schema, value, path));
    complaints
}

fn matches(pattern: &str, text: &str) -> bool {
    thread_local! {
        static COMPILED: RefCell<BTreeMap<String, Regex>> = const { RefCell::new(BTreeMap::new()) };
    }
    COMPILED.with_borrow_mut(|compiled| {
        let regex = compiled.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).unwrap());
        regex.is_match(text)
    })
}

fn below(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, field)| {
                let schema = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                structure(schema, field, &child(path, name))
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(index, item)| structure(&schema["items"], item, &format!("{path}[{index}]")))
            .collect(),
        _ => Vec::new(),
    }
}

fn repeated(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let key = &schema["x-kubernetes-list-map-keys"][0];
    let is_set = schema["x-kubernetes-list-type"] == "set";
    let mut seen = BTreeSet::new();
    let items = value.as_array().into_iter().flatten().enumerate();
    items
        .filter(|(_, item)| match key.as_str() {
            Some(key) => !seen.insert(item[key].to_string()),
            None => is_set && !seen.insert(item.to_string()),
        })
        .map(|(index, _)| format!("{path}[{index}]: duplicate"))
        .collect()
}

fn type_matches(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_i64() || value.is_string();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    }
}

fn sizes(value: &Value) -> Vec<(i64, &'static str, &'static str)> {
    let count = |n: usize| i64::try_from(n).unwrap();
    match value {
        Value::String(text) => vec![(count(text.chars().count()), "minLength", "maxLength")],
        Value::Array(items) => vec![(count(items.len()), "minItems", "maxItems")],
        Value::Object(fields) => vec![(count(fields.len()), "minProperties", "maxProperties")],
        Value::Number(number) => vec![(number.as_i64().unwrap(), "minimum", "maximum")],
        _ => Vec::new(),
    }
}

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
