//! Differences of two JSON documents, path by path.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Both values by the path to them; `None` where one document has nothing.
pub(crate) type Differences = BTreeMap<String, (Option<Value>, Option<Value>)>;

/// Differences of `ours` from `recorded`. The members of a list that have a `key` or a `type` are compared by it, wherever
/// they stand, and an empty list is none.
pub(crate) fn between(recorded: &Value, ours: &Value) -> Differences {
    let mut found = Differences::new();
    compare("", Some(&named(recorded)), Some(&named(ours)), &mut found);
    found
}

fn compare(path: &str, recorded: Option<&Value>, ours: Option<&Value>, found: &mut Differences) {
    match (recorded, ours) {
        (Some(Value::Object(recorded)), Some(Value::Object(ours))) => {
            for key in recorded.keys().chain(ours.keys()) {
                compare(&format!("{path}/{key}"), recorded.get(key), ours.get(key), found);
            }
        }
        (Some(Value::Array(recorded)), Some(Value::Array(ours))) if recorded.len() == ours.len() => {
            for (position, (recorded, ours)) in recorded.iter().zip(ours).enumerate() {
                compare(&format!("{path}/{position}"), Some(recorded), Some(ours), found);
            }
        }
        _ if recorded == ours => {}
        _ => {
            found.insert(path.to_owned(), (recorded.cloned(), ours.cloned()));
        }
    }
}

/// The value without empty lists, and with lists of named members as maps.
fn named(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let present =
                map.iter().filter(|(_, value)| value.as_array().is_none_or(|list| !list.is_empty()));
            present.map(|(key, value)| (key.clone(), named(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => {
            let members = list.iter().map(|member| Some((name(member)?, named(member))));
            let by_name: Option<Map<_, _>> = members.collect();
            by_name
                .filter(|map| map.len() == list.len())
                .map_or_else(|| list.iter().map(named).collect(), Value::from)
        }
        other => other.clone(),
    }
}

fn name(member: &Value) -> Option<String> {
    ["key", "type"].iter().find_map(|field| member.get(field)?.as_str().map(str::to_owned))
}
