//! Names, label keys and label values.

use std::collections::BTreeMap;

use karpenter_model::requirement::syntax::{is_dns_subdomain, is_label_value};
use serde_json::Value;

use super::Found;
use crate::schema::Cause;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const CRON_JOB_MAX: usize = 52;

/// Returns why a text is no label of DNS.
pub(super) fn label(text: &str) -> Option<&'static str> {
    if text.len() > LABEL_MAX {
        return Some("must be no more than 63 characters");
    }
    (text.contains('.') || !is_dns_subdomain(text)).then_some(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
         alphanumeric character",
    )
}

/// Returns why a text is no subdomain of DNS.
pub(super) fn subdomain(text: &str) -> Option<&'static str> {
    if text.len() > SUBDOMAIN_MAX {
        return Some("must be no more than 253 characters");
    }
    (!is_dns_subdomain(text)).then_some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
         with an alphanumeric character",
    )
}

/// Returns why a text is no qualified name, such as a label key.
pub(super) fn qualified(text: &str) -> Option<&'static str> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix
        && (prefix.is_empty() || subdomain(prefix).is_some())
    {
        return Some("prefix part must be a lowercase RFC 1123 subdomain");
    }
    if name.len() > LABEL_MAX {
        return Some("name part must be no more than 63 characters");
    }
    (name.is_empty() || !is_label_value(name)).then_some(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character",
    )
}

/// Returns why a text is no value of a label.
pub(super) fn label_value(text: &str) -> Option<&'static str> {
    if text.len() > LABEL_MAX {
        return Some("must be no more than 63 characters");
    }
    (!is_label_value(text)).then_some(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end \
         with an alphanumeric character",
    )
}

/// Checks labels, or what selects by them.
pub(super) fn labels(labels: Option<&BTreeMap<String, String>>, field: &str, found: &mut Found) {
    for (key, value) in labels.into_iter().flatten() {
        if let Some(why) = qualified(key) {
            found.invalid(field, key.as_str(), why);
        }
        if let Some(why) = label_value(value) {
            found.invalid(&format!("{field}[{key}]"), value.as_str(), why);
        }
    }
}

/// Keys of annotations; values may be anything.
pub(super) fn annotations(annotations: Option<&BTreeMap<String, String>>, field: &str, found: &mut Found) {
    for key in annotations.into_iter().flatten().map(|(key, _)| key) {
        if let Some(why) = qualified(&key.to_lowercase()) {
            found.invalid(field, key.as_str(), why);
        }
    }
}

/// Returns why a text is no name of an object of a kind.
fn of_kind(kind: &str, name: &str) -> Option<&'static str> {
    match kind {
        // The name becomes part of names of hosts.
        "StatefulSet" if name.contains('.') => Some("must not contain dots"),
        "Namespace" | "StatefulSet" => label(name),
        // The name is a label of its pods.
        "Job" if name.len() > LABEL_MAX => Some("must be no more than 63 bytes"),
        "CronJob" if name.len() > CRON_JOB_MAX => Some("must be no more than 52 characters"),
        "PodDisruptionBudget" => match name {
            "." | ".." => Some("may not be '.' or '..'"),
            name if name.contains(['/', '%']) => Some("may not contain '/' or '%'"),
            _ => None,
        },
        _ => subdomain(name),
    }
}

/// Everything that is wrong with the names in the metadata of an object.
pub(crate) fn of_metadata(object: &Value, metadata: &Value) -> Vec<Cause> {
    let mut found = Found(Vec::new());
    let kind = object["kind"].as_str().unwrap_or_default();
    let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    match text("name") {
        Some(name) => {
            if let Some(why) = of_kind(kind, name) {
                found.invalid("metadata.name", name, why);
            }
        }
        None if text("generateName").is_none() => {
            found.required("metadata.name", "name or generateName is required");
        }
        None => {}
    }
    if let Some((namespace, why)) = text("namespace").and_then(|name| Some((name, label(name)?))) {
        found.invalid("metadata.namespace", namespace, why);
    }
    let texts = |field: &str| -> BTreeMap<String, String> {
        let written = metadata[field].as_object().into_iter().flatten();
        written.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
    };
    labels(Some(&texts("labels")), "metadata.labels", &mut found);
    annotations(Some(&texts("annotations")), "metadata.annotations", &mut found);
    found.0
}
