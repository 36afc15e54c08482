//! Undo log of the counts: every change during a simulation can be undone.

use karpenter_model::names::label;
use karpenter_model::{LabelRegistry, Node};

use super::{Change, ChangeKind, Domain, Topology};
use crate::index::{GroupIx, Ix, ProfileIx};
use crate::node_labels::value_of;

impl Topology {
    /// Logs changes from now on.
    pub(crate) fn keep_journal(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// Drops the log: what it could undo is part of the base now.
    pub(crate) fn settle(&mut self) {
        self.journal.iter_mut().for_each(Vec::clear);
        self.census.settle();
        self.undecided.clear();
        self.late.clear();
        self.conceded.clear();
    }

    /// Undoes every change in the log.
    pub(crate) fn revert(&mut self) {
        let Some(mut journal) = self.journal.take() else { return };
        // The last change first, because each was made on the result of those before it.
        for Change { group, domain, kind } in journal.drain(..).rev() {
            let (_, group) =
                self.groups.get_index_mut(group.get()).expect("invariant: groups are never removed");
            match kind {
                ChangeKind::Added => group.remove(&domain),
                ChangeKind::Removed => group.add(domain),
                ChangeKind::Bound => group.unbind(&domain),
                ChangeKind::Known => {
                    if let Domain::Value(value) = domain {
                        group.unknow(&value);
                    }
                }
                ChangeKind::Unknown => {
                    if let Domain::Value(value) = domain {
                        group.know(value, 1);
                    }
                }
            }
        }
        self.journal = Some(journal);
        let conceded = std::mem::take(&mut self.conceded);
        self.set_conceded(&conceded, false);
        self.census.revert();
        self.undecided.clear();
        self.late.clear();
    }

    /// Counts a pod of this profile no more on `node`, where it counts now: as one that others look for when
    /// `matched`, as one that keeps others away when `owner`.
    pub(crate) fn forget_pod(
        &mut self,
        id: ProfileIx,
        matched: bool,
        owner: bool,
        node: &Node,
        registry: &LabelRegistry,
    ) {
        let (profile, links) = self.entry(id);
        let matched = links.counted.iter().filter(|_| matched);
        let keeping_away = profile.owned_inverse.iter().filter(|_| owner);
        let counting: Vec<GroupIx> = matched.chain(keeping_away).copied().collect();
        for index in counting {
            let (key, group) =
                self.groups.get_index_mut(index.get()).expect("invariant: groups are never removed");
            if let (Some(domain), true) =
                (value_of(node, &key.topology_key, registry), key.counts_node(node, registry))
            {
                let domain = Domain::Value(domain);
                group.remove(&domain);
                let change = Change { group: index, domain, kind: ChangeKind::Removed };
                self.journal.iter_mut().for_each(|journal| journal.push(change.clone()));
            }
        }
    }

    /// `node` no longer makes its domains known.
    pub(crate) fn forget_node(&mut self, node: &Node, registry: &LabelRegistry) {
        self.census.leave(node, registry);
        for (index, (key, group)) in self.groups.iter_mut().enumerate() {
            let index = GroupIx::new(index);
            if key.topology_key == label::HOSTNAME || !key.counts_node(node, registry) {
                continue;
            }
            if let Some(domain) = value_of(node, &key.topology_key, registry) {
                group.unknow(&domain);
                let change =
                    Change { group: index, domain: Domain::Value(domain), kind: ChangeKind::Unknown };
                self.journal.iter_mut().for_each(|journal| journal.push(change.clone()));
            }
        }
    }
}
