//! Removal of fields that the schema does not define.

use serde_json::Value;

use super::path::Path;

/// A field that the schema does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Path of the field, with dots alone.
    pub field: String,
    /// Names of the fields that the schema has in its place.
    pub known: Vec<String>,
}

/// Removes unknown fields and returns them. The metadata, `apiVersion` and `kind` of the object itself are always known.
pub(crate) fn prune(schema: &Value, object: &mut Value) -> Vec<Unknown> {
    let mut dropped = Vec::new();
    walk(schema, object, &Path::Root, &mut dropped);
    dropped
}

/// Removes unknown fields of the metadata of an object, and returns them.
pub(crate) fn prune_metadata(schema: &Value, metadata: &mut Value) -> Vec<Unknown> {
    let mut dropped = Vec::new();
    walk(schema, metadata, &Path::Field(&Path::Root, "metadata"), &mut dropped);
    dropped
}

fn walk(schema: &Value, value: &mut Value, path: &Path<'_>, dropped: &mut Vec<Unknown>) {
    let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let embedded = path.is_root() || schema["x-kubernetes-embedded-resource"] == true;
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let additional = schema.get("additionalProperties").filter(|a| **a != false);
            let known = |field: &str| {
                properties.is_some_and(|p| p.contains_key(field))
                    || additional.is_some()
                    || preserves
                    || (embedded && matches!(field, "apiVersion" | "kind" | "metadata"))
            };
            let unknown: Vec<String> = map.keys().filter(|f| !known(f)).cloned().collect();
            for field in unknown {
                map.shift_remove(&field);
                dropped.push(Unknown {
                    field: Path::Field(path, &field).dotted(),
                    known: properties.into_iter().flat_map(|all| all.keys().cloned()).collect(),
                });
            }
            for (field, below) in map {
                if embedded && field == "metadata" {
                    continue;
                }
                let schema = properties.and_then(|p| p.get(field)).or(additional.filter(|a| a.is_object()));
                if let Some(schema) = schema {
                    walk(schema, below, &Path::Field(path, field), dropped);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for (index, entry) in list.iter_mut().enumerate() {
                    walk(items, entry, &Path::Item(path, index), dropped);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn drops_what_the_schema_does_not_know_and_says_what() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "string"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"x": {}}}}}}}});
        let mut object = json!({"apiVersion": "v", "kind": "K", "metadata": {"name": "n"}, "top": 1,
            "spec": {"a": "1", "b": "2", "free": {"q": 1}, "map": {"k": "v"}, "list": [{"x": 1, "y": 2}]}});
        let dropped = prune(&schema, &mut object);
        let fields: Vec<&str> = dropped.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(fields, ["top", "spec.b", "spec.list[0].y"]);
        assert_eq!(dropped[1].known, ["a", "free", "map", "list"]);
        assert_eq!(
            object["spec"],
            json!({"a": "1", "free": {"q": 1}, "map": {"k": "v"}, "list": [{"x": 1}]})
        );
        assert_eq!(object["metadata"]["name"], "n");
    }
}
