//! Served versions and the stored form.
//!
//! Versions of a custom kind differ in `apiVersion` only (conversion strategy `None`). Events are stored in the
//! form of the core API and shown in either of their two APIs.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{object::text, refusal::Refusal, resource::Resource};

/// Refuses a body that is about another kind than the path; an absent kind is fine, as in kube-apiserver.
pub(crate) fn check_kind(resource: &Resource, object: &Value) -> Result<(), Refusal> {
    if !object.is_object() {
        return Err(Refusal::bad_request("the body of the request is not an object"));
    }
    let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    if !kind.is_empty() && kind != resource.kind {
        return Err(Refusal::bad_request(format!(
            "the kind in the data ({kind}) does not match the expected kind ({})",
            resource.kind
        )));
    }
    if !version.is_empty() && version != resource.api_version() {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            resource.api_version()
        )));
    }
    Ok(())
}

/// The stored form of an object that arrived as `resource`.
pub(crate) fn to_stored(resource: &Resource, mut object: Value) -> Value {
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    if resource.group == "events.k8s.io" { to_core_event(object) } else { object }
}

/// A stored object as `resource` shows it; most often that is how it is stored.
pub(crate) fn to_served<'a>(resource: &Resource, stored: &'a Value) -> Cow<'a, Value> {
    if resource.group == "events.k8s.io" {
        return Cow::Owned(from_core_event(stored));
    }
    let version = resource.api_version();
    if text(stored, "/apiVersion") == version {
        return Cow::Borrowed(stored);
    }
    let mut object = stored.clone();
    object["apiVersion"] = json!(version);
    Cow::Owned(object)
}

/// Field names that differ: new API, core API.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn to_core_event(mut event: Value) -> Value {
    let fields = event.as_object_mut().expect("invariant: checked to be an object");
    for (new, core) in EVENT_FIELDS {
        rename(fields, new, core);
    }
    fields.insert("apiVersion".to_owned(), json!("v1"));
    event
}

fn from_core_event(stored: &Value) -> Value {
    let mut event = stored.clone();
    let fields = event.as_object_mut().expect("invariant: stored objects are maps");
    for (new, core) in EVENT_FIELDS {
        rename(fields, core, new);
    }
    fields.insert("apiVersion".to_owned(), json!("events.k8s.io/v1"));
    event
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.shift_remove(from) {
        fields.insert(to.to_owned(), value);
    }
}
