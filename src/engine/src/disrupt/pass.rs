//! One pass over all methods: what they share and what they report.
//!
//! A method asks for its nodes with [`Pass::eligible`], checks budgets and brakes, simulates a removal with
//! [`Pass::what_if`], and either proposes a command or records with [`Pass::keep`] why a node stays.

mod allowance;
mod assumed;
mod room;
mod settle;

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;
use jiff::Timestamp;
use karpenter_model::report::ReasonCode;
use karpenter_model::{
    Command, DisruptionReason, Method, Node, NodeId, NodeOutcome, PoolName, Reason, Snapshot, Target,
};

use crate::disrupt::Standing;
use crate::disrupt::balanced::{Judgement, Totals};
use crate::disrupt::brake::{self, Held};
use crate::disrupt::budget::{Budgets, Exhausted};
use crate::disrupt::candidate::{Candidate, Evictions};
use crate::disrupt::decision::{Brake, Decision, MethodStats};
use crate::disrupt::lookup::Lookup;
use crate::disrupt::memory::{Memory, Scope};
use crate::disrupt::note::{Note, NoteKind};
use crate::place::what_if::{Destinations, WhatIf};
use allowance::Allowance;
pub(crate) use assumed::{Assumed, assumed};
pub(crate) use room::Room;

/// State that the methods of one pass share.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) memory: &'a mut Memory,
    /// Rest of each pool's budgets.
    pub(crate) budgets: Budgets<'a>,
    /// Evictions that pod disruption budgets still allow.
    pub(crate) evictions: Evictions<'a>,
    /// Cost of each pool, for `Balanced`.
    pub(crate) totals: Totals,
    /// Nodes that no general check blocks, by key.
    candidates: Vec<Candidate<'a>>,
    /// Nodes in a command, of this pass or before.
    taken: BTreeSet<NodeId>,
    /// Nodes that commands send pods to.
    promised: BTreeSet<NodeId>,
    by_target: BTreeMap<Target, &'a NodeId>,
    /// Nodes of commands the snapshot does not show yet, command by command.
    assumed: Vec<Vec<&'a Node>>,
    /// Nodes those commands launch, per pool.
    coming: BTreeMap<PoolName, usize>,
    /// Commands that may still be proposed; no limit if none.
    commands_left: Option<usize>,
    /// Simulations that are left.
    allowance: Allowance,
    /// Instant when time alone may change an outcome; computed when a method first settles.
    horizon: Option<Timestamp>,
    notes: IndexSet<Note>,
    held: BTreeMap<Brake, BTreeSet<NodeId>>,
    decision: Decision,
}

impl<'a> Pass<'a> {
    /// Looks at every node once.
    pub(crate) fn new(snapshot: &'a Snapshot, memory: &'a mut Memory, standing: &Standing<'_>) -> Self {
        let brakes = &snapshot.settings.disruption.brakes;
        memory.begin(snapshot);
        let taken = standing.nodes();
        let lookup = Lookup::new(snapshot);
        let mut pass = Self {
            snapshot,
            budgets: Budgets::new(snapshot, &taken),
            evictions: Evictions::new(snapshot, |_| true),
            totals: Totals::new(&lookup),
            candidates: Vec::new(),
            assumed: assumed(snapshot, standing, |_| true).into_iter().map(|one| one.nodes).collect(),
            coming: BTreeMap::new(),
            promised: BTreeSet::new(),
            by_target: by_target(snapshot),
            commands_left: brake::commands_left(memory, standing.proposed.len(), brakes),
            allowance: Allowance::new(snapshot.settings.disruption.simulations_per_pass),
            horizon: None,
            taken,
            notes: IndexSet::new(),
            held: BTreeMap::new(),
            decision: Decision::default(),
            memory,
        };
        // Nodes of standing commands drain first: evictions that budgets of pods allow are spent on them.
        for node in pass.assumed.iter().flatten() {
            pass.evictions.spend(node);
        }
        for command in standing.proposed {
            pass.promise(command);
            for launch in &command.replacements {
                *pass.coming.entry(launch.pool.clone()).or_default() += 1;
            }
        }
        pass.look(&lookup, standing);
        pass
    }

    /// Sorts nodes into candidates and those that stay whatever the method.
    fn look(&mut self, lookup: &Lookup<'a>, standing: &Standing<'_>) {
        let mut nodes: Vec<&'a Node> = self.snapshot.nodes.iter().map(AsRef::as_ref).collect();
        // By id, because `node` finds candidates by binary search.
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        for node in nodes {
            if self.taken.contains(&node.id) {
                let running = standing.running.contains(&node.id);
                let code = if running { ReasonCode::Disrupting } else { ReasonCode::SecondLook };
                self.keep(&node.id, Reason::bare(code));
                continue;
            }
            match Candidate::of(node, lookup) {
                Ok(candidate) => self.candidates.push(candidate),
                Err(blocker) => {
                    if blocker.has_event() {
                        self.note(blocker.note(&node.id));
                    }
                    self.keep(&node.id, blocker.reason());
                }
            }
        }
    }

    /// Nodes `method` may touch and `wants`, by key. Reports pods that block it and pools without a budget for it.
    pub(crate) fn eligible(
        &mut self,
        method: Method,
        mut wants: impl FnMut(&mut Self, &Candidate<'a>) -> bool,
    ) -> Vec<Candidate<'a>> {
        // Taken out for as long as `wants` needs the whole pass.
        let candidates = std::mem::take(&mut self.candidates);
        let mut eligible = Vec::new();
        for candidate in &candidates {
            if self.taken.contains(&candidate.node.id) {
                continue;
            }
            // Pods of an earlier command are on their way there: removing it would leave them without their place.
            if self.is_promised(&candidate.node.id) {
                self.keep(&candidate.node.id, promised_to_command());
                continue;
            }
            if let Some(blocker) = candidate.blocker(method) {
                self.note(blocker.note(&candidate.node.id));
                // Another method may still remove a drifted node, for it may ignore what blocks this one; only the
                // last word is reported.
                if !candidate.is_drifted() || method.reason() == DisruptionReason::Drifted {
                    self.keep(&candidate.node.id, blocker.reason());
                }
            } else if wants(self, candidate) && !self.was_refused(method, candidate) {
                eligible.push(candidate.clone());
            }
        }
        self.candidates = candidates;
        self.stats(method).eligible = u32::try_from(eligible.len()).unwrap_or(u32::MAX);
        self.tell_closed(method, &eligible);
        eligible
    }

    /// Reports pools whose budgets let none of `eligible` go by `method`.
    pub(crate) fn tell_closed(&mut self, method: Method, eligible: &[Candidate<'a>]) {
        // Budgets are of interest only where they hold something back.
        if eligible.is_empty() {
            return;
        }
        let reason = method.reason();
        let closed: Vec<_> = self.budgets.closed(reason).cloned().collect();
        for pool in closed {
            let text =
                format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
            let note = Note::pool(&pool, NoteKind::DisruptionBlocked, text);
            self.note(note.distinguished_by(reason.to_string()));
        }
        // Seen from outside such a pool has a budget and nodes that should go, and nothing happens
        // (https://github.com/kubernetes-sigs/karpenter/issues/2967).
        let ready = eligible.iter().filter(|candidate| candidate.node.ready);
        let pools: BTreeSet<&PoolName> = ready.map(|candidate| &candidate.pool.name).collect();
        for pool in pools {
            if !self.budgets.used_up_by_silent(pool, reason) {
                continue;
            }
            let text = format!(
                "No allowed disruptions for disruption reason {reason}: nodes that are not ready count as disrupted"
            );
            let note = Note::pool(pool, NoteKind::DisruptionBlocked, text);
            self.note(note.distinguished_by(format!("{reason} not ready")));
        }
    }

    /// Returns whether the candidate still waits after a command with this reason was rejected or rolled back. Reported,
    /// unless a method with another reason may still remove it.
    pub(crate) fn was_refused(&mut self, method: Method, candidate: &Candidate<'_>) -> bool {
        let (node, reason) = (&candidate.node.id, method.reason());
        let refused = self.memory.refused(Scope::Reason(reason), node, self.snapshot.now);
        let Some(why) = refused else { return false };
        if !candidate.is_drifted() || reason == DisruptionReason::Drifted {
            self.keep(node, why);
        }
        true
    }

    /// Returns why `node` still waits after a command of `method` was rejected.
    pub(crate) fn refused(&self, method: Method, node: &NodeId) -> Option<Reason> {
        self.memory.refused(Scope::Method(method), node, self.snapshot.now)
    }

    /// Nodes that no general check blocks and that are in no command yet.
    pub(crate) fn free(&self) -> impl Iterator<Item = &Candidate<'a>> {
        self.candidates.iter().filter(|candidate| !self.taken.contains(&candidate.node.id))
    }

    /// Checks whether the budget of the candidate's pool has room for one more node, and the budgets of its pods have it once the
    /// nodes that go have drained.
    pub(crate) fn check_budget(&self, method: Method, candidate: &Candidate<'_>) -> Result<(), Reason> {
        self.budgets.check(candidate, method.reason()).map_err(|exhausted| exhausted.reason())?;
        self.evictions.check(candidate.node).map_err(|blocker| blocker.reason())
    }

    /// Checks both budgets, and takes one node of the candidate's pool out of its budget for `method`. The budgets of pods are
    /// spent by the command as a whole.
    pub(crate) fn take_budget(&mut self, method: Method, candidate: &Candidate<'_>) -> Result<(), Reason> {
        // First, because the budget of the pool is not given back.
        self.evictions.check(candidate.node).map_err(|blocker| blocker.reason())?;
        self.budgets.take(candidate, method.reason()).map_err(|exhausted| exhausted.reason())
    }

    /// Checks whether one more command may be proposed.
    pub(crate) fn may_command(&self) -> Result<(), Held> {
        match self.commands_left {
            Some(0) => Err(brake::command_rate(&self.snapshot.settings.disruption.brakes)),
            Some(_) | None => Ok(()),
        }
    }

    /// Simulations a method may run when `others` come after it.
    pub(crate) fn share(&self, others: usize) -> u32 {
        self.allowance.share(u32::try_from(others).unwrap_or(u32::MAX))
    }

    /// Counts this number of `simulations` that `method` has run.
    pub(crate) fn spend(&mut self, method: Method, simulations: u32) {
        self.stats(method).simulations += simulations;
        self.allowance.spend(simulations);
    }

    /// Simulations of removing some of `movable`, on a base in which every command that is under way or proposed has
    /// happened already.
    pub(crate) fn what_if(&self, movable: &[&'a Node], destinations: Destinations) -> WhatIf<'a> {
        self.what_if_on(self.snapshot, movable, destinations)
    }

    /// Simulations of removing some of `movable` on `snapshot`, which shows the same nodes.
    pub(crate) fn what_if_on<'s>(
        &self,
        snapshot: &'s Snapshot,
        movable: &[&'s Node],
        destinations: Destinations,
    ) -> WhatIf<'s>
    where
        'a: 's,
    {
        let mut all = movable.to_vec();
        all.extend(self.assumed.iter().flatten());
        let mut what_if = WhatIf::new(snapshot, &all, destinations);
        // One command after the other: their pods were placed in this order when they were judged.
        for nodes in &self.assumed {
            what_if.commit(nodes);
        }
        what_if
    }

    /// Nodes of `pool` that commands launch and the snapshot may not show yet.
    pub(crate) fn coming(&self, pool: &PoolName) -> usize {
        self.coming.get(pool).copied().unwrap_or_default()
    }

    /// Returns whether `node` is in a command.
    pub(crate) fn is_taken(&self, node: &NodeId) -> bool {
        self.taken.contains(node)
    }

    /// Returns whether a command sends pods to `node`, so that it must stay.
    pub(crate) fn is_promised(&self, node: &NodeId) -> bool {
        self.promised.contains(node)
    }

    fn promise(&mut self, command: &Command) {
        let targets = command.nominations.iter().map(|nomination| &nomination.target);
        let nodes = targets.filter_map(|target| self.by_target.get(target)).map(|id| (*id).clone());
        self.promised.extend(nodes);
    }

    /// The node `id`: among the candidates, or elsewhere if it is broken.
    fn node(&self, id: &NodeId) -> Option<&'a Node> {
        if let Ok(position) = self.candidates.binary_search_by(|known| known.node.id.cmp(id)) {
            return Some(self.candidates[position].node);
        }
        self.snapshot.nodes.iter().map(AsRef::as_ref).find(|node| node.id == *id)
    }

    /// Adds a command. Its nodes are out of reach for every later one; budgets must have been taken.
    pub(crate) fn propose(&mut self, command: Command) {
        let nodes: Vec<_> = command.nodes().filter_map(|id| self.node(id)).collect();
        for node in &nodes {
            self.evictions.spend(node);
        }
        self.assumed.push(nodes);
        for node in command.nodes() {
            self.taken.insert(node.clone());
            let outcome = if command.is_reboot() {
                NodeOutcome::Rebooted
            } else {
                NodeOutcome::Removed(command.method)
            };
            self.decision.nodes.insert(node.clone(), outcome);
        }
        self.promise(&command);
        self.commands_left = self.commands_left.map(|left| left.saturating_sub(1));
        self.decision.commands.push(command);
    }

    /// Reports why a node stays. The first reason stands: methods come in the order of precedence.
    pub(crate) fn keep(&mut self, node: &NodeId, reason: Reason) {
        self.decision.nodes.entry(node.clone()).or_insert(NodeOutcome::Kept(reason));
    }

    /// Reports that a brake holds a node, also as an event.
    pub(crate) fn hold(&mut self, node: &NodeId, held: Held) {
        self.note(Note::machine(node, NoteKind::DisruptionHeld, sentence(&held.reason.to_string())));
        self.held.entry(held.brake).or_default().insert(node.clone());
        self.keep(node, held.reason);
    }

    /// Returns whether a brake holds a node.
    pub(crate) fn is_held(&self, node: &NodeId) -> bool {
        self.held.values().any(|nodes| nodes.contains(node))
    }

    /// Records what was decided about a move, for metrics.
    pub(crate) fn weighed(&mut self, judgement: &Judgement) {
        self.decision.moves.extend(judgement.moves());
    }

    /// Adds an event; duplicates are dropped.
    pub(crate) fn note(&mut self, note: Note) {
        self.notes.insert(note);
    }

    /// The figures of `method`.
    pub(crate) fn stats(&mut self, method: Method) -> &mut MethodStats {
        self.decision.methods.entry(method).or_default()
    }

    /// The decision. Nodes that no method mentioned have pods that would have to move.
    pub(crate) fn finish(mut self) -> Decision {
        for candidate in std::mem::take(&mut self.candidates) {
            let unsaid = self.decision.nodes.entry(candidate.node.id.clone());
            unsaid.or_insert_with(|| {
                let pods = format_args!("{} pods", candidate.missed);
                NodeOutcome::Kept(Reason::new(ReasonCode::NotEmpty, pods))
            });
        }
        // Also those that did not run: their search is over, and a later one must not be measured from its
        // start.
        for method in Method::ALL {
            let unfinished = self.decision.methods.get(&method).is_some_and(|stats| stats.unfinished);
            if self.memory.ended(method, unfinished, self.snapshot.now) {
                self.stats(method).timed_out = true;
            }
        }
        let count = |nodes: &BTreeSet<NodeId>| u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        Decision {
            notes: self.notes.into_iter().collect(),
            held: self.held.iter().map(|(brake, nodes)| (*brake, count(nodes))).collect(),
            budgets: self.budgets.states(),
            ..self.decision
        }
    }
}

/// Nodes by what nominations call them.
fn by_target(snapshot: &Snapshot) -> BTreeMap<Target, &NodeId> {
    let names = snapshot.nodes.iter().flat_map(|node| {
        let name = node.name.clone().map(Target::Node);
        let claim = node.claim.as_ref().map(|claim| Target::Claim(claim.name.clone()));
        name.into_iter().chain(claim).map(|target| (target, &node.id))
    });
    names.collect()
}

/// Returns the reason why a node stays that a command sends pods to.
pub(crate) fn promised_to_command() -> Reason {
    Reason::new(ReasonCode::Nominated, "by another disruption")
}

impl Standing<'_> {
    /// Every node in a command.
    pub(crate) fn nodes(&self) -> BTreeSet<NodeId> {
        let proposed = self.proposed.iter().flat_map(Command::nodes);
        proposed.chain(self.running).cloned().collect()
    }
}

impl Exhausted {
    /// Returns it as a reason with operands.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::UsedUp { pool, allowed, total, disrupted, until } => {
                let until = until.map(|until| format!(", until {until}")).unwrap_or_default();
                let detail = format!("{pool} allows {allowed} of {total}, {disrupted} disrupted{until}");
                Reason::new(ReasonCode::Budget, detail)
            }
            Self::Invalid(text) => Reason::new(ReasonCode::BudgetInvalid, text),
        }
    }
}

/// `text` with a capital first letter, as events are written.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
