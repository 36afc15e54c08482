//! Facts about the labels of a node that exists or is coming up.

use karpenter_model::names::label;
use karpenter_model::{LabelKey, LabelRegistry, LabelValue, Node, Requirement};

/// Fact about one label of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Fact {
    /// The node has no such label.
    Absent,
    /// The node has this value.
    Is(LabelValue),
    /// The node will have one of these values: it is not launched yet.
    Within(Requirement),
}

impl Fact {
    /// Returns whether the node satisfies `asked` in every possible outcome.
    pub(crate) fn satisfies(&self, asked: &Requirement) -> bool {
        match self {
            Self::Absent => asked.accepts_absence(),
            Self::Is(value) => asked.allows(value.as_str()),
            // Satisfied only if the question takes no value away. `minValues` of either side are about a
            // choice of types, not about a node.
            Self::Within(own) => own.intersection(asked).with_min_values(own.min_values()) == *own,
        }
    }
}

/// The value of label `key` of `node`, under its own name or an alias, normalised. The host name falls back to the name of
/// the node.
pub(crate) fn value_of(node: &Node, key: &LabelKey, registry: &LabelRegistry) -> Option<LabelValue> {
    if *key == label::HOSTNAME {
        return Some(node.hostname());
    }
    let labels = node.effective_labels();
    let aliases =
        registry.normalized_keys.iter().filter(|(_, canonical)| *canonical == key).map(|(alias, _)| alias);
    let value = std::iter::once(key).chain(aliases).find_map(|key| labels.get(key))?;
    Some(registry.normalize_value(key, value))
}

/// Returns the fact about `key` on `node`.
pub(crate) fn fact(node: &Node, key: &LabelKey, registry: &LabelRegistry) -> Fact {
    if let Some(value) = value_of(node, key, registry) {
        return Fact::Is(value);
    }
    let promised = node.unlaunched().and_then(|claim| claim.requirements.get(key.as_str()));
    promised.map_or(Fact::Absent, |requirement| Fact::Within(requirement.clone()))
}

/// Returns whether `node` satisfies `asked` in every possible outcome.
pub(crate) fn satisfies(node: &Node, asked: &Requirement, registry: &LabelRegistry) -> bool {
    fact(node, asked.key(), registry).satisfies(asked)
}
