//! Obstacle to the disruption of a node, as a reason for reports and as the text of its event.

use std::fmt;

use karpenter_model::names::{annotation, label};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Node, NodeId, Pod, PodDisruptionBudget, PodKey, PoolName, Reason, Zone};

use crate::disrupt::lookup::Lookup;
use crate::disrupt::note::Note;

/// The first thing that blocks a node. `Display` is the text of the event `DisruptionBlocked`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blocker {
    /// The node has no claim.
    Unmanaged,
    /// The claim has no Node.
    NoNode,
    /// The Node is not initialized.
    NotInitialized,
    /// The node is terminating.
    Leaving,
    /// The instance of the node is being rebooted.
    Rebooting,
    /// A pending pod was promised a place on it.
    Nominated,
    /// The node has the annotation `karpenter.sh/do-not-disrupt` itself.
    NodeDoNotDisrupt,
    /// The cluster is shifted away from its zone. It will be wanted when that is over.
    ZoneAway(Zone),
    /// The node has no label of a pool.
    NoPoolLabel,
    /// The pool of the node does not exist.
    PoolMissing(PoolName),
    /// The instance types of its pool are unknown.
    NoInstanceTypes(PoolName),
    /// A pod has the annotation `karpenter.sh/do-not-disrupt`.
    PodDoNotDisrupt(PodKey),
    /// A pod disruption budget allows no eviction now.
    Budget { pod: PodKey, budget: String },
    /// Disruptions that a pod disruption budget allows are used up by nodes that are leaving already.
    BudgetSpent { pod: PodKey, budget: String },
    /// More than one pod disruption budget covers a pod, which the eviction API refuses.
    SeveralBudgets { pod: PodKey, budgets: Vec<String> },
}

impl Blocker {
    /// Returns the blocker as a reason with operands.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Unmanaged => Reason::bare(ReasonCode::Unmanaged),
            Self::NoNode | Self::NotInitialized => Reason::bare(ReasonCode::NotInitialized),
            Self::Leaving => Reason::bare(ReasonCode::Leaving),
            Self::Rebooting => Reason::bare(ReasonCode::Rebooting),
            Self::Nominated => Reason::bare(ReasonCode::Nominated),
            Self::NodeDoNotDisrupt => Reason::bare(ReasonCode::NodeDoNotDisrupt),
            Self::ZoneAway(zone) => Reason::new(ReasonCode::ZoneAway, zone),
            Self::NoPoolLabel => Reason::bare(ReasonCode::PoolMissing),
            Self::PoolMissing(pool) => Reason::new(ReasonCode::PoolMissing, pool),
            Self::NoInstanceTypes(pool) => Reason::new(ReasonCode::NoInstanceTypes, pool),
            Self::PodDoNotDisrupt(pod) => Reason::new(ReasonCode::PodDoNotDisrupt, pod),
            Self::Budget { pod, budget } => {
                Reason::new(ReasonCode::PodDisruptionBudget, format_args!("{budget} protects {pod}"))
            }
            Self::BudgetSpent { pod, budget } => Reason::new(
                ReasonCode::PodDisruptionBudget,
                format_args!("{budget} protects {pod} until other nodes have drained"),
            ),
            Self::SeveralBudgets { pod, budgets } => Reason::new(
                ReasonCode::PodDisruptionBudget,
                format_args!("{} protect {pod}", budgets.join(", ")),
            ),
        }
    }

    /// Nodes that go have spent what `budget`, which guards `pod`, allows.
    pub(crate) fn budget_spent(pod: &Pod, budget: &PodDisruptionBudget) -> Self {
        Self::BudgetSpent { pod: pod.key.clone(), budget: name(budget) }
    }

    /// The event on the node `id`.
    pub(crate) fn note(&self, id: &NodeId) -> Note {
        Note::blocked(id, self.reason().code, &self.operand(), self.to_string())
    }

    /// Returns the object that would have to be removed or changed.
    fn operand(&self) -> String {
        match self {
            Self::Unmanaged
            | Self::NoNode
            | Self::NotInitialized
            | Self::Leaving
            | Self::Rebooting
            | Self::Nominated
            | Self::NodeDoNotDisrupt
            | Self::NoPoolLabel => String::new(),
            Self::ZoneAway(zone) => zone.to_string(),
            Self::PoolMissing(pool) | Self::NoInstanceTypes(pool) => pool.to_string(),
            Self::PodDoNotDisrupt(pod) => pod.to_string(),
            Self::Budget { budget, .. } | Self::BudgetSpent { budget, .. } => budget.clone(),
            Self::SeveralBudgets { budgets, .. } => budgets.join(","),
        }
    }

    /// Returns whether the reference publishes an event about it: not about unmanaged nodes.
    pub(crate) fn has_event(&self) -> bool {
        !matches!(self, Self::Unmanaged)
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmanaged => f.write_str("Node isn't managed by karpenter"),
            Self::NoNode => f.write_str("Nodeclaim does not have an associated node"),
            Self::NotInitialized => f.write_str("Node isn't initialized"),
            Self::Leaving => f.write_str("Node is deleting or marked for deletion"),
            Self::Rebooting => f.write_str("Node is being rebooted"),
            Self::Nominated => f.write_str("Node is nominated for a pending pod"),
            Self::NodeDoNotDisrupt => {
                write!(f, "Disruption is blocked through the {:?} annotation", annotation::DO_NOT_DISRUPT)
            }
            Self::ZoneAway(zone) => {
                write!(f, "Cluster is shifted away from the zone of the node (Zone={zone})")
            }
            Self::NoPoolLabel => write!(f, "Node doesn't have required label (label={})", label::NODE_POOL),
            Self::PoolMissing(pool) | Self::NoInstanceTypes(pool) => {
                write!(f, "NodePool not found (NodePool={pool})")
            }
            Self::PodDoNotDisrupt(pod) => {
                write!(f, "Pod has {:?} annotation (Pod={pod})", annotation::DO_NOT_DISRUPT)
            }
            Self::Budget { budget, .. } | Self::BudgetSpent { budget, .. } => {
                write!(f, "Pdb prevents pod evictions (PodDisruptionBudget={budget})")
            }
            Self::SeveralBudgets { budgets, .. } => {
                write!(
                    f,
                    "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{}])",
                    budgets.join(", ")
                )
            }
        }
    }
}

/// Returns the obstacle that the pods of `node` are to its disruption: a do-not-disrupt annotation that holds, on
/// daemon and static pods too, or an eviction the API would refuse now.
pub(super) fn of_pods(node: &Node, lookup: &Lookup<'_>) -> Option<Blocker> {
    let now = lookup.snapshot().now;
    if let Some(pod) = node.pods.iter().find(|pod| !pod.is_disruptable(now)) {
        return Some(Blocker::PodDoNotDisrupt(pod.key.clone()));
    }
    node.pods.iter().filter(|pod| pod.asks_budgets(now)).find_map(|pod| refused(pod, lookup))
}

/// Returns the blocker if the eviction API would refuse to evict `pod` now: more than one budget covers it, or
/// the one that does guards it and allows no disruption.
fn refused(pod: &Pod, lookup: &Lookup<'_>) -> Option<Blocker> {
    let covering: Vec<_> = lookup.snapshot().budgets.covering(pod).collect();
    match covering[..] {
        [] => None,
        [budget] => {
            let blocked = budget.disruptions_allowed <= 0 && budget.guards(pod);
            blocked.then(|| Blocker::Budget { pod: pod.key.clone(), budget: name(budget) })
        }
        _ => {
            let budgets = covering.iter().map(|budget| name(budget)).collect();
            Some(Blocker::SeveralBudgets { pod: pod.key.clone(), budgets })
        }
    }
}

/// Returns the name of a pod disruption budget in reasons and events.
fn name(budget: &PodDisruptionBudget) -> String {
    format!("{}/{}", budget.namespace, budget.name)
}
