//! One pass over all methods: what they share and what they write down.

use std::collections::BTreeSet;

use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, Method, NodeId, NodeOutcome, Reason, Snapshot};

use crate::disrupt::Standing;
use crate::disrupt::budget::{Budgets, Exhausted};
use crate::disrupt::candidate::Candidate;
use crate::disrupt::decision::{Decision, MethodStats};
use crate::disrupt::memory::Memory;
use crate::disrupt::note::{Note, NoteKind};
use crate::disrupt::price::PriceList;

/// What the methods of one pass share.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) memory: &'a mut Memory,
    /// Machines no general check speaks against, by key.
    candidates: Vec<Candidate<'a>>,
    budgets: Budgets<'a>,
    /// Machines in a command, of this pass or before.
    taken: BTreeSet<NodeId>,
    decision: Decision,
}

impl<'a> Pass<'a> {
    /// Looks at every machine once.
    pub(crate) fn new(snapshot: &'a Snapshot, memory: &'a mut Memory, standing: &Standing<'_>) -> Self {
        memory.begin();
        let taken = standing.nodes();
        let mut pass = Self {
            snapshot,
            memory,
            candidates: Vec::new(),
            budgets: Budgets::new(snapshot, &taken),
            taken,
            decision: Decision::default(),
        };
        pass.look(standing);
        pass
    }

    fn look(&mut self, standing: &Standing<'_>) {
        let prices = PriceList::new(self.snapshot);
        for node in &self.snapshot.nodes {
            if self.taken.contains(&node.id) {
                let running = standing.running.contains(&node.id);
                let code = if running { ReasonCode::Disrupting } else { ReasonCode::SecondLook };
                self.keep(&node.id, Reason::bare(code));
                continue;
            }
            match Candidate::of(node, self.snapshot, &prices) {
                Ok(candidate) => self.candidates.push(candidate),
                Err(blocker) => {
                    if blocker.is_told() {
                        let note = Note::machine(&node.id, NoteKind::DisruptionBlocked, blocker.to_string());
                        self.decision.notes.push(note);
                    }
                    self.keep(&node.id, blocker.reason());
                }
            }
        }
        self.candidates.sort_by(|a, b| a.node.id.cmp(&b.node.id));
        self.decision.notes.sort();
    }

    /// Machines `method` may touch and `wants`; what its pods have against it is told and written down.
    pub(crate) fn eligible(
        &mut self,
        method: Method,
        mut wants: impl FnMut(&mut Self, &Candidate<'a>) -> bool,
    ) -> Vec<Candidate<'a>> {
        let candidates = std::mem::take(&mut self.candidates);
        let mut eligible = Vec::new();
        for candidate in &candidates {
            if self.taken.contains(&candidate.node.id) {
                continue;
            }
            if let Some(blocker) = candidate.blocker(method) {
                let text = blocker.to_string();
                self.note(Note::machine(&candidate.node.id, NoteKind::DisruptionBlocked, text));
                self.keep(&candidate.node.id, blocker.reason());
                continue;
            }
            if wants(self, candidate) {
                eligible.push(candidate.clone());
            }
        }
        self.candidates = candidates;
        self.stats(method).eligible = u32::try_from(eligible.len()).unwrap_or(u32::MAX);
        eligible
    }

    /// Takes one machine of the candidate's pool out of its budget for `method`.
    pub(crate) fn take_budget(&mut self, method: Method, candidate: &Candidate<'_>) -> Result<(), Reason> {
        self.budgets.take(&candidate.pool.name, method.reason()).map_err(|exhausted| exhausted.reason())
    }

    /// Adds a command.
    pub(crate) fn propose(&mut self, command: Command) {
        for node in command.nodes() {
            self.taken.insert(node.clone());
            self.decision.nodes.insert(node.clone(), NodeOutcome::Removed(command.method));
        }
        self.decision.commands.push(command);
    }

    /// Writes down why a machine stays, unless something was said about it before.
    pub(crate) fn keep(&mut self, node: &NodeId, reason: Reason) {
        self.decision.nodes.entry(node.clone()).or_insert(NodeOutcome::Kept(reason));
    }

    /// Something to tell; twice the same is told once.
    pub(crate) fn note(&mut self, note: Note) {
        if !self.decision.notes.contains(&note) {
            self.decision.notes.push(note);
        }
    }

    /// The figures of `method`.
    pub(crate) fn stats(&mut self, method: Method) -> &mut MethodStats {
        self.decision.methods.entry(method).or_default()
    }

    /// The decision.
    pub(crate) fn finish(mut self) -> Decision {
        self.decision.budgets = self.budgets.states();
        self.decision
    }
}

impl Standing<'_> {
    /// Every machine in a command.
    pub(crate) fn nodes(&self) -> BTreeSet<NodeId> {
        let proposed = self.proposed.iter().flat_map(Command::nodes);
        proposed.chain(self.running).cloned().collect()
    }
}

impl Exhausted {
    /// As a reason.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::UsedUp(pool) => Reason::new(ReasonCode::Budget, pool),
            Self::Invalid(text) => Reason::new(ReasonCode::BudgetInvalid, text),
        }
    }
}
