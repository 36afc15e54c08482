//! JSON patch, RFC 6902.

use serde_json::Value;

/// Why a patch was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is not a list of operations.
    #[error("malformed JSON patch at operation {operation}: {why}")]
    Malformed {
        /// Index of the operation.
        operation: usize,
        /// What is missing.
        why: &'static str,
    },
    /// The path leads nowhere.
    #[error("JSON patch operation {operation}: nothing is at path `{path}`")]
    Missing {
        /// Index of the operation.
        operation: usize,
        /// The path.
        path: String,
    },
    /// A `test` operation found another value.
    #[error("JSON patch operation {operation}: the value at path `{path}` differs from the one tested for")]
    TestFailed {
        /// Index of the operation.
        operation: usize,
        /// The path.
        path: String,
    },
}

/// `target` with all operations of `patch` applied, or the first reason why not.
pub(crate) fn apply(target: &Value, operations: &Value) -> Result<Value, Error> {
    let malformed = |operation, why| Error::Malformed { operation, why };
    let operations = operations.as_array().ok_or_else(|| malformed(0, "a list of operations is expected"))?;
    let mut result = target.clone();
    for (index, operation) in operations.iter().enumerate() {
        let text = |field: &str| operation.get(field).and_then(Value::as_str);
        let name = text("op").ok_or_else(|| malformed(index, "`op` is missing"))?;
        let path = text("path").ok_or_else(|| malformed(index, "`path` is missing"))?;
        let value = || operation.get("value").cloned().ok_or_else(|| malformed(index, "`value` is missing"));
        let from = || text("from").ok_or_else(|| malformed(index, "`from` is missing"));
        let missing = |path: &str| Error::Missing { operation: index, path: path.to_owned() };
        match name {
            "add" => add(&mut result, path, value()?).ok_or_else(|| missing(path))?,
            "remove" => remove(&mut result, path).map(drop).ok_or_else(|| missing(path))?,
            "replace" => {
                let value = value()?;
                *result.pointer_mut(path).ok_or_else(|| missing(path))? = value;
            }
            "move" => {
                let from = from()?;
                let moved = remove(&mut result, from).ok_or_else(|| missing(from))?;
                add(&mut result, path, moved).ok_or_else(|| missing(path))?;
            }
            "copy" => {
                let from = from()?;
                let copied = result.pointer(from).cloned().ok_or_else(|| missing(from))?;
                add(&mut result, path, copied).ok_or_else(|| missing(path))?;
            }
            "test" => {
                if result.pointer(path).unwrap_or(&Value::Null) != &value()? {
                    return Err(Error::TestFailed { operation: index, path: path.to_owned() });
                }
            }
            _ => return Err(malformed(index, "`op` is none of add, remove, replace, move, copy, test")),
        }
    }
    Ok(result)
}

fn add(target: &mut Value, path: &str, value: Value) -> Option<()> {
    let Some((parent, token)) = path.rsplit_once('/') else {
        *target = value;
        return path.is_empty().then_some(());
    };
    match target.pointer_mut(parent)? {
        Value::Object(map) => {
            map.insert(unescape(token), value);
        }
        Value::Array(entries) if token == "-" => entries.push(value),
        Value::Array(entries) => {
            let index = token.parse().ok().filter(|&index| index <= entries.len())?;
            entries.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &str) -> Option<Value> {
    let (parent, token) = path.rsplit_once('/')?;
    match target.pointer_mut(parent)? {
        Value::Object(map) => map.shift_remove(&unescape(token)),
        Value::Array(entries) => {
            let index = token.parse().ok().filter(|&index| index < entries.len())?;
            Some(entries.remove(index))
        }
        _ => None,
    }
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_do_what_the_rfc_says() {
        let target = json!({"a": {"b/c": 1}, "l": [1, 2]});
        let cases = [
            (
                json!([{"op": "add", "path": "/a/d", "value": 2}]),
                json!({"a": {"b/c": 1, "d": 2}, "l": [1, 2]}),
            ),
            (json!([{"op": "add", "path": "/l/-", "value": 3}]), json!({"a": {"b/c": 1}, "l": [1, 2, 3]})),
            (json!([{"op": "add", "path": "/l/0", "value": 0}]), json!({"a": {"b/c": 1}, "l": [0, 1, 2]})),
            (json!([{"op": "remove", "path": "/a/b~1c"}]), json!({"a": {}, "l": [1, 2]})),
            (json!([{"op": "replace", "path": "/l/1", "value": 9}]), json!({"a": {"b/c": 1}, "l": [1, 9]})),
            (
                json!([{"op": "move", "from": "/l/0", "path": "/a/x"}]),
                json!({"a": {"b/c": 1, "x": 1}, "l": [2]}),
            ),
            (
                json!([{"op": "copy", "from": "/l/0", "path": "/a/x"}]),
                json!({"a": {"b/c": 1, "x": 1}, "l": [1, 2]}),
            ),
            (json!([{"op": "test", "path": "/l/0", "value": 1}]), target.clone()),
        ];
        for (patch, expected) in cases {
            assert_eq!(apply(&target, &patch), Ok(expected), "{patch}");
        }
    }

    #[test]
    fn a_patch_that_does_not_fit_changes_nothing_and_says_where() {
        let target = json!({"l": [1]});
        for patch in [
            json!([{"op": "remove", "path": "/x"}]),
            json!([{"op": "replace", "path": "/l/5", "value": 1}]),
            json!([{"op": "add", "path": "/l/5", "value": 1}]),
            json!([{"op": "test", "path": "/l/0", "value": 2}]),
            json!([{"op": "jump", "path": "/l"}]),
            json!({"op": "add"}),
        ] {
            assert!(apply(&target, &patch).is_err(), "{patch}");
        }
    }
}
