//! Server-side apply: the intent of one manager merged into an object, with a record of the owner of each field.
//!
//! Simplified against kube-apiserver in one way: only appliers are recorded as managers, so fields written by
//! ordinary updates have no manager and never conflict.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    fields::{self, Path},
    merge, strategic,
};
use crate::apiserver::{Cause, object, refusal::Refusal, resource::Resource};

/// One apply request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The applied configuration.
    pub intent: &'a Value,
    /// Field manager that applies it.
    pub manager: &'a str,
    /// True if fields of other managers are taken over.
    pub force: bool,
    /// `status`, or empty for the object itself.
    pub subresource: &'a str,
    /// Time for the record.
    pub now: &'a str,
}

/// `current` after the request; 409 when other managers own fields with other values.
pub(crate) fn applied(resource: &Resource, current: &Value, request: &Request<'_>) -> Result<Value, Refusal> {
    let wanted = fields::leaves(request.intent);
    let managers = object::list(current, "/metadata/managedFields");
    let owned_by = |entry: &Value| fields::from_fields_v1(&entry["fieldsV1"]);
    let (mine, others): (Vec<&Value>, Vec<&Value>) = managers.iter().partition(|e| is_own(e, request));
    let conflicts = conflicts(current, request, &wanted, &others);
    if !conflicts.is_empty() && !request.force {
        return Err(Refusal::apply_conflict(resource, object::name(current), conflicts));
    }
    let before: BTreeSet<Path> = mine.iter().flat_map(|e| owned_by(e)).collect();
    let kept: BTreeSet<Path> = others.iter().flat_map(|e| owned_by(e)).collect();
    let mut result = current.clone();
    for abandoned in before.iter().filter(|p| !wanted.contains(*p) && !kept.contains(*p)) {
        fields::remove(&mut result, abandoned);
    }
    let intent = without_record(request.intent);
    result =
        if resource.custom { merge::merged(&result, &intent) } else { strategic::merged(&result, &intent)? };
    let mut record: Vec<Value> = Vec::new();
    for entry in others {
        let left: BTreeSet<Path> = owned_by(entry)
            .into_iter()
            .filter(|path| !request.force || !differs(current, request, path, &wanted))
            .collect();
        if !left.is_empty() {
            let mut entry = entry.clone();
            entry["fieldsV1"] = fields::to_fields_v1(&left);
            record.push(entry);
        }
    }
    record.push(entry(resource, request, &wanted));
    object::metadata_mut(&mut result).insert("managedFields".to_owned(), Value::Array(record));
    Ok(result)
}

fn is_own(entry: &Value, request: &Request<'_>) -> bool {
    object::text(entry, "/manager") == request.manager
        && object::text(entry, "/operation") == "Apply"
        && object::text(entry, "/subresource") == request.subresource
}

fn differs(current: &Value, request: &Request<'_>, path: &Path, wanted: &BTreeSet<Path>) -> bool {
    wanted.contains(path) && fields::lookup(current, path) != fields::lookup(request.intent, path)
}

fn conflicts(
    current: &Value,
    request: &Request<'_>,
    wanted: &BTreeSet<Path>,
    others: &[&Value],
) -> Vec<Cause> {
    let mut causes = Vec::new();
    for other in others {
        for path in fields::from_fields_v1(&other["fieldsV1"]) {
            if differs(current, request, &path, wanted) {
                let manager = object::text(other, "/manager");
                let steps: Vec<&str> = path.iter().map(|step| step.trim_start_matches("f:")).collect();
                causes.push(Cause {
                    reason: "FieldManagerConflict".to_owned(),
                    message: format!("conflict with \"{manager}\""),
                    field: format!(".{}", steps.join(".")),
                });
            }
        }
    }
    causes
}

fn without_record(intent: &Value) -> Value {
    let mut intent = intent.clone();
    if intent["metadata"].is_object() {
        object::metadata_mut(&mut intent).shift_remove("managedFields");
    }
    intent
}

fn entry(resource: &Resource, request: &Request<'_>, wanted: &BTreeSet<Path>) -> Value {
    let mut entry = json!({
        "manager": request.manager, "operation": "Apply", "apiVersion": resource.api_version(),
        "time": request.now, "fieldsType": "FieldsV1", "fieldsV1": fields::to_fields_v1(wanted),
    });
    if !request.subresource.is_empty() {
        entry["subresource"] = json!(request.subresource);
    }
    entry
}
