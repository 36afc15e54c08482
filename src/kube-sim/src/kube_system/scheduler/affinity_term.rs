//! Required terms of pod affinity and anti-affinity.

use serde_json::Value;

use crate::apiserver::{
    label_selector_matches,
    object::{self, list},
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The terms of a pod under `kind`, `podAffinity` or `podAntiAffinity`.
pub(super) fn terms<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    let terms = pod["spec"]["affinity"].get(kind).and_then(|affinity| affinity.get(REQUIRED));
    terms.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns whether a pod has required anti-affinity, so that others must respect it.
pub(super) fn avoids_others(pod: &Value) -> bool {
    !terms(pod, "podAntiAffinity").is_empty()
}

/// Returns whether a term of `owner` is about `other`. A namespace selector selects all namespaces here.
pub(super) fn selects(term: &Value, owner: &Value, other: &Value) -> bool {
    let inside = match list(term, "/namespaces") {
        [] if term.get("namespaceSelector").is_some_and(Value::is_object) => true,
        [] => object::namespace(other) == object::namespace(owner),
        some => some.iter().any(|n| n == object::namespace(other)),
    };
    inside
        && !object::is_deleting(other)
        && label_selector_matches(&term["labelSelector"], &other["metadata"]["labels"])
}
