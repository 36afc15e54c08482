//! Nodes as the scheduler sees them: what is left on each, and who is there.

use std::borrow::Cow;
use std::sync::Arc;

use karpenter_model::{Quantity, Resources};
use serde_json::Value;

use super::affinity_term::avoids_others;
use crate::apiserver::object::{self, list, text};
use crate::kube_system::requests;
use crate::kube_system::template::number;

/// One node.
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) node: Arc<Value>,
    /// Pods on it that have not ended.
    pub(super) pods: Vec<Arc<Value>>,
    /// Those among them that keep others away.
    pub(super) avoiding: Vec<Arc<Value>>,
    /// Pods that name it and are not here yet.
    pub(super) expected: Vec<Arc<Value>>,
    allocatable: Resources,
    free: Resources,
}

impl Candidate {
    /// A node and the pods bound to it.
    pub(super) fn of<'a>(node: Arc<Value>, pods: impl Iterator<Item = &'a Arc<Value>>) -> Self {
        let allocatable = requests::quantities(&node["status"]["allocatable"]);
        let mut candidate = Self {
            name: object::name(&node).to_owned(),
            node,
            pods: Vec::new(),
            avoiding: Vec::new(),
            expected: Vec::new(),
            free: allocatable.clone(),
            allocatable,
        };
        for pod in pods.filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")) {
            candidate.take(pod);
        }
        candidate
    }

    /// Counts a pod as running here.
    pub(super) fn take(&mut self, pod: &Arc<Value>) {
        self.free = self.free.subtract(&requests::of(pod));
        if avoids_others(pod) {
            self.avoiding.push(pod.clone());
        }
        self.pods.push(pod.clone());
    }

    /// Whether a pod that was refused here before may have a place now.
    pub(super) fn offers_more_than(&self, before: &Self) -> bool {
        let same = |pointer| self.node.pointer(pointer) == before.node.pointer(pointer);
        let freed = self.free.iter().any(|(name, amount)| *amount > before.free.amount(name.as_str()));
        freed || !same("/spec") || !same("/metadata/labels")
    }

    /// Keeps room for a pod that names this node.
    pub(super) fn expect(&mut self, pod: &Arc<Value>) {
        self.expected.push(pod.clone());
    }

    /// The pod has found its place, here or elsewhere.
    pub(super) fn no_longer_expect(&mut self, pod: &Value) {
        self.expected.retain(|one| object::uid(one) != object::uid(pod));
    }

    /// Free share of the processors in thousandths.
    pub(super) fn room(&self) -> i64 {
        let all = self.allocatable.amount("cpu").as_millis_ceil().max(1);
        self.free.amount("cpu").as_millis_ceil() * 1_000 / all
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        object::label(&self.node, key)
    }

    pub(super) fn is_cordoned_for(&self, pod: &Value) -> bool {
        if self.node["spec"]["unschedulable"] != true {
            return false;
        }
        let cordon = serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
        !list(pod, "/spec/tolerations").iter().any(|toleration| tolerates(toleration, &cordon))
    }

    /// The first hard taint the pod does not tolerate, as text.
    pub(super) fn untolerated_taint(&self, pod: &Value) -> Option<String> {
        let tolerations = list(pod, "/spec/tolerations");
        let hard = |taint: &&Value| matches!(text(taint, "/effect"), "NoSchedule" | "NoExecute");
        let untolerated = |taint: &&Value| !tolerations.iter().any(|t| tolerates(t, taint));
        let taint = list(&self.node, "/spec/taints").iter().filter(hard).find(untolerated)?;
        Some(format!("{}: {}", text(taint, "/key"), text(taint, "/value")))
    }

    /// The first resource there is too little of for `pod`, which wants this much: what pods that are expected here and no
    /// less important want is not free.
    pub(super) fn insufficient(&self, pod: &Value, wanted: &Resources) -> Option<String> {
        let priority = |pod: &Value| number(pod, "/spec/priority");
        let others = self
            .expected
            .iter()
            .filter(|other| object::uid(other) != object::uid(pod) && priority(other) >= priority(pod));
        let mut free = Cow::Borrowed(&self.free);
        for other in others {
            free = Cow::Owned(free.subtract(&requests::of(other)));
        }
        let mut lacking = wanted
            .iter()
            .filter(|(name, amount)| **amount > Quantity::ZERO && **amount > free.amount(name.as_str()));
        lacking.next().map(|(name, _)| name.to_string())
    }

    pub(super) fn has_port_conflict(&self, wanted: &[HostPort<'_>]) -> bool {
        !wanted.is_empty()
            && self.pods.iter().flat_map(|p| host_ports(p)).any(|taken| wanted.contains(&taken))
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

/// Whether a toleration covers a taint.
pub(in crate::kube_system) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
    let same_effect = effect.is_empty() || effect == text(taint, "/effect");
    let exists = text(toleration, "/operator") == "Exists";
    let same_key = key == text(taint, "/key") || (key.is_empty() && exists);
    same_effect && same_key && (exists || text(toleration, "/value") == text(taint, "/value"))
}
