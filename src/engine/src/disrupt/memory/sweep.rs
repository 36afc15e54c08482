//! One look at every node, however many passes it takes.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::report::ReasonCode;
use karpenter_model::{NodeId, Reason};

use crate::disrupt::input::Input;

/// How far the look has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sweep {
    /// What there was to look at when it began.
    began_with: Option<Input>,
    /// Nodes looked at, and why they stay.
    seen: BTreeMap<NodeId, Reason>,
    /// What was said of the others in the sweep before.
    before: BTreeMap<NodeId, Reason>,
}

impl Sweep {
    /// Begins, or goes on where the last pass stopped. Forgets nodes that are not among `nodes`.
    pub(crate) fn go_on<'n>(&mut self, input: Input, nodes: impl Iterator<Item = &'n NodeId>) {
        self.began_with.get_or_insert(input);
        let nodes: BTreeSet<&NodeId> = nodes.collect();
        self.seen.retain(|node, _| nodes.contains(node));
        self.before.retain(|node, _| nodes.contains(node));
    }

    /// Whether `node` was looked at already.
    pub(crate) fn has_seen(&self, node: &NodeId) -> bool {
        self.seen.contains_key(node)
    }

    /// Why `node` stays as long as it is not looked at again: what was said of it last, else that its turn comes.
    pub(crate) fn last_word(&self, node: &NodeId) -> Reason {
        let last = self.seen.get(node).or_else(|| self.before.get(node));
        last.cloned().unwrap_or_else(|| Reason::bare(ReasonCode::NextPass))
    }

    /// `node` was looked at, and stays.
    pub(crate) fn saw(&mut self, node: &NodeId, reason: Reason) {
        self.seen.insert(node.clone(), reason);
    }

    /// Everything was looked at; whether nothing has changed since it began.
    pub(crate) fn finish(&mut self, input: Input) -> bool {
        self.before.append(&mut self.seen);
        self.began_with.take() == Some(input)
    }
}
