//! Nodes that count for a spread constraint: by default those the pod's node affinity allows, whatever their taints (spec
//! scheduling 18.3). Soft taints never matter: the scheduler counts a node it would rather not use.

use karpenter_model::pod::affinity::NodeInclusion;
use karpenter_model::{
    Effect, LabelRegistry, Node, Pod, Requirements, SpreadConstraint, Taint, Toleration, Undefined,
};

use crate::conjunction::alternatives;
use crate::node_labels;
use crate::rules::{RuleSetId, Rules};

/// The nodes that count; part of a group's identity as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Filter {
    /// Alternatives for nodes that count, one of which must hold; `None` when labels do not matter. Empty where
    /// the selector contradicts every term.
    alternatives: Option<Vec<Requirements>>,
    /// `None` when taints do not matter.
    tolerations: Option<Vec<Toleration>>,
}

impl Filter {
    /// The filter of `spread` on `pod`.
    pub(crate) fn new(pod: &Pod, spread: &SpreadConstraint, registry: &LabelRegistry) -> Self {
        let mut filter = Self::default();
        let asks = !pod.node_selector.is_empty() || !pod.required_terms.is_empty();
        if asks && spread.node_affinity_policy == NodeInclusion::Honor {
            filter.alternatives = Some(alternatives(pod, registry));
        }
        if spread.node_taints_policy == NodeInclusion::Honor {
            filter.tolerations = Some(pod.tolerations.clone());
        }
        filter
    }

    /// Returns the alternatives for nodes that count, one of which must hold; taints aside.
    pub(crate) fn alternatives(&self, rules: &mut Rules<'_>) -> Vec<RuleSetId> {
        match &self.alternatives {
            Some(alternatives) => alternatives.iter().map(|alternative| rules.set(alternative)).collect(),
            None => vec![rules.set(&Requirements::default())],
        }
    }

    /// Returns whether labels decide which nodes count.
    pub(crate) fn asks_for_labels(&self) -> bool {
        self.alternatives.is_some()
    }

    /// Returns whether every node counts.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.alternatives.is_none() && self.tolerations.is_none()
    }

    /// Returns whether taints are tolerated, as far as they matter.
    pub(crate) fn tolerates(&self, taints: &[Taint]) -> bool {
        self.tolerations.as_ref().is_none_or(|tolerations| {
            let tolerated = |taint: &Taint| tolerations.iter().any(|toleration| toleration.tolerates(taint));
            taints.iter().all(|taint| taint.effect == Effect::PreferNoSchedule || tolerated(taint))
        })
    }

    /// Returns whether an existing node counts. One that is not launched yet counts if it will do so in every
    /// possible outcome.
    pub(crate) fn accepts_node(&self, node: &Node, registry: &LabelRegistry) -> bool {
        let satisfies = |alternative: &Requirements| {
            alternative.iter().all(|asked| node_labels::satisfies(node, asked, registry))
        };
        (self.tolerations.is_none() || self.tolerates(&node.effective_taints()))
            && self.alternatives.as_ref().is_none_or(|alternatives| alternatives.iter().any(satisfies))
    }

    /// Returns whether something with `requirements` counts: it must satisfy the selector and any one term,
    /// and must define what they ask for.
    pub(crate) fn accepts(&self, requirements: &Requirements) -> bool {
        let satisfied = |wanted: &Requirements| requirements.compatible(wanted, Undefined::Nothing).is_ok();
        self.alternatives.as_ref().is_none_or(|alternatives| alternatives.iter().any(satisfied))
    }
}
