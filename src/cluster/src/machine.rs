//! Objects that make up one machine, and its merged view (spec scheduling 27.1 and 27.3).
//!
//! A Node and a claim with the same provider id are one machine. An unmanaged Node may lack one and is known
//! by its name; a claim that has not been launched is known by its own. A managed Node that does not yet say
//! what it is (no provider id, or not initialized and no instance type) is not looked at until it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::names::label;
use karpenter_model::{Claim, ClaimName, DriverName, Node, NodeId, NodeName, NodeObject, Pod};

/// The objects known under one machine id. More than one of a kind is an accident of the cluster; the first by
/// name speaks for the machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) claims: BTreeSet<ClaimName>,
    pub(crate) nodes: BTreeSet<NodeName>,
}

impl Members {
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.nodes.is_empty()
    }
}

/// The machine a claim belongs to. The prefix keeps claims and Nodes of the same name apart: no Node name has a
/// slash.
pub(crate) fn id_of_claim(claim: &Claim) -> NodeId {
    match &claim.provider_id {
        Some(id) => id.clone().into(),
        None => format!("nodeclaim/{}", claim.name).into(),
    }
}

/// The machine a Node belongs to, if it shows enough of itself.
pub(crate) fn id_of_node(node: &NodeObject) -> Option<NodeId> {
    let managed = node.labels.contains_key(label::NODE_POOL);
    let silent = !node.has_true_label(label::INITIALIZED) && !node.labels.contains_key(label::INSTANCE_TYPE);
    if managed && silent {
        return None;
    }
    match &node.provider_id {
        Some(id) => Some(id.clone().into()),
        None if managed => None,
        None => Some(node.name.clone().into()),
    }
}

/// Parts a machine is built from.
pub(crate) struct Parts<'a> {
    pub(crate) claim: Option<Arc<Claim>>,
    pub(crate) node: Option<&'a NodeObject>,
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Limits from the Node's `CSINode`.
    pub(crate) attach_limits: BTreeMap<DriverName, u32>,
    pub(crate) marked: bool,
    pub(crate) buffer_pods: usize,
    pub(crate) nominated_until: Option<Timestamp>,
}

/// The merged view; `None` when no object is left.
pub(crate) fn assemble(id: &NodeId, parts: Parts<'_>) -> Option<Node> {
    let Parts { claim, node, pods, attach_limits, marked, buffer_pods, nominated_until } = parts;
    let created_at = match (node, &claim) {
        (Some(node), _) => node.created_at,
        (None, Some(claim)) => claim.created_at,
        (None, None) => return None,
    };
    let mut machine = Node {
        claim,
        pods,
        attach_limits,
        nominated_until,
        buffer_pods,
        ..Node::new(id.clone(), created_at)
    };
    machine.marked_for_deletion = marked;
    if let Some(node) = node {
        machine.name = Some(node.name.clone());
        machine.provider_id.clone_from(&node.provider_id);
        machine.labels.clone_from(&node.labels);
        machine.annotations.clone_from(&node.annotations);
        machine.taints.clone_from(&node.taints);
        machine.capacity.clone_from(&node.capacity);
        machine.allocatable.clone_from(&node.allocatable);
        machine.conditions = Arc::clone(&node.conditions);
        machine.ready = node.is_ready();
        machine.deletion = node.deletion;
    }
    Some(machine)
}
