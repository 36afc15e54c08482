//! The whole input of one pass, frozen.

mod pod_budgets;
mod same;
mod selections;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::device::Devices;
use crate::id::{DaemonSetName, Namespace, NodeName, PodKey, PoolName, VolumeClaimName, Zone};
use crate::instance_type::InstanceType;
use crate::label::selector::LabelSelector;
use crate::label::{LabelRegistry, Labels};
use crate::node::Node;
use crate::node::repair::RepairPolicy;
use crate::plan::Target;
use crate::pod::Pod;
use crate::pod::volume::Volume;
use crate::pool::{BudgetNodes, Pool};
use crate::settings::Settings;
pub use pod_budgets::PodBudgets;
pub use selections::{OwnedBy, Selections};

/// Everything a pass may look at. Cloning is cheap: the parts are shared.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Number of changes the index had seen: as long as it is the same, a snapshot of the same index shows
    /// the same things.
    pub revision: u64,
    /// The instant of the pass.
    pub now: Timestamp,
    pub settings: Arc<Settings>,
    /// Registry of label keys.
    pub registry: Arc<LabelRegistry>,
    /// Managed pools.
    pub pools: Vec<Arc<Pool>>,
    /// Instance types per pool; a pool that is missing could not be evaluated and takes no new nodes.
    pub instance_types: BTreeMap<PoolName, Arc<[Arc<InstanceType>]>>,
    /// Machines, managed or not, with the pods bound to them.
    pub nodes: Vec<Arc<Node>>,
    /// Pods that wait for capacity.
    pub pending: Vec<Arc<Pod>>,
    /// Machines that earlier passes promised pods a place on, by pod. A promise counts while its machine is there and
    /// takes the pod; one for a pod that has a place, or is not in the snapshot, says nothing.
    pub promises: Arc<BTreeMap<PodKey, Target>>,
    /// Daemon sets with the pod they put on a new node.
    pub daemons: Vec<Arc<Daemon>>,
    /// Persistent volume claims by namespace and name.
    pub volumes: BTreeMap<(Namespace, VolumeClaimName), Arc<Volume>>,
    /// Labels of namespaces, for affinity terms that select them.
    pub namespaces: BTreeMap<Namespace, Labels>,
    /// Selections of Services and of owners of pods; empty without a default spread.
    pub selections: Arc<Selections>,
    /// Pod disruption budgets.
    pub budgets: PodBudgets,
    /// Devices and their holders; empty while resource claims are ignored.
    pub devices: Arc<Devices>,
    /// Zones the cluster is shifted away from: machines there are left alone. That nothing is launched there is for
    /// the offerings to say.
    pub zones_away: BTreeSet<Zone>,
    /// Policies that define a broken node; empty while nodes are not repaired.
    pub repair: Arc<[RepairPolicy]>,
}

/// A daemon set, as placement sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// Namespace of the daemon set.
    pub namespace: Namespace,
    pub name: DaemonSetName,
    /// The newest pod, or one built from the template; its required node affinity is the template's
    /// (spec scheduling 16), its owner the daemon set, and it tolerates what daemon pods tolerate without saying so.
    pub pod: Pod,
}

impl Daemon {
    /// Returns whether `pod` belongs to the daemon set. One that is read from a manifest has no uid, and its pods are found by
    /// its name.
    pub fn owns(&self, pod: &Pod) -> bool {
        let named = || {
            pod.key.namespace == self.namespace
                && pod.owner_path.ends_with(&format!("/daemonsets/{}", self.name))
        };
        pod.is_daemon()
            && self.pod.owner_uid.as_ref().map_or_else(named, |uid| pod.owner_uid.as_ref() == Some(uid))
    }
}

/// A `PodDisruptionBudget`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDisruptionBudget {
    /// Namespace whose pods it covers.
    pub namespace: Namespace,
    pub name: String,
    /// Pods it covers; `None` covers none.
    pub selector: Option<LabelSelector>,
    /// `maxUnavailable`.
    pub max_unavailable: Option<BudgetNodes>,
    /// `minAvailable`.
    pub min_available: Option<BudgetNodes>,
    /// `status.disruptionsAllowed`; 0 while the status is about an older spec, as the eviction API takes it.
    pub disruptions_allowed: i32,
    /// `status.currentHealthy`: the pods it covers that are ready.
    pub current_healthy: i32,
    /// `status.desiredHealthy`: how many of them have to stay ready.
    pub desired_healthy: i32,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub always_allow_unhealthy: bool,
}

impl PodDisruptionBudget {
    /// Returns whether the budget covers `pod`.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.namespace == pod.key.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }

    /// Returns whether an eviction of `pod`, which it covers, uses up one of the disruptions it allows. A pod that is not ready
    /// goes without one while enough others are healthy, or always where the policy says so.
    pub fn guards(&self, pod: &Pod) -> bool {
        let enough_healthy = self.current_healthy >= self.desired_healthy && self.desired_healthy > 0;
        pod.ready == Some(true) || !(self.always_allow_unhealthy || enough_healthy)
    }

    /// Returns whether no eviction can ever pass: nothing may be unavailable, or everything must be available.
    pub(crate) fn fully_blocks(&self) -> bool {
        self.max_unavailable.as_ref().is_some_and(BudgetNodes::allows_none)
            || matches!(self.min_available, Some(BudgetNodes::Percent(100)))
    }
}

impl Snapshot {
    /// An empty snapshot at `now`, the starting point of builders and tests.
    pub fn empty(now: Timestamp) -> Self {
        Self {
            revision: 0,
            now,
            settings: Arc::default(),
            registry: Arc::default(),
            pools: Vec::new(),
            instance_types: BTreeMap::new(),
            nodes: Vec::new(),
            pending: Vec::new(),
            promises: Arc::default(),
            daemons: Vec::new(),
            volumes: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            selections: Arc::default(),
            budgets: PodBudgets::default(),
            devices: Arc::default(),
            zones_away: BTreeSet::new(),
            repair: Arc::default(),
        }
    }

    /// Pods that wait for capacity and are to be planned for. Those that the scheduler makes room for by preemption are not
    /// (spec scheduling 11.1): they may preempt, and the node they are nominated for has pods that are terminating or less
    /// important. Every other nomination only says where a pod is expected, as ours do, and the pod still needs its place.
    pub fn waiting(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let pending = self.pending.iter().filter(|pod| pod.is_provisionable());
        let nominated: BTreeSet<&NodeName> =
            pending.clone().filter_map(|pod| pod.nominated_node.as_ref()).collect();
        let named = self.nodes.iter().filter_map(|node| Some((node.name.as_ref()?, node.as_ref())));
        let nodes: BTreeMap<&NodeName, &Node> = if nominated.is_empty() {
            BTreeMap::new()
        } else {
            named.filter(|(name, _)| nominated.contains(name)).collect()
        };
        pending.filter(move |pod| {
            let node = pod.nominated_node.as_ref().and_then(|name| nodes.get(name));
            !node.is_some_and(|node| self.is_preempting(pod, node))
        })
    }

    /// Returns whether the nomination of `pod` for `node` can be the scheduler's, which preempts others there.
    fn is_preempting(&self, pod: &Pod, node: &Node) -> bool {
        let here = |place: &Target| match place {
            Target::Node(name) => node.name.as_ref() == Some(name),
            Target::Claim(name) => node.claim.as_ref().is_some_and(|claim| claim.name == *name),
        };
        let promised = self.promises.get(&pod.key).is_some_and(here);
        let priority = |pod: &Pod| pod.priority.unwrap_or_default();
        pod.preempts
            && !promised
            && node.pods.iter().any(|other| other.is_terminating() || priority(other) < priority(pod))
    }

    /// Returns whether no eviction of `pod` can pass its budgets: more than one covers it, or the one that does
    /// blocks fully (spec scheduling 11.3). Pods whose eviction asks no budget are never blocked.
    pub(crate) fn fully_blocked(&self, pod: &Pod) -> bool {
        if !pod.asks_budgets(self.now) {
            return false;
        }
        let mut covering = self.budgets.covering(pod);
        match (covering.next(), covering.next()) {
            (None, _) => false,
            (Some(_), Some(_)) => true,
            (Some(budget), None) => budget.fully_blocks() && budget.guards(pod),
        }
    }

    /// Returns whether `pod`, bound to a node that is being removed, needs a new place now (spec disruption 0.6).
    pub fn currently_reschedulable(&self, pod: &Pod) -> bool {
        pod.is_reschedulable() && pod.is_disruptable(self.now) && !self.fully_blocked(pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::NodeId;

    fn pod(name: &str, priority: i32) -> Pod {
        let key = PodKey::new("default", name);
        let pod = Pod::pending(key, name, Timestamp::UNIX_EPOCH);
        pod.with(|pod| {
            pod.priority = Some(priority);
            pod.unschedulable = true;
        })
    }

    #[test]
    fn a_nomination_is_a_preemption_only_where_pods_can_be_sent_away_for_it() {
        let nominated = Pod { nominated_node: Some("n".into()), ..pod("a", 5) };
        let gentle = nominated.clone().with(|pod| pod.preempts = false);
        let leaving = Pod { deletion: Some(Timestamp::UNIX_EPOCH), ..pod("b", 5) };
        let place = |name: &str| Some(Target::Node(name.into()));
        let cases = [
            ("no such node", &nominated, "other", pod("b", 0), None, true),
            ("no pod less important", &nominated, "n", pod("b", 5), None, true),
            ("a pod less important", &nominated, "n", pod("b", 4), None, false),
            ("a terminating pod", &nominated, "n", leaving, None, false),
            ("promised there", &nominated, "n", pod("b", 4), place("n"), true),
            ("promised elsewhere", &nominated, "n", pod("b", 4), place("m"), false),
            ("a pod less important, and never preempts", &gentle, "n", pod("b", 4), None, true),
        ];
        for (what, nominated, node, other, promise, waits) in cases {
            let mut snapshot = Snapshot::empty(Timestamp::UNIX_EPOCH);
            let mut machine = Node::new(NodeId::from(node), Timestamp::UNIX_EPOCH);
            machine.name = Some(node.into());
            machine.pods = vec![Arc::new(other)];
            snapshot.nodes = vec![Arc::new(machine)];
            snapshot.pending = vec![Arc::new(nominated.clone()), Arc::new(pod("c", 0))];
            let promises = promise.map(|place| (nominated.key.clone(), place));
            snapshot.promises = Arc::new(promises.into_iter().collect());
            let waiting: Vec<&str> = snapshot.waiting().map(|pod| pod.key.name.as_str()).collect();
            assert_eq!(waiting, if waits { vec!["a", "c"] } else { vec!["c"] }, "{what}");
        }
    }
}
