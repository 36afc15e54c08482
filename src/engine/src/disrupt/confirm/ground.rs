//! What the second looks of one round share: the cluster as it would be once every command that stands, and every
//! command of the round that may start, has happened. It is compiled at most once for each set of destinations,
//! however many commands are looked at, and only if one of them has pods to move.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{Command, Node, NodeId, Snapshot};

use super::Rejection;
use crate::disrupt::balanced::Totals;
use crate::disrupt::budget::Budgets;
use crate::disrupt::candidate::{Blocker, Candidate};
use crate::disrupt::lookup::Lookup;
use crate::disrupt::{Standing, pass};
use crate::place::what_if::{Destinations, WhatIf};

/// The ground of one round.
pub(super) struct Ground<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// What each pool may still lose.
    pub(super) budgets: Budgets<'a>,
    pub(super) totals: Totals,
    lookup: Lookup<'a>,
    by_id: BTreeMap<&'a NodeId, &'a Node>,
    /// Nodes that are gone on this ground though the snapshot shows them, command by command.
    gone: Vec<Vec<&'a Node>>,
    /// Nodes that are gone or may go in this round, each once.
    movable: Vec<&'a Node>,
    compiled: BTreeMap<Destinations, WhatIf<'a>>,
}

impl<'a> Ground<'a> {
    /// The ground for `commands`: those that stand have happened, as far as they are not among them.
    pub(super) fn new(snapshot: &'a Snapshot, commands: &[Command], standing: &Standing<'_>) -> Self {
        let round: BTreeSet<&NodeId> = commands.iter().flat_map(Command::nodes).collect();
        let taken = standing.nodes().into_iter().filter(|id| !round.contains(id)).collect();
        let lookup = Lookup::new(snapshot);
        let nodes = || snapshot.nodes.iter().map(AsRef::as_ref);
        let gone = pass::assumed(snapshot, standing, |id| !round.contains(id));
        let own = nodes().filter(|node: &&Node| round.contains(&node.id));
        Self {
            snapshot,
            budgets: Budgets::new(snapshot, &taken),
            totals: Totals::new(&lookup),
            lookup,
            by_id: nodes().map(|node: &Node| (&node.id, node)).collect(),
            movable: own.chain(gone.iter().flatten().copied()).collect(),
            gone,
            compiled: BTreeMap::new(),
        }
    }

    /// The node `id` as it is now, or why it may not go at all.
    pub(super) fn candidate(&self, id: &NodeId) -> Result<Candidate<'a>, Blocker> {
        let node = self.by_id.get(id).ok_or(Blocker::NoNode)?;
        Candidate::of(node, &self.lookup)
    }

    /// Questions about this ground.
    pub(super) fn what_if(&mut self, destinations: Destinations) -> &mut WhatIf<'a> {
        self.compiled.entry(destinations).or_insert_with(|| {
            let mut what_if = WhatIf::new(self.snapshot, &self.movable, destinations);
            for nodes in &self.gone {
                what_if.commit(nodes);
            }
            what_if
        })
    }

    /// Looks at one command. If it may start it has happened from then on; otherwise nothing has.
    pub(super) fn settle(
        &mut self,
        look: impl FnOnce(&mut Self) -> Result<Command, Rejection>,
    ) -> Result<Command, Rejection> {
        let budgets = self.budgets.clone();
        let answer = look(self);
        match &answer {
            Ok(command) => {
                let nodes: Vec<_> = command.nodes().filter_map(|id| self.by_id.get(id).copied()).collect();
                for what_if in self.compiled.values_mut() {
                    what_if.commit(&nodes);
                }
                self.gone.push(nodes);
            }
            Err(_) => self.budgets = budgets,
        }
        answer
    }
}
