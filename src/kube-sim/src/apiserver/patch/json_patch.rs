//! JSON patch, RFC 6902: the crate `json-patch`, with the answers of kube-apiserver.

use std::slice;

use json_patch::PatchOperation;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::apiserver::{refusal::Refusal, resource::Resource};

/// `target`, the object `name`, with all operations of `patch` applied. As in kube-apiserver a patch that is no list of
/// maps is malformed, 400, and an operation that cannot be read or carried out does not fit the object, 422.
pub(crate) fn patched(
    resource: &Resource,
    name: &str,
    target: &Value,
    patch: &Value,
) -> Result<Value, Refusal> {
    let operations = Vec::<Map<String, Value>>::deserialize(patch)
        .map_err(|error| Refusal::bad_request(format!("malformed JSON patch: {error}")))?;
    let mut result = target.clone();
    for (index, operation) in operations.into_iter().enumerate() {
        let unfit = |why: &str| Refusal::unprocessable(resource, name, why);
        let operation = PatchOperation::deserialize(Value::Object(operation))
            .map_err(|error| unfit(&format!("operation '/{index}': {error}")))?;
        if finds_nothing_as_expected(&result, &operation) {
            continue;
        }
        // Nothing needs to be reverted: a failure discards the copy.
        json_patch::patch_unsafe(&mut result, slice::from_ref(&operation)).map_err(|mut error| {
            error.operation = index;
            unfit(&error.to_string())
        })?;
    }
    Ok(result)
}

/// A `test` for `null` holds in kube-apiserver where nothing is; in the crate such a path is an error.
fn finds_nothing_as_expected(target: &Value, operation: &PatchOperation) -> bool {
    matches!(operation, PatchOperation::Test(test)
        if test.value.is_null() && target.pointer(test.path.as_str()).is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apiserver::builtin;

    fn patched_map(patch: &Value) -> Result<Value, u16> {
        let resource = builtin::registry().get("", "v1", "configmaps").expect("built in");
        let target = json!({"data": {"a/b": "1"}, "list": [1, 2]});
        patched(&resource, "a", &target, patch).map_err(|refusal| refusal.code)
    }

    #[test]
    fn operations_see_what_those_before_them_left() {
        let patch = json!([
            {"op": "add", "path": "/list/-", "value": 3},
            {"op": "test", "path": "/list/2", "value": 3},
            {"op": "move", "from": "/data/a~1b", "path": "/data/c"},
            {"op": "test", "path": "/data/a~1b", "value": null},
        ]);
        assert_eq!(patched_map(&patch), Ok(json!({"data": {"c": "1"}, "list": [1, 2, 3]})));
    }

    #[test]
    fn patch_that_does_not_fit_is_refused_with_422() {
        for patch in [
            json!([{"op": "remove", "path": "/x"}]),
            json!([{"op": "replace", "path": "/list/5", "value": 1}]),
            json!([{"op": "add", "path": "/list/5", "value": 1}]),
            json!([{"op": "copy", "from": "/x", "path": "/y"}]),
            json!([{"op": "test", "path": "/list/0", "value": 2}]),
            json!([{"op": "test", "path": "/list/0", "value": null}]),
            json!([{"op": "add", "path": "list", "value": 1}]),
            json!([{"op": "jump", "path": "/list"}]),
        ] {
            assert_eq!(patched_map(&patch), Err(422), "{patch}");
        }
    }

    #[test]
    fn patch_that_is_no_list_of_maps_is_refused_with_400() {
        for patch in [json!({"op": "remove", "path": "/list"}), json!(["remove"])] {
            assert_eq!(patched_map(&patch), Err(400), "{patch}");
        }
    }
}
