//! Undo log of existing nodes: what they took and which of them are removed can be undone.

use std::collections::BTreeMap;

use karpenter_model::{Node, NodeId};

use super::Existing;
use crate::index::NodeIx;

impl Existing<'_> {
    /// Remembers from now on what nodes take, so that it can be taken back; pods that would have to move do
    /// not go to nodes that are `busy`.
    pub(crate) fn keep_journal(&mut self, busy: impl Fn(&Node) -> bool) {
        self.touched = Some(Vec::new());
        for slot in self.slots.iter_mut() {
            slot.busy = busy(slot.node);
        }
    }

    /// Returns the position of each node in the list.
    pub(crate) fn positions(&self) -> BTreeMap<NodeId, NodeIx> {
        self.slots.enumerate().map(|(index, slot)| (slot.node.id.clone(), index)).collect()
    }

    /// Removes node `index`.
    pub(crate) fn take_away(&mut self, index: NodeIx) {
        self.gone.insert(index);
    }

    /// Drops the log: what it could undo is part of the base now.
    pub(crate) fn settle(&mut self) {
        for index in self.touched.iter_mut().flat_map(|touched| touched.drain(..)) {
            self.slots[index].before = None;
        }
    }

    /// Undoes what nodes took since the log was begun or dropped, and puts back the nodes `away`.
    pub(crate) fn revert(&mut self, away: &[NodeIx]) {
        for index in self.touched.iter_mut().flat_map(|touched| touched.drain(..)) {
            let slot = &mut self.slots[index];
            if let Some(before) = slot.before.take() {
                slot.left = *before;
            }
        }
        for index in away {
            self.gone.remove(*index);
        }
    }
}
