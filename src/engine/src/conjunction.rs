//! Several statements about a node at once.

use karpenter_model::{LabelRegistry, NodeTerm, Pod, Requirement, Requirements};

/// All of `stated` at once; `None` when they contradict each other. An intersection that came out empty would
/// read as `DoesNotExist`, which nodes without the label satisfy, so it must not be mistaken for one.
pub(crate) fn conjunction(stated: &[Requirement]) -> Option<Requirements> {
    let merged: Requirements = stated.iter().cloned().collect();
    let needs_value = |key: &str| {
        stated.iter().any(|requirement| requirement.key() == key && !requirement.accepts_absence())
    };
    let contradiction =
        merged.iter().any(|requirement| requirement.is_empty() && needs_value(requirement.key().as_str()));
    (!contradiction).then_some(merged)
}

/// Alternatives for the node of `pod`, one of which must hold: its selector with each of its required terms, without
/// those that contradict it or are empty, which match no node. Preferences do not count.
pub(crate) fn alternatives(pod: &Pod, registry: &LabelRegistry) -> Vec<Requirements> {
    let selected = Requirements::from_labels(registry, &pod.node_selector);
    let with = |term: &NodeTerm| {
        let stated = term.expressions.iter().chain(&term.fields);
        let stated = stated.map(|expression| Requirement::new(registry, expression));
        conjunction(&selected.iter().cloned().chain(stated).collect::<Vec<_>>())
    };
    // No term at all restricts nothing, while terms that are all empty match no node, as in Kubernetes.
    if pod.required_terms.is_empty() {
        return with(&NodeTerm::default()).into_iter().collect();
    }
    pod.required_terms.iter().filter(|term| !term.is_empty()).filter_map(with).collect()
}
