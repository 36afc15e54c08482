//! Causes for which a field was refused, in kube-apiserver's words.

use std::fmt;

use serde_json::Value;

/// One reason why one field was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, `FieldValueNotSupported`, `DisruptionBudget`, ...
    pub reason: String,
    /// Fault, without the field.
    pub message: String,
    /// Path of the field, for example `spec.weight`.
    pub field: String,
}

impl Cause {
    /// `FieldValueInvalid` with kube-apiserver's wording.
    pub fn invalid(field: &str, value: &Value, why: &str) -> Self {
        let shown = shown(value);
        Self {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: {shown}: {why}"),
            field: field.to_owned(),
        }
    }

    /// `FieldValueRequired`.
    pub fn required(field: &str, why: &str) -> Self {
        let message =
            if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self { reason: "FieldValueRequired".to_owned(), message, field: field.to_owned() }
    }

    /// `FieldValueForbidden`.
    pub fn forbidden(field: &str, why: &str) -> Self {
        Self {
            reason: "FieldValueForbidden".to_owned(),
            message: format!("Forbidden: {why}"),
            field: field.to_owned(),
        }
    }

    /// `FieldValueNotSupported` with the supported values.
    pub fn unsupported(field: &str, value: &Value, supported: &[String]) -> Self {
        let list = supported.iter().map(|s| format!("\"{s}\"")).collect::<Vec<_>>().join(", ");
        Self {
            reason: "FieldValueNotSupported".to_owned(),
            message: format!("Unsupported value: {}: supported values: {list}", shown(value)),
            field: field.to_owned(),
        }
    }

    /// A field that no object of the kind has.
    pub fn unknown(field: String) -> Self {
        Self { reason: "FieldValueNotSupported".to_owned(), message: "unknown field".to_owned(), field }
    }

    /// `FieldValueDuplicate`.
    pub fn duplicate(field: &str, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate".to_owned(),
            message: format!("Duplicate value: {}", shown(value)),
            field: field.to_owned(),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.field, self.message)
    }
}

/// Containers are named by their kind only: quoting a whole object does not help the reader.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "\"object\"".to_owned(),
        Value::Array(_) => "\"array\"".to_owned(),
        other => other.to_string(),
    }
}
