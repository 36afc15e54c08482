//! The CEL rules of a schema (`x-kubernetes-validations`), including transition rules.

use std::cell::RefCell;

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator};
use serde_json::Value;

use super::Cause;

thread_local! {
    // Registering all functions of the CEL library costs more than evaluating a rule.
    static VALIDATOR: RefCell<Validator> = RefCell::new(Validator::new());
}

/// Violations of the rules by an object.
pub(super) fn check(rules: &CompiledSchema, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let verdict = VALIDATOR.with_borrow(|validator| validator.validate_compiled(rules, object, old));
    let errors = verdict.err().map(kube_cel::ValidationErrors::into_vec).unwrap_or_default();
    errors.iter().map(|error| cause(object, error)).collect()
}

fn cause(object: &Value, error: &ValidationError) -> Cause {
    let field = if error.field_path.is_empty() { "<nil>" } else { &error.field_path };
    let message = match error.kind {
        ErrorKind::ValidationFailure => error.message.clone(),
        _ => format!("rule evaluation failed: {}: {}", error.rule, error.message),
    };
    match error.reason.as_deref() {
        Some("FieldValueForbidden") => Cause::forbidden(field, &message),
        Some("FieldValueRequired") => Cause::required(field, &message),
        Some("FieldValueDuplicate") => Cause::duplicate(field, &value_at(object, &error.field_path)),
        _ => Cause::invalid(field, &value_at(object, &error.field_path), &message),
    }
}

/// The value at a path such as `spec.requirements[0].key`, `Null` when the path uses other notations.
fn value_at(object: &Value, path: &str) -> Value {
    let steps: Vec<&str> = path.split(['.', '[']).map(|step| step.trim_end_matches(']')).collect();
    let pointer = format!("/{}", steps.join("/"));
    if path.is_empty() { object.clone() } else { object.pointer(&pointer).cloned().unwrap_or_default() }
}
