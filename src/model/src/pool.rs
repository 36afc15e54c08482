//! A `NodePool`, read as policy (spec scheduling 3).

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{NodeClassRef, PoolName, PoolUid};
use crate::label::{Annotations, LabelRegistry, Labels};
use crate::requirement::set::Requirements;
use crate::resources::{self, Resources};
use crate::taint::Taint;

/// Version of the algorithm by which templates are hashed, written next to the hash.
pub const HASH_VERSION: &str = "v3";

/// One `NodePool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub name: PoolName,
    pub uid: PoolUid,
    /// 1 to 100, 0 when absent; heavier pools are tried first.
    pub weight: i32,
    /// Most resources the pool's nodes may add up to; `None` is unlimited.
    pub limits: Option<Resources>,
    /// Number of nodes of a static pool; `None` for a dynamic one.
    pub replicas: Option<i64>,
    /// Template of its claims.
    pub template: Template,
    /// Rules for the disruption of its nodes.
    pub disruption: Disruption,
    /// `karpenter.sh/nodepool-hash` of the template: decimal text of the 64 bit hash.
    pub hash: String,
    /// Ready condition is `True`.
    pub ready: bool,
    /// `NodeRegistrationHealthy`: whether machines launched lately have registered; `None` while not known.
    pub registration_healthy: Option<bool>,
    /// The object is being deleted.
    pub deleting: bool,
}

impl Pool {
    /// A bare pool of this name, dynamic and ready: the starting point of builders and tests. Its uid is `uid-<name>`.
    pub fn bare(name: &str) -> Self {
        Self {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            weight: 0,
            limits: None,
            replicas: None,
            template: Template::default(),
            disruption: Disruption::default(),
            hash: String::new(),
            ready: true,
            registration_healthy: None,
            deleting: false,
        }
    }

    /// Returns what the template requires of every machine of the pool: its requirements and its labels.
    pub fn requirements(&self, registry: &LabelRegistry) -> Requirements {
        let mut requirements = Requirements::from_labels(registry, &self.template.labels);
        requirements.add_all(&self.template.requirements);
        requirements
    }

    /// Returns the amounts of `used` that are beyond the limits.
    pub fn beyond_limits(&self, used: &Resources) -> Resources {
        let limits = self.limits.iter().flat_map(Resources::iter);
        let exceeded = limits.filter(|(name, limit)| used.amount(name.as_str()) > **limit);
        exceeded.fold(Resources::new(), |all, (name, _)| all.with(name.as_str(), used.amount(name.as_str())))
    }

    /// Returns the largest number of nodes that the limits allow; `u64::MAX` if they do not limit it.
    pub fn nodes_max(&self) -> u64 {
        let limit = self.limits.as_ref().and_then(|limits| limits.get(resources::NODES));
        limit.map_or(u64::MAX, |limit| u64::try_from(limit.as_units_ceil()).unwrap_or_default())
    }
}

/// The part of a pool that its claims copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    /// Labels of claims and nodes.
    pub labels: Labels,
    /// Annotations of claims and nodes.
    pub annotations: Annotations,
    /// `spec.requirements` as written, intersected per key; labels are not folded in.
    pub requirements: Requirements,
    /// Taints of the nodes.
    pub taints: Vec<Taint>,
    /// Taints the nodes start with and another controller removes.
    pub startup_taints: Vec<Taint>,
    pub node_class: NodeClassRef,
    /// Age at which nodes expire; `None` is `Never`.
    pub expire_after: Option<Duration>,
    /// Longest time a drain may take.
    pub termination_grace_period: Option<Duration>,
}

/// Rules for the disruption of a pool's nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    /// Quiet time a node needs first; `None` is `Never`.
    pub consolidate_after: Option<Duration>,
    /// Scope of consolidation.
    pub policy: ConsolidationPolicy,
    /// Limits on the number of nodes disrupted at once.
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: Some(Duration::ZERO),
            policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
            budgets: vec![Budget { nodes: BudgetNodes::Percent(10), reasons: None, window: None }],
        }
    }
}

/// Scope of consolidation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConsolidationPolicy {
    /// Remove empty nodes only.
    WhenEmpty,
    /// Also replace or merge nodes that cost too much.
    WhenEmptyOrUnderutilized,
    /// Weigh savings against the cost of moving pods.
    Balanced,
}

/// Voluntary disruption reasons that budgets distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DisruptionReason {
    /// Nothing on it would have to move.
    Empty,
    /// No longer what its pool or class asks for.
    Drifted,
    /// Cheaper without it.
    Underutilized,
    /// Broken for longer than its condition is tolerated.
    Unhealthy,
}

impl DisruptionReason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Empty, Self::Drifted, Self::Underutilized, Self::Unhealthy];
}

impl fmt::Display for DisruptionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Underutilized => "Underutilized",
            Self::Unhealthy => "Unhealthy",
        })
    }
}

/// One disruption budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Largest number of nodes.
    pub nodes: BudgetNodes,
    /// Reasons it applies to; `None` is all, the empty set is none.
    pub reasons: Option<BTreeSet<DisruptionReason>>,
    /// Times when it applies; `None` is always.
    pub window: Option<BudgetWindow>,
}

impl Budget {
    /// Returns whether it applies to disruption for `reason`, while its window is open.
    pub fn is_for(&self, reason: DisruptionReason) -> bool {
        self.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason))
    }
}

/// Size of a budget as written in `nodes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetNodes {
    /// A number of nodes.
    Count(u32),
    /// A share of the pool's nodes, 0 to 100, rounded up.
    Percent(u8),
    /// Text that is neither; evaluates to zero nodes.
    Invalid(String),
}

impl BudgetNodes {
    /// Reads the API form: `5` or `10%`.
    pub fn parse(text: &str) -> Self {
        let invalid = || Self::Invalid(text.to_owned());
        let digits = text.strip_suffix('%').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return invalid();
        }
        if digits.len() == text.len() {
            return digits.parse().map_or_else(|_| invalid(), Self::Count);
        }
        digits.parse().ok().filter(|percent| *percent <= 100).map_or_else(invalid, Self::Percent)
    }

    /// Nodes the budget allows out of `total`; `None` when the text was not understood.
    pub fn of(&self, total: u32) -> Option<u32> {
        match self {
            Self::Count(count) => Some(*count),
            Self::Percent(percent) => {
                let nodes = (u64::from(total) * u64::from(*percent)).div_ceil(100);
                u32::try_from(nodes).ok()
            }
            Self::Invalid(_) => None,
        }
    }

    /// Returns whether it is zero, which is zero of any total. Text that was not understood is not.
    pub fn allows_none(&self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

/// Times when a budget applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetWindow {
    /// Cron expression, in UTC unless `CRON_TZ=Europe/Berlin` or the like precedes it: when windows open.
    pub schedule: String,
    /// Time each window stays open.
    pub duration: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_nodes_read_counts_and_percentages_rounded_up() {
        let table = [
            ("0", 10, Some(0)),
            ("5", 3, Some(5)),
            ("10%", 1, Some(1)),
            ("10%", 10, Some(1)),
            ("10%", 11, Some(2)),
            ("0%", 10, Some(0)),
            ("100%", 7, Some(7)),
            ("101%", 7, None),
            ("-1", 7, None),
            ("", 7, None),
            ("%", 7, None),
            ("ten", 7, None),
        ];
        for (text, total, expected) in table {
            assert_eq!(BudgetNodes::parse(text).of(total), expected, "{text} of {total}");
        }
    }

    #[test]
    fn budget_nodes_allow_none_only_when_they_say_zero() {
        for (text, expected) in [("0", true), ("0%", true), ("1", false), ("1%", false), ("ten", false)] {
            assert_eq!(BudgetNodes::parse(text).allows_none(), expected, "{text}");
        }
    }

    #[test]
    fn budget_is_for_the_reasons_it_names_or_for_all() {
        let budget = |reasons: Option<&[DisruptionReason]>| Budget {
            nodes: BudgetNodes::Count(1),
            reasons: reasons.map(|reasons| reasons.iter().copied().collect()),
            window: None,
        };
        for (reasons, drifted, empty) in [
            (None, true, true),
            (Some(&[DisruptionReason::Drifted][..]), true, false),
            (Some(&[][..]), false, false),
        ] {
            let is_for = |reason| budget(reasons).is_for(reason);
            let found = (is_for(DisruptionReason::Drifted), is_for(DisruptionReason::Empty));
            assert_eq!(found, (drifted, empty), "{reasons:?}");
        }
    }
}
