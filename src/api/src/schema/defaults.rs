//! Filling in the defaults of a schema.

use serde_json::Value;

/// Fills in defaults, parents before children. `null` counts as absent when the field has a default and may not
/// be null.
pub(super) fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (field, below) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if let Some(default) = below.get("default") {
                    let is_null = map.get(field).is_some_and(Value::is_null) && below["nullable"] != true;
                    if is_null || !map.contains_key(field) {
                        map.insert(field.clone(), default.clone());
                    }
                } else if map.get(field).is_some_and(Value::is_null) && below["nullable"] != true {
                    map.shift_remove(field);
                }
                if let Some(value) = map.get_mut(field) {
                    fill(below, value);
                }
            }
            if let Some(additional) = schema.get("additionalProperties").filter(|a| a.is_object()) {
                for value in map.values_mut() {
                    fill(additional, value);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for entry in list {
                    fill(items, entry);
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
    fn parents_are_filled_in_before_their_children() {
        let schema = json!({"properties": {"spec": {"default": {}, "properties": {
            "after": {"type": "string", "default": "0s"},
            "list": {"type": "array", "items": {"properties": {"op": {"default": "In"}}}}}}}});
        let mut object = json!({});
        fill(&schema, &mut object);
        assert_eq!(object, json!({"spec": {"after": "0s"}}));
        let mut object = json!({"spec": {"after": null, "list": [{}, {"op": "Exists"}]}});
        fill(&schema, &mut object);
        assert_eq!(object, json!({"spec": {"after": "0s", "list": [{"op": "In"}, {"op": "Exists"}]}}));
    }
}
