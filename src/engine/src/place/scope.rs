//! The namespaces a rule about other pods covers.

use std::collections::BTreeSet;

use karpenter_model::{AffinityTerm, Namespace, Snapshot};

/// A set of namespaces; `None` is every one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Scope(Option<BTreeSet<Namespace>>);

impl Scope {
    /// One namespace.
    pub(crate) fn only(namespace: &Namespace) -> Self {
        Self(Some([namespace.clone()].into()))
    }

    /// The namespaces of `term`: those listed and those selected by label, or the pod's `own` when the term
    /// names none. An empty selector is every namespace.
    pub(crate) fn of(term: &AffinityTerm, own: &Namespace, snapshot: &Snapshot) -> Self {
        match &term.namespace_selector {
            Some(selector) if selector.expressions.is_empty() => Self(None),
            Some(selector) => {
                let selected = snapshot.namespaces.iter().filter(|(_, labels)| selector.matches(labels));
                Self(Some(term.namespaces.iter().chain(selected.map(|(name, _)| name)).cloned().collect()))
            }
            None if term.namespaces.is_empty() => Self::only(own),
            None => Self(Some(term.namespaces.clone())),
        }
    }

    /// Returns whether `namespace` is in the scope.
    pub(crate) fn contains(&self, namespace: &Namespace) -> bool {
        self.0.as_ref().is_none_or(|namespaces| namespaces.contains(namespace))
    }
}
