//! Assumed cluster of a round of second looks: the snapshot after all commands proposed before the one being checked, of this
//! round or another, have been carried out.
//!
//! Commands proposed later are not carried out, because they were judged on the result of this one: their nodes only take no
//! pods and count in budgets. The cluster is compiled at most once for each set of destinations, however many commands are
//! checked, and only if one of them has pods to move.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use karpenter_model::{Command, Node, NodeId, PodKey, Snapshot, Target};

use super::Rejection;
use crate::disrupt::Standing;
use crate::disrupt::balanced::Totals;
use crate::disrupt::budget::Budgets;
use crate::disrupt::candidate::{Blocker, Candidate, Evictions};
use crate::disrupt::command::slot;
use crate::disrupt::lookup::Lookup;
use crate::disrupt::pass::{Assumed, assumed};
use crate::place::what_if::{Destinations, WhatIf};

/// Assumed cluster of one round of second looks.
pub(super) struct AssumedCluster<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Rest of each pool's budgets.
    pub(super) budgets: Budgets<'a>,
    /// Evictions that pod disruption budgets still allow.
    pub(super) evictions: Evictions<'a>,
    pub(super) totals: Totals,
    lookup: Lookup<'a>,
    by_id: BTreeMap<&'a NodeId, &'a Node>,
    /// Places of the standing commands, by their nodes.
    places: BTreeMap<&'a NodeId, usize>,
    /// Nodes that take no pods of the round: nodes of standing commands outside the round, and replacements that come up.
    closed: BTreeSet<NodeId>,
    /// Machines that the commands outside the round remove, and that are not removed yet at this point of the round.
    to_come: VecDeque<Assumed<'a>>,
    /// Places promised to pods of other commands, which do not exist yet.
    promised: BTreeSet<Target>,
    /// Nodes that the snapshot has and the assumed cluster lacks, command by command.
    gone: Vec<Vec<&'a Node>>,
    /// Nodes that are gone or may go in this round, each once.
    movable: Vec<&'a Node>,
    compiled: BTreeMap<Destinations, WhatIf<'a>>,
}

impl<'a> AssumedCluster<'a> {
    /// Returns the cluster for `commands` before any of them has been carried out.
    pub(super) fn new(snapshot: &'a Snapshot, commands: &[Command], standing: &Standing<'a>) -> Self {
        let round: BTreeSet<&NodeId> = commands.iter().flat_map(Command::nodes).collect();
        let standing_nodes = standing.nodes();
        let closed = replacements(snapshot, &standing_nodes).cloned().collect::<Vec<_>>();
        let taken: BTreeSet<NodeId> = standing_nodes.into_iter().filter(|id| !round.contains(id)).collect();
        let lookup = Lookup::new(snapshot);
        let nodes = || snapshot.nodes.iter().map(AsRef::as_ref);
        let to_come = VecDeque::from(assumed(snapshot, standing, |id| !round.contains(id)));
        let own = nodes().filter(|node: &&Node| round.contains(&node.id));
        let placed = |(place, command): (usize, &'a Command)| command.nodes().map(move |id| (id, place));
        let nominations = standing.proposed.iter().flat_map(|command| &command.nominations);
        Self {
            snapshot,
            budgets: Budgets::new(snapshot, &taken),
            evictions: Evictions::new(snapshot, |node| !round.contains(&node.id)),
            totals: Totals::new(&lookup),
            lookup,
            by_id: nodes().map(|node: &Node| (&node.id, node)).collect(),
            places: standing.proposed.iter().enumerate().flat_map(placed).collect(),
            movable: own.chain(to_come.iter().flat_map(|one| one.nodes.iter().copied())).collect(),
            closed: taken.into_iter().chain(closed).collect(),
            to_come,
            promised: nominations.map(|one| one.target.clone()).collect(),
            gone: Vec::new(),
            compiled: BTreeMap::new(),
        }
    }

    /// Returns whether another command has promised `node` to pods of its own.
    pub(super) fn is_promised(&self, node: &Node) -> bool {
        names(node).any(|name| self.promised.contains(&name))
    }

    /// The node `id` as it is now, or why it may not go at all.
    pub(super) fn candidate(&self, id: &NodeId) -> Result<Candidate<'a>, Blocker> {
        let node = self.by_id.get(id).ok_or(Blocker::NoNode)?;
        Candidate::of(node, &self.lookup)
    }

    /// The node `id`, which is to be repaired, as it is now, or why it may not go at all.
    pub(super) fn broken(&self, id: &NodeId) -> Result<Candidate<'a>, Blocker> {
        let node = self.by_id.get(id).ok_or(Blocker::NoNode)?;
        Candidate::broken(node, &self.lookup)
    }

    /// Questions about it.
    pub(super) fn what_if(&mut self, destinations: Destinations) -> &mut WhatIf<'a> {
        self.compiled.entry(destinations).or_insert_with(|| {
            let mut what_if = WhatIf::beside(self.snapshot, &self.movable, destinations, &self.closed);
            for nodes in &self.gone {
                what_if.commit(nodes);
            }
            what_if
        })
    }

    /// The snapshot with the instance of `candidate` free again, if its reservation is full.
    pub(super) fn freed(&self, candidate: &Candidate<'_>) -> Option<Snapshot> {
        let goes = |id: &NodeId| {
            self.gone.iter().flatten().any(|node| node.id == *id) || self.places.contains_key(id)
        };
        slot::freed(self.snapshot, candidate, goes)
    }

    /// Questions about it with other instance types.
    pub(super) fn what_if_on<'s>(&self, freed: &'s Snapshot) -> WhatIf<'s>
    where
        'a: 's,
    {
        let mut what_if = WhatIf::beside(freed, &self.movable, Destinations::All, &self.closed);
        for nodes in &self.gone {
            what_if.commit(nodes);
        }
        what_if
    }

    /// Looks at `command` on what those before it leave. If it may start it has happened from then on; otherwise
    /// nothing of it has.
    pub(super) fn settle(
        &mut self,
        command: &Command,
        look: impl FnOnce(&mut Self) -> Result<Command, Rejection>,
    ) -> Result<Command, Rejection> {
        // One that does not stand is newer than all that do.
        let own = command.nodes().find_map(|id| self.places.get(id).copied()).unwrap_or(usize::MAX);
        while let Some(before) = self.to_come.pop_front_if(|next| next.place < Some(own)) {
            self.happened(before.nodes);
        }
        let budgets = self.budgets.clone();
        let answer = look(self);
        match &answer {
            Ok(command) => {
                self.promised.extend(command.nominations.iter().map(|one| one.target.clone()));
                let nodes = command.nodes().filter_map(|id| self.by_id.get(id).copied()).collect();
                self.happened(nodes);
            }
            Err(_) => self.budgets = budgets,
        }
        answer
    }

    /// `nodes` are gone from now on.
    fn happened(&mut self, nodes: Vec<&'a Node>) {
        for node in &nodes {
            self.evictions.spend(node);
        }
        for what_if in self.compiled.values_mut() {
            what_if.commit(&nodes);
        }
        self.gone.push(nodes);
    }
}

/// The names by which pods are promised places on `node`.
fn names(node: &Node) -> impl Iterator<Item = Target> {
    let claim = node.claim.as_ref().map(|claim| Target::Claim(claim.name.clone()));
    claim.into_iter().chain(node.name.clone().map(Target::Node))
}

/// Nodes that come up for pods of nodes that go, or for which pods is not known yet: what commands launch that were proposed
/// with those that are looked at now. They took no other pods then. Now that snapshots show them they have room, but
/// nothing may count on it before they are initialized: a command of which a pod fits there would be called off, depending
/// on which of the two was marked first.
fn replacements<'a>(
    snapshot: &'a Snapshot,
    standing: &BTreeSet<NodeId>,
) -> impl Iterator<Item = &'a NodeId> + use<'a> {
    // A replacement may show before the nodes it is for are leaving.
    let going = snapshot.nodes.iter().filter(|node| node.is_leaving() || standing.contains(&node.id));
    let going: BTreeSet<&PodKey> = going.flat_map(|node| &node.pods).map(|pod| &pod.key).collect();
    // Places that are promised to pods; true if any of these pods goes.
    let mut promised: BTreeMap<&Target, bool> = BTreeMap::new();
    for (pod, target) in &*snapshot.promises {
        *promised.entry(target).or_default() |= going.contains(pod);
    }
    let is_replacement = move |node: &Node| {
        let known =
            names(node).filter_map(|name| promised.get(&name).copied()).reduce(|one, other| one || other);
        // The watch may show a claim before the answer to its creation does, and with it what it is for.
        known.unwrap_or_else(|| node.unlaunched().is_some())
    };
    let coming = snapshot.nodes.iter().filter(|node| !node.initialized());
    coming.filter(move |node| is_replacement(node)).map(|node| &node.id)
}
