//! Reasons why a node does not take a pod: the filters, in kube-scheduler's order and words.

use std::fmt;

use karpenter_model::id::ResourceName;
use serde_json::Value;

use super::{
    candidate::{self, Candidate, HostPort},
    node_selector,
    pod_affinity::Neighbours,
    spread::Spread,
    surroundings::Surroundings,
    volumes::Reach,
};
use crate::{apiserver::object::text, kube_system::pod::Pod};

/// A pod and what is the same for every node it may go to.
pub(super) struct Ask<'a> {
    pod: &'a Pod,
    selects_nodes: bool,
    ports: Vec<HostPort<'a>>,
    reach: Reach<'a>,
    spread: Spread,
    neighbours: Neighbours,
}

/// Reason why one node refuses a pod. Hundreds of nodes do so for the same reason: it is put into words once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason<'a> {
    /// In these words.
    Plain(&'static str),
    /// Key and value of a taint.
    Taint(&'a str, &'a str),
    /// There is too little of this.
    Lacks(&'a ResourceName),
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(words) => f.write_str(words),
            Self::Taint(key, value) => write!(f, "node(s) had untolerated taint {{{key}: {value}}}"),
            Self::Lacks(resource) if *resource == "pods" => f.write_str("Too many pods"),
            Self::Lacks(resource) => write!(f, "Insufficient {resource}"),
        }
    }
}

impl<'a> Ask<'a> {
    /// Computes the demands of `pod` on each of the nodes.
    pub(super) fn of(pod: &'a Pod, candidates: &[Candidate], surroundings: &'a Surroundings) -> Self {
        let object = &*pod.object;
        Self {
            pod,
            selects_nodes: node_selector::restricts(object),
            ports: candidate::host_ports(object),
            reach: surroundings.volumes.reach(object, &candidates.iter().flat_map(|node| &node.pods)),
            spread: Spread::of(pod, candidates),
            neighbours: Neighbours::of(object, candidates, surroundings),
        }
    }

    /// Returns the reason why the node does not take the pod, if there is one.
    pub(super) fn refusal(&self, candidate: &'a Candidate) -> Option<Reason<'a>> {
        let pod: &'a Value = &self.pod.object;
        if candidate.is_cordoned_for(pod) {
            return Some(Reason::Plain("node(s) were unschedulable"));
        }
        if let Some(taint) = candidate.untolerated_taint(pod) {
            return Some(Reason::Taint(text(taint, "/key"), text(taint, "/value")));
        }
        if self.selects_nodes && !node_selector::admits(pod, &candidate.node) {
            return Some(Reason::Plain("node(s) didn't match Pod's node affinity/selector"));
        }
        if let Some(resource) = candidate.insufficient(self.pod) {
            return Some(Reason::Lacks(resource));
        }
        let others = if candidate.has_port_conflict(&self.ports) {
            "node(s) didn't have free ports for the requested pod ports"
        } else if let Some(unreachable) = self.reach.refusal(&candidate.node, &candidate.pods) {
            unreachable
        } else if !self.spread.admits(candidate) {
            "node(s) didn't match pod topology spread constraints"
        } else if !self.neighbours.attract_to(candidate) {
            "node(s) didn't match pod affinity rules"
        } else if self.neighbours.repel_from(candidate) {
            "node(s) didn't match pod anti-affinity rules"
        } else {
            return None;
        };
        Some(Reason::Plain(others))
    }
}
