//! JSON merge patch, RFC 7386.

use serde_json::{Value, json};

/// `target` with `patch` merged in: maps are merged, `null` removes, everything else replaces.
pub(crate) fn merged(target: &Value, patch: &Value) -> Value {
    let mut result = target.clone();
    merge(&mut result, patch);
    result
}

/// Merges `patch` into `target`.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let map = target.as_object_mut().expect("invariant: made a map above");
    for (field, change) in changes {
        if change.is_null() {
            map.shift_remove(field);
        } else if let Some(value) = map.get_mut(field) {
            merge(value, change);
        } else {
            // Not the change as it is: it may say of fields that they go.
            map.insert(field.clone(), merged(&Value::Null, change));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7386, appendix A.
    #[test]
    fn merges_as_the_rfc_shows() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (target, patch, expected) in cases {
            assert_eq!(merged(&target, &patch), expected, "{target} + {patch}");
        }
    }
}
