//! The verb update, also the second half of every patch.

use std::sync::Arc;

use karpenter_api::schema::same;
use serde_json::{Map, Value, json};

use super::{Part, Store, WriteOptions, admission, defaults};
use crate::apiserver::{
    Cause,
    object::{self, Key},
    refusal::Refusal,
    resource::Resource,
    versions,
};

/// Metadata that only the server writes.
const SERVER_FIELDS: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "generateName",
];

impl Store {
    /// Replaces an object, provided its `resourceVersion` (if given) is still current.
    pub fn update(
        &mut self,
        resource: &Resource,
        key: &Key,
        object: Value,
        part: Part,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Refusal> {
        versions::check_kind(resource, &object)?;
        if part == Part::Status && !resource.has_status {
            return Err(Refusal::no_such_path());
        }
        let current = self.find(resource, key)?;
        let mut object = versions::to_stored(resource, object);
        check_identity(resource, key, &current, &object)?;
        match part {
            Part::Main => keep_status(resource, &current, &mut object),
            Part::Status => keep_all_but_status(resource, &current, &mut object),
        }
        keep_server_fields(resource, &current, &mut object);
        defaults::apply(resource, &mut object);
        admission::on_update(self, resource, &current, &mut object, part)?;
        if let Some(schema) = &resource.schema {
            schema
                .admit(&mut object, Some(&current), options.strict)
                .map_err(|violation| Refusal::by_schema(resource, &key.name, violation))?;
        }
        Ok(self.write_over(resource, key, &current, object))
    }

    fn write_over(
        &mut self,
        resource: &Resource,
        key: &Key,
        current: &Arc<Value>,
        mut object: Value,
    ) -> Arc<Value> {
        let version = current["metadata"]["resourceVersion"].clone();
        object::metadata_mut(&mut object).insert("resourceVersion".to_owned(), version);
        if same_but_for_managers(&object, current) {
            return current.clone();
        }
        if resource.counts_generations && !same_spec(resource, &object, current) {
            let generation = current["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            object::metadata_mut(&mut object).insert("generation".to_owned(), json!(generation));
        }
        let stored = self.commit(&resource.table(), object);
        let released = object::is_deleting(&stored)
            && object::finalizers(&stored).is_empty()
            && stored["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0;
        // A namespace waits for its contents instead, which it holds with `spec.finalizers`.
        if released && !resource.is_core("namespaces") {
            self.erase(&resource.table(), key);
        }
        stored
    }
}

fn check_identity(resource: &Resource, key: &Key, current: &Value, object: &Value) -> Result<(), Refusal> {
    let name = object::name(object);
    if name != key.name {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    let (given, actual) = (object::uid(object), object::uid(current));
    if !given.is_empty() && given != actual {
        let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {actual}");
        return Err(Refusal::conflict(resource, &key.name, &why));
    }
    let version = object::text(object, "/metadata/resourceVersion");
    if version.is_empty() && resource.custom {
        let cause = Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
        return Err(Refusal::invalid(resource, &key.name, vec![cause]));
    }
    if !version.is_empty() && version != object::text(current, "/metadata/resourceVersion") {
        return Err(Refusal::stale(resource, &key.name));
    }
    Ok(())
}

fn keep_status(resource: &Resource, current: &Value, object: &mut Value) {
    if resource.has_status {
        set_or_remove(object, "status", current.get("status").cloned());
    }
}

/// Custom kinds take nothing but the status through `/status`; built-in ones also take labels and annotations.
fn keep_all_but_status(resource: &Resource, current: &Value, object: &mut Value) {
    let mut given = std::mem::replace(object, current.clone());
    set_or_remove(object, "status", given.get_mut("status").map(Value::take));
    let Some(given) = given.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let managed =
        if resource.custom { &["managedFields"][..] } else { &["labels", "annotations", "managedFields"] };
    for field in managed {
        if let Some(value) = given.get_mut(*field) {
            object::metadata_mut(object).insert((*field).to_owned(), value.take());
        }
    }
}

fn keep_server_fields(resource: &Resource, current: &Value, object: &mut Value) {
    let metadata = object::metadata_mut(object);
    for field in SERVER_FIELDS {
        match current["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.shift_remove(field),
        };
    }
    if resource.namespaced {
        metadata.insert("namespace".to_owned(), current["metadata"]["namespace"].clone());
    }
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    let map = object.as_object_mut().expect("invariant: stored objects are maps");
    match value {
        Some(value) => map.insert(field.to_owned(), value),
        None => map.shift_remove(field),
    };
}

/// A write that changes nothing gets no revision, so watchers are not woken by it.
fn same_but_for_managers(left: &Value, right: &Value) -> bool {
    const MAY_BE_EMPTY: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];
    let managers = |value: &Value| value["metadata"].get("managedFields").is_some();
    // Fields of the metadata that a write can change, without those that are the same as absent.
    let counts = |field: &str, value: &Value| {
        let is_empty =
            value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
        field != "managedFields" && !(is_empty && MAY_BE_EMPTY.contains(&field))
    };
    managers(left) == managers(right)
        && same_fields(left, right, |field, _| field != "metadata")
        && same_fields(&left["metadata"], &right["metadata"], counts)
}

/// Returns whether two objects are the same in what counts for the generation: everything but metadata and, when it has its own
/// subresource, status.
fn same_spec(resource: &Resource, left: &Value, right: &Value) -> bool {
    same_fields(left, right, |field, _| field != "metadata" && !(field == "status" && resource.has_status))
}

/// Returns whether two maps have the same fields among those that count.
fn same_fields(left: &Value, right: &Value, counts: impl Fn(&str, &Value) -> bool) -> bool {
    let counted = |value: &Value| {
        let fields = value.as_object().into_iter().flatten();
        fields.filter(|(field, value)| counts(field, value)).count()
    };
    let mut fields = left.as_object().into_iter().flatten().filter(|(field, value)| counts(field, value));
    counted(left) == counted(right)
        && fields.all(|(field, value)| right.get(field).is_some_and(|other| same(value, other)))
}
