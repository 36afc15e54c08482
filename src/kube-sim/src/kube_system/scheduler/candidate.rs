//! Nodes as the scheduler sees them: what is left on each, and the pods on it.

use std::borrow::Cow;
use std::sync::Arc;

use karpenter_model::id::ResourceName;
use karpenter_model::node::score::Share;
use karpenter_model::{Quantity, Resources, resources};
use serde_json::Value;

use super::affinity_term::avoids_others;
use crate::apiserver::object::{self, list, text};
use crate::kube_system::pod::Pod;
use crate::kube_system::requests;

/// CPU and memory of a node.
pub(super) type Shares = [Share; 2];

/// One node.
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) node: Arc<Value>,
    /// Pods on it that have not ended.
    pub(super) pods: Vec<Arc<Pod>>,
    /// Pods among them that keep others away.
    pub(super) avoiding: Vec<Arc<Pod>>,
    /// Pods that name it and are not here yet.
    pub(super) expected: Vec<Arc<Pod>>,
    cordoned: bool,
    /// Taints of the node that keep pods off it.
    taints: Vec<Value>,
    /// Taints of the node that pods would rather avoid.
    soft_taints: Vec<Value>,
    allocatable: Resources,
    free: Resources,
    /// CPU and memory that its pods count for where nodes are scored by what is free.
    scored: [Quantity; 2],
}

impl Candidate {
    /// A node and the pods bound to it.
    pub(super) fn of<'a>(node: Arc<Value>, pods: impl Iterator<Item = &'a Arc<Pod>>) -> Self {
        let allocatable = requests::quantities(&node["status"]["allocatable"]);
        let taints = |effects: &[&str]| {
            let taints = list(&node, "/spec/taints").iter();
            taints.filter(|taint| effects.contains(&text(taint, "/effect"))).cloned().collect()
        };
        let mut candidate = Self {
            name: object::name(&node).to_owned(),
            cordoned: node["spec"]["unschedulable"] == true,
            taints: taints(&["NoSchedule", "NoExecute"]),
            soft_taints: taints(&["PreferNoSchedule"]),
            node,
            pods: Vec::new(),
            avoiding: Vec::new(),
            expected: Vec::new(),
            free: allocatable.clone(),
            allocatable,
            scored: [Quantity::ZERO; 2],
        };
        for pod in pods.filter(|pod| !pod.ended) {
            candidate.take(pod);
        }
        candidate
    }

    /// Counts a pod as running here.
    pub(super) fn take(&mut self, pod: &Arc<Pod>) {
        self.free = self.free.subtract(&pod.requests);
        for (sum, own) in self.scored.iter_mut().zip(pod.scored) {
            *sum = sum.saturating_add(own);
        }
        if avoids_others(&pod.object) {
            self.avoiding.push(pod.clone());
        }
        self.pods.push(pod.clone());
    }

    /// Returns whether a pod that was refused here before may have a place now.
    pub(super) fn offers_more_than(&self, before: &Self) -> bool {
        let same = |pointer| self.node.pointer(pointer) == before.node.pointer(pointer);
        let freed = self.free.iter().any(|(name, amount)| *amount > before.free.amount(name.as_str()));
        freed || !same("/spec") || !same("/metadata/labels")
    }

    /// Keeps room for a pod that names this node.
    pub(super) fn expect(&mut self, pod: &Arc<Pod>) {
        self.expected.push(pod.clone());
    }

    /// The pod has found its place, here or elsewhere.
    pub(super) fn no_longer_expect(&mut self, pod: &Value) {
        self.expected.retain(|one| object::uid(&one.object) != object::uid(pod));
    }

    /// CPU and memory with `pod` here, as its requests have it and as they count where nodes are scored by what is free, for
    /// which the pod asks for `scored`.
    pub(super) fn shares_with(&self, pod: &Pod, scored: [Quantity; 2]) -> (Shares, Shares) {
        let names = [resources::CPU, resources::MEMORY];
        let share = |index: usize, requested: Quantity| Share {
            requested: requested.nanos(),
            allocatable: self.allocatable.amount(names[index]).nanos(),
        };
        let asked = |index: usize| {
            let [all, free, own] = [&self.allocatable, &self.free, &pod.requests]
                .map(|resources| resources.amount(names[index]));
            all.saturating_sub(free).saturating_add(own)
        };
        let counted = |index: usize| self.scored[index].saturating_add(scored[index]);
        ([0, 1].map(|index| share(index, asked(index))), [0, 1].map(|index| share(index, counted(index))))
    }

    /// Number of taints that the pod would rather avoid.
    pub(super) fn soft_taints_against(&self, pod: &Value) -> usize {
        let tolerations = list(pod, "/spec/tolerations");
        let avoided = |taint: &&Value| !tolerations.iter().any(|toleration| tolerates(toleration, taint));
        self.soft_taints.iter().filter(avoided).count()
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        object::label(&self.node, key)
    }

    pub(super) fn is_cordoned_for(&self, pod: &Value) -> bool {
        if !self.cordoned {
            return false;
        }
        let cordon = serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
        !list(pod, "/spec/tolerations").iter().any(|toleration| tolerates(toleration, &cordon))
    }

    /// The first hard taint the pod does not tolerate.
    pub(super) fn untolerated_taint(&self, pod: &Value) -> Option<&Value> {
        let untolerated =
            |taint: &&Value| !list(pod, "/spec/tolerations").iter().any(|t| tolerates(t, taint));
        self.taints.iter().find(untolerated)
    }

    /// The first resource there is too little of for `pod`: what pods that are expected here and no less important want is
    /// not free.
    pub(super) fn insufficient<'a>(&self, pod: &'a Pod) -> Option<&'a ResourceName> {
        let is_other = |other: &Pod| object::uid(&other.object) != object::uid(&pod.object);
        let others = self.expected.iter().filter(|other| is_other(other) && other.priority >= pod.priority);
        let mut free = Cow::Borrowed(&self.free);
        for other in others {
            free = Cow::Owned(free.subtract(&other.requests));
        }
        let wanted = pod.requests.iter();
        let mut lacking = wanted
            .filter(|(name, amount)| **amount > Quantity::ZERO && **amount > free.amount(name.as_str()));
        lacking.next().map(|(name, _)| name)
    }

    pub(super) fn has_port_conflict(&self, wanted: &[HostPort<'_>]) -> bool {
        !wanted.is_empty()
            && self.pods.iter().flat_map(|pod| host_ports(&pod.object)).any(|taken| wanted.contains(&taken))
    }
}

/// Number and protocol.
pub(super) type HostPort<'a> = (i64, &'a str);

/// Ports of the host by protocol, of containers and sidecars. Addresses are not distinguished.
pub(super) fn host_ports(pod: &Value) -> Vec<HostPort<'_>> {
    let init = list(pod, "/spec/initContainers").iter();
    let sidecars = init.filter(|container| requests::is_sidecar(container));
    let ports = list(pod, "/spec/containers").iter().chain(sidecars).flat_map(|c| list(c, "/ports"));
    ports
        .filter_map(|port| Some((port["hostPort"].as_i64().filter(|&p| p > 0)?, text(port, "/protocol"))))
        .collect()
}

/// Returns whether a toleration covers a taint.
pub(in crate::kube_system) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
    let same_effect = effect.is_empty() || effect == text(taint, "/effect");
    let exists = text(toleration, "/operator") == "Exists";
    let same_key = key == text(taint, "/key") || (key.is_empty() && exists);
    same_effect && same_key && (exists || text(toleration, "/value") == text(taint, "/value"))
}
