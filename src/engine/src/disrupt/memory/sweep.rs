//! One look at every node, however many passes it takes.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::report::ReasonCode;
use karpenter_model::{NodeId, Reason};

use crate::disrupt::input::Input;

/// Progress of the search.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sweep {
    /// Input when the sweep began.
    began_with: Option<Input>,
    /// Nodes looked at, and why they stay.
    seen: BTreeMap<NodeId, Reason>,
    /// Reasons given for the other nodes in the sweep before.
    before: BTreeMap<NodeId, Reason>,
}

impl Sweep {
    /// Begins, or goes on where the last pass stopped. Forgets nodes that are not among `nodes`.
    pub(crate) fn go_on<'n>(&mut self, input: Input, nodes: impl Iterator<Item = &'n NodeId>) {
        // The input of the first pass stays: what some nodes were judged by then proves nothing about a later
        // one.
        self.began_with.get_or_insert(input);
        let nodes: BTreeSet<&NodeId> = nodes.collect();
        self.seen.retain(|node, _| nodes.contains(node));
        self.before.retain(|node, _| nodes.contains(node));
    }

    /// Returns whether `node` was examined already.
    pub(crate) fn has_seen(&self, node: &NodeId) -> bool {
        self.seen.contains_key(node)
    }

    /// Returns why `node` stays until it is examined again: the last reason given, else that it is examined in a
    /// later pass.
    pub(crate) fn last_word(&self, node: &NodeId) -> Reason {
        let last = self.seen.get(node).or_else(|| self.before.get(node));
        last.cloned().unwrap_or_else(|| Reason::bare(ReasonCode::NextPass))
    }

    /// `node` was looked at, and stays.
    pub(crate) fn saw(&mut self, node: &NodeId, reason: Reason) {
        self.seen.insert(node.clone(), reason);
    }

    /// Everything was looked at; returns whether nothing has changed since it began.
    pub(crate) fn finish(&mut self, input: Input) -> bool {
        self.before.append(&mut self.seen);
        self.began_with.take() == Some(input)
    }
}
