//! Terms of pod affinity and anti-affinity.

use serde_json::Value;

use super::surroundings::Surroundings;
use crate::apiserver::{
    label_selector_matches,
    object::{self, list},
};

/// The required terms of a pod under `kind`, `podAffinity` or `podAntiAffinity`.
pub(super) fn terms<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    under(pod, kind, "requiredDuringSchedulingIgnoredDuringExecution")
}

/// The preferred terms, each with a weight.
pub(super) fn preferred<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    under(pod, kind, "preferredDuringSchedulingIgnoredDuringExecution")
}

fn under<'a>(pod: &'a Value, kind: &str, strength: &str) -> &'a [Value] {
    let terms = pod["spec"]["affinity"].get(kind).and_then(|affinity| affinity.get(strength));
    terms.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns whether a pod has required anti-affinity, so that others must respect it.
pub(super) fn avoids_others(pod: &Value) -> bool {
    !terms(pod, "podAntiAffinity").is_empty()
}

/// Returns whether a term of `owner` is about `other`; one that is being deleted counts as long as it is there.
pub(super) fn selects(term: &Value, owner: &Value, other: &Value, surroundings: &Surroundings) -> bool {
    let namespace = object::namespace(other);
    let named = list(term, "/namespaces");
    let selector = term.get("namespaceSelector").filter(|selector| selector.is_object());
    let inside = (named.is_empty() && selector.is_none() && namespace == object::namespace(owner))
        || named.iter().any(|name| name == namespace)
        || selector.is_some_and(|selector| surroundings.namespace_is_selected(selector, namespace));
    inside && label_selector_matches(&term["labelSelector"], &other["metadata"]["labels"])
}
