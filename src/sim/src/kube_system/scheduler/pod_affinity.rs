//! Required pod affinity and anti-affinity, over any topology key.

use serde_json::Value;

use super::candidate::Candidate;
use crate::apiserver::{
    label_selector_matches,
    object::{self, list, text},
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Whether every required affinity term finds company in the candidate's domain. The first pod of a group that is
/// attracted to itself may go anywhere.
pub(super) fn attracted(pod: &Value, candidate: &Candidate, all: &[Candidate]) -> bool {
    terms(pod, "podAffinity").iter().all(|term| {
        let key = text(term, "/topologyKey");
        let Some(domain) = candidate.label(key) else { return false };
        let company = |c: &Candidate| c.pods.iter().any(|other| selects(term, pod, other));
        let near = all.iter().filter(|c| c.label(key) == Some(domain)).any(company);
        near || (selects(term, pod, pod) && !all.iter().any(company))
    })
}

/// Whether somebody in the candidate's domain keeps the pod away, by its own terms or by theirs.
pub(super) fn repelled(pod: &Value, candidate: &Candidate, all: &[Candidate]) -> bool {
    let shares_domain = |term: &Value, other: &Candidate| {
        let key = text(term, "/topologyKey");
        let domain = candidate.label(key);
        domain.is_some() && other.label(key) == domain
    };
    let own = terms(pod, "podAntiAffinity");
    all.iter().any(|other| {
        other.pods.iter().any(|neighbour| {
            own.iter().any(|term| shares_domain(term, other) && selects(term, pod, neighbour))
                || terms(neighbour, "podAntiAffinity")
                    .iter()
                    .any(|term| shares_domain(term, other) && selects(term, neighbour, pod))
        })
    })
}

fn terms<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    pod["spec"]["affinity"]
        .get(kind)
        .and_then(|a| a.get(REQUIRED))
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Whether a term of `owner` is about `other`. A namespace selector selects all namespaces here.
fn selects(term: &Value, owner: &Value, other: &Value) -> bool {
    let namespaces = list(term, "/namespaces");
    let inside = match namespaces {
        [] if term.get("namespaceSelector").is_some_and(Value::is_object) => true,
        [] => object::namespace(other) == object::namespace(owner),
        some => some.iter().any(|n| n == object::namespace(other)),
    };
    inside
        && !object::is_deleting(other)
        && label_selector_matches(&term["labelSelector"], &other["metadata"]["labels"])
}
