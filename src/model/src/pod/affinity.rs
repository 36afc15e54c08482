//! Rules of a pod about other pods: topology spread, pod affinity and anti-affinity (spec scheduling 18).

use std::collections::BTreeSet;

use crate::id::{LabelKey, Namespace};
use crate::label::selector::LabelSelector;

/// Behavior when a spread constraint cannot be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenUnsatisfiable {
    /// The pod waits.
    DoNotSchedule,
    /// The pod is placed anyway.
    ScheduleAnyway,
}

/// Treatment in a spread of nodes that the pod could not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeInclusion {
    /// Only nodes the pod could use count.
    Honor,
    /// All nodes count.
    Ignore,
}

/// One topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpreadConstraint {
    /// Largest difference between domains, at least 1.
    pub max_skew: u32,
    /// Label whose values are the domains.
    pub topology_key: LabelKey,
    /// Hard or soft.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Pods that count; `None` selects nothing.
    pub selector: Option<LabelSelector>,
    /// Fewer eligible domains than this make the minimum 0.
    pub min_domains: Option<u32>,
    /// `nodeAffinityPolicy`, default `Honor`.
    pub node_affinity_policy: NodeInclusion,
    /// `nodeTaintsPolicy`, default `Ignore`.
    pub node_taints_policy: NodeInclusion,
    /// Keys whose values on the pod are added to the selector.
    pub match_label_keys: Vec<LabelKey>,
}

/// One pod affinity or anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AffinityTerm {
    /// Label whose values are the domains.
    pub topology_key: LabelKey,
    /// Pods the term is about; `None` selects nothing.
    pub selector: Option<LabelSelector>,
    /// Namespaces listed by name.
    pub namespaces: BTreeSet<Namespace>,
    /// Namespaces selected by label; the empty selector selects all.
    pub namespace_selector: Option<LabelSelector>,
}

/// A preferred term.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeightedAffinityTerm {
    /// 1 to 100; the heaviest is relaxed first (spec scheduling 20).
    pub weight: i32,
    pub term: AffinityTerm,
}

/// Pod affinity, or pod anti-affinity: the two have the same form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PodAffinity {
    /// Terms that must hold.
    pub required: Vec<AffinityTerm>,
    /// Terms that should hold.
    pub preferred: Vec<WeightedAffinityTerm>,
}
