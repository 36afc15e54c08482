//! Reading and writing the metadata that every Kubernetes object has, on untyped JSON.
//!
//! The store keeps objects as JSON because patches, printer columns, field selectors and schemas are all
//! defined on JSON. Readers return empty values for what is absent; writers create what is missing.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Place of an object within its resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Key {
    /// Key of an object; `namespace` is empty for cluster-scoped ones.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Key of a stored object.
    pub fn of(object: &Value) -> Self {
        Self::new(namespace(object), name(object))
    }
}

/// Text at a JSON pointer, empty when absent or not text.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Entries of a list at a JSON pointer, none when absent.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The value at a JSON pointer. Every object is looked into many times: [`Value::pointer`] copies each step to look for
/// escapes in it, of which hardly any pointer has one.
pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') {
        return object.pointer(pointer);
    }
    pointer.split('/').skip(1).try_fold(object, |value, step| match value {
        Value::Object(fields) => field(fields, step),
        Value::Array(entries) => entries.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The field of this name.
fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    // Up to here it takes less time to compare every name than to hash one: nearly all maps are smaller.
    const FEW: usize = 16;
    if fields.len() > FEW {
        return fields.get(name);
    }
    fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// A field of the metadata, empty when absent or not text.
fn metadata<'a>(object: &'a Value, name: &str) -> &'a str {
    let fields = object.as_object().and_then(|object| field(object, "metadata")).and_then(Value::as_object);
    fields.and_then(|fields| field(fields, name)).and_then(Value::as_str).unwrap_or_default()
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    metadata(object, "name")
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    metadata(object, "namespace")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    metadata(object, "uid")
}

/// `metadata.resourceVersion` as a number; 0 when absent.
pub fn revision(object: &Value) -> u64 {
    metadata(object, "resourceVersion").parse().unwrap_or(0)
}

/// Returns whether deletion has begun.
pub fn is_deleting(object: &Value) -> bool {
    !metadata(object, "deletionTimestamp").is_empty()
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> Vec<&str> {
    list(object, "/metadata/finalizers").iter().filter_map(Value::as_str).collect()
}

/// `metadata.labels[key]`.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    field(at(object, "/metadata/labels")?.as_object()?, key)?.as_str()
}

/// `metadata.annotations[key]`.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    field(at(object, "/metadata/annotations")?.as_object()?, key)?.as_str()
}

/// The status of the condition of type `kind`, `None` when the object has no such condition.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    condition_text(object, kind, "/status")
}

/// The text at `path` in the condition of type `kind`, such as its reason.
pub fn condition_text<'a>(object: &'a Value, kind: &str, path: &str) -> Option<&'a str> {
    let found =
        list(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == kind)?;
    at(found, path)?.as_str()
}

/// `metadata.uid` of the owners.
pub fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    list(object, "/metadata/ownerReferences").iter().map(|owner| text(owner, "/uid"))
}

/// The owner that says it is the controller.
pub fn controller(object: &Value) -> Option<&Value> {
    let controls = |owner: &&Value| at(owner, "/controller") == Some(&Value::Bool(true));
    list(object, "/metadata/ownerReferences").iter().find(controls)
}

/// `metadata` for writing.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(object, "metadata")
}

/// The map at `field`, created (or put in place of a scalar) when there is none.
pub(crate) fn map_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let slot = &mut object[field];
    if !slot.is_object() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("invariant: just made a map")
}

/// Sets `map[field]` unless it is there already.
pub(crate) fn default_to(map: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    let slot = map.entry(field.to_owned()).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value.into();
    }
}

/// A timestamp as the Kubernetes API writes `Time`: whole seconds, UTC.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A timestamp of the API at a JSON pointer.
pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_by_step_look_finds_what_the_pointer_of_the_library_finds() {
        let object = json!({"a": {"b": [{"c": "x"}, "y"], "": 1, "0": 2, "d/e": 3, "f~g": 4}, "h": null});
        let paths = [
            "", "/a", "/a/b", "/a/b/0/c", "/a/b/1", "/a/b/2", "/a/b/x", "/a/", "/a/0", "/a/d~1e", "/a/f~0g",
            "/h", "/h/i", "/none",
        ];
        for path in paths {
            assert_eq!(at(&object, path), object.pointer(path), "{path}");
        }
    }

    #[test]
    fn a_field_is_found_in_a_map_of_any_size() {
        for size in [0, 1, 16, 17, 40] {
            let fields = (0..size).map(|number| (format!("f{number}"), json!(number)));
            let object = Value::Object(fields.collect());
            for number in 0..=size {
                let path = format!("/f{number}");
                assert_eq!(at(&object, &path), object.pointer(&path), "{number} of {size}");
            }
        }
    }
}
