//! Which nodes count for a spread constraint: by default those the pod's node affinity allows, whatever
//! their taints (spec scheduling 18.3). Soft taints never matter: the scheduler counts a node it would rather
//! not use.

use karpenter_model::pod::affinity::NodeInclusion;
use karpenter_model::{
    Effect, LabelRegistry, Labels, Node, NodeTerm, Pod, Requirement, Requirements, SpreadConstraint, Taint,
    Toleration, Undefined,
};

use crate::conjunction::conjunction;
use crate::rules::{RuleSetId, Rules};

/// The nodes that count; part of a group's identity as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Filter {
    selector: Labels,
    terms: Vec<NodeTerm>,
    /// `None` when taints do not matter.
    tolerations: Option<Vec<Toleration>>,
}

impl Filter {
    /// The filter of `spread` on `pod`.
    pub(crate) fn new(pod: &Pod, spread: &SpreadConstraint) -> Self {
        let mut filter = Self::default();
        if spread.node_affinity_policy == NodeInclusion::Honor {
            filter.selector = pod.node_selector.clone();
            filter.terms.clone_from(&pod.required_terms);
        }
        if spread.node_taints_policy == NodeInclusion::Honor {
            filter.tolerations = Some(pod.tolerations.clone());
        }
        filter
    }

    /// What nodes must be to count, any one of these; taints aside. None where the selector and the terms
    /// contradict each other.
    pub(crate) fn alternatives(&self, rules: &mut Rules<'_>) -> Vec<RuleSetId> {
        let registry = rules.registry();
        let selected = Requirements::from_labels(registry, &self.selector);
        let with = |term: &NodeTerm| {
            let expressions =
                term.expressions.iter().map(|expression| Requirement::new(registry, expression));
            conjunction(&selected.iter().cloned().chain(expressions).collect::<Vec<_>>())
        };
        let none = [NodeTerm::default()];
        let terms = if self.terms.is_empty() { &none[..] } else { self.terms.as_slice() };
        let alternatives: Vec<Requirements> = terms.iter().filter_map(with).collect();
        alternatives.iter().map(|alternative| rules.set(alternative)).collect()
    }

    /// Whether every node counts.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.selector.is_empty() && self.terms.is_empty() && self.tolerations.is_none()
    }

    /// Whether taints are tolerated, as far as they matter.
    pub(crate) fn tolerates(&self, taints: &[Taint]) -> bool {
        self.tolerations.as_ref().is_none_or(|tolerations| {
            let tolerated = |taint: &Taint| tolerations.iter().any(|toleration| toleration.tolerates(taint));
            taints.iter().all(|taint| taint.effect == Effect::PreferNoSchedule || tolerated(taint))
        })
    }

    /// Whether an existing node counts.
    pub(crate) fn accepts_node(&self, node: &Node, registry: &LabelRegistry) -> bool {
        let labels = || Requirements::from_labels(registry, node.effective_labels());
        let anywhere = self.selector.is_empty() && self.terms.is_empty();
        self.tolerates(&node.effective_taints()) && (anywhere || self.accepts(&labels(), registry))
    }

    /// Whether something with `requirements` counts: it must satisfy the selector and any one term, and must
    /// define what they ask for.
    pub(crate) fn accepts(&self, requirements: &Requirements, registry: &LabelRegistry) -> bool {
        if self.selector.is_empty() && self.terms.is_empty() {
            return true;
        }
        let satisfied = |wanted: &Requirements| requirements.compatible(wanted, Undefined::Nothing).is_ok();
        let term = |term: &NodeTerm| satisfied(&Requirements::from_expressions(registry, &term.expressions));
        satisfied(&Requirements::from_labels(registry, &self.selector))
            && (self.terms.is_empty() || self.terms.iter().any(term))
    }
}
