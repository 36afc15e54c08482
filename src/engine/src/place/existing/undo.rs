//! The nodes without some of them, and back again.

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

    /// Where each node is in the list.
    pub(crate) fn positions(&self) -> BTreeMap<NodeId, NodeIx> {
        self.slots.enumerate().map(|(index, slot)| (slot.node.id.clone(), index)).collect()
    }

    /// Takes node `index` away.
    pub(crate) fn take_away(&mut self, index: NodeIx) {
        self.gone.insert(index);
    }

    /// Forgets what could have been taken back: it is how things are now.
    pub(crate) fn settle(&mut self) {
        for index in self.touched.iter_mut().flat_map(|touched| touched.drain(..)) {
            self.slots[index].before = None;
        }
    }

    /// Takes back what nodes took since the journal was begun or settled, and puts back nodes `away`.
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
