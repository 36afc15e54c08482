//! The methods of consolidation at work: on one base, one after the other, each continuing from what was accepted.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, Method, Node, NodeId};

use super::judge::Proposal;
use super::many;
use super::multi::{self, Found, Search};
use super::refusal::Refusal;
use super::refuse;
use super::simulations::Simulations;
use super::single;
use super::text;
use super::{MANY, MULTI, SINGLE};
use crate::disrupt::brake::{self, Held};
use crate::disrupt::candidate::Candidate;
use crate::disrupt::command::command;
use crate::disrupt::input::Input;
use crate::disrupt::note::{Note, NoteKind};
use crate::disrupt::pass::{Pass, promised_to_command};
use crate::place::what_if::{Destinations, Patience};

/// Nodes simulated in one go, before any result is acted upon.
const CHUNK: usize = 256;

/// The methods at work on one base.
pub(super) struct Session<'p, 'a> {
    pass: &'p mut Pass<'a>,
    simulations: Simulations<'a>,
    /// Nodes that can be removed from this base.
    movable: BTreeSet<NodeId>,
    /// Nodes in a command of this session, or promised to pods of one.
    out: BTreeSet<NodeId>,
    /// Candidates in turns over the pools.
    turns: Vec<Candidate<'a>>,
    /// A brake held something back: time alone may release it, so nothing is settled.
    held: bool,
}

impl<'p, 'a> Session<'p, 'a> {
    /// A base from which every node within reach of this pass can be removed: those of `alone` as far as simulations
    /// go, and the first of each of `together`. A base costs memory and time per node that can be removed.
    pub(super) fn new(
        pass: &'p mut Pass<'a>,
        alone: &[Candidate<'a>],
        together: [&[Candidate<'a>]; 2],
    ) -> Self {
        let limit = usize::try_from(pass.share(0)).unwrap_or(usize::MAX);
        let sweep = &pass.memory.sweep;
        let turns = single::in_turns(alone, |candidate| sweep.has_seen(&candidate.node.id));
        let firsts = together.into_iter().flat_map(|list| list.iter().take(2 * multi::MAX_BATCH));
        let within_reach = turns.iter().take(limit).chain(firsts);
        let reach: BTreeMap<&NodeId, &'a Node> =
            within_reach.map(|candidate| (&candidate.node.id, candidate.node)).collect();
        let nodes: Vec<&'a Node> = reach.values().copied().collect();
        let movable = reach.keys().map(|id| (*id).clone()).collect();
        let simulations = Simulations::new(pass.what_if(&nodes, Destinations::Quiet));
        Self { pass, simulations, movable, out: BTreeSet::new(), turns, held: false }
    }

    /// Several nodes for at most one, until nothing more is found.
    pub(super) fn several(&mut self, candidates: &[Candidate<'a>], input: Input, others: usize) {
        self.allow(MULTI, others);
        while let Some(found) = self.search(MULTI, candidates) {
            for note in found.judgement.pool_notes() {
                self.pass.note(note);
            }
            self.accept(MULTI, found.proposal);
        }
        self.finish(MULTI, candidates, input);
    }

    /// Returns the command of `method` that may start now.
    fn search(&mut self, method: Method, candidates: &[Candidate<'a>]) -> Option<Found<'a>> {
        if !self.may_command() {
            return None;
        }
        let batch = self.within_budget(method, candidates);
        // One node alone is left to the method for single nodes.
        if batch.len() < 2 {
            return None;
        }
        let mut search = Search {
            snapshot: self.pass.snapshot,
            simulations: &mut self.simulations,
            totals: &self.pass.totals,
            memory: self.pass.memory,
            rejected: None,
            held: false,
            // `Search::best` plays what it found as its last step; `many::best` has no such step, so it plays
            // every set.
            plays: method == MANY,
        };
        let found = if method == MANY { many::best(&mut search, &batch) } else { search.best(&batch) };
        self.held |= search.held;
        let judgement = found.as_ref().map(|found| found.judgement.clone()).or(search.rejected);
        if let Some(judgement) = judgement {
            self.pass.weighed(&judgement);
        }
        found
    }

    /// Several nodes for several, until nothing more is found.
    pub(super) fn many(&mut self, candidates: &[Candidate<'a>], input: Input, others: usize) {
        self.allow(MANY, others);
        while let Some(found) = self.search(MANY, candidates) {
            self.accept(MANY, found.proposal);
        }
        self.finish(MANY, candidates, input);
    }

    /// One node at a time, in turns over the pools, as far as the allowance goes.
    pub(super) fn alone(&mut self, candidates: &[Candidate<'a>], input: Input) {
        self.allow(SINGLE, 0);
        let turns = std::mem::take(&mut self.turns);
        // In chunks, because simulations of a chunk run on several cores and all are wasted that follow a command.
        for chunk in turns.chunks(CHUNK) {
            let chunk: Vec<Candidate<'a>> =
                chunk.iter().filter(|candidate| self.worth_simulating(candidate)).cloned().collect();
            let results = single::simulate(&mut self.simulations, &chunk);
            let mut moved = false;
            for (candidate, mut simulated) in chunk.iter().zip(results) {
                // An earlier command of this chunk sends pods here.
                if self.out.contains(&candidate.node.id) {
                    continue;
                }
                if moved {
                    // A command accepted from this chunk changed what there is, so the result computed before it is
                    // stale.
                    let again = self.simulations.simulate(&[candidate.node], Patience::Full);
                    let Some(again) = again else { break };
                    simulated = again;
                }
                match single::alone(candidate, simulated, self.pass.snapshot) {
                    Ok(proposal) => moved |= self.go_alone(candidate, proposal),
                    Err(refusal) => self.stays(candidate, refusal),
                }
            }
        }
        let left = self.not_reached(&turns);
        self.pass.stats(SINGLE).unfinished = left;
        self.pass.spend(SINGLE, self.simulations.ran());
        if !left && self.pass.memory.sweep.finish(input) && self.found_nothing() {
            self.pass.settle(SINGLE, input, candidates);
        }
    }

    /// Returns whether simulating `candidate` may lead to a command; reports the reason if not.
    fn worth_simulating(&mut self, candidate: &Candidate<'a>) -> bool {
        if self.out.contains(&candidate.node.id) {
            return false;
        }
        if let Err(held) = self.pass.may_command() {
            self.hold(candidate, held);
            return false;
        }
        if let Err(reason) = self.pass.check_budget(SINGLE, candidate) {
            self.stays(candidate, Refusal { reason, event: None });
            return false;
        }
        // For `Balanced`: if even the greatest possible saving is not worth the disruption, no simulation can help.
        if self.pass.totals.rules_out(candidate) {
            let detail = "not even its removal without replacement";
            self.stays(candidate, Refusal::silent(ReasonCode::Score, detail));
            return false;
        }
        self.movable.contains(&candidate.node.id)
    }

    /// Proposes to remove `candidate`, if that is worth it and no brake holds it; returns whether it was proposed.
    fn go_alone(&mut self, candidate: &Candidate<'a>, proposal: Proposal<'a>) -> bool {
        let judgement = self.pass.totals.judge(&[candidate], proposal.replacement_price);
        self.pass.weighed(&judgement);
        if let Some(rejection) = judgement.rejection() {
            self.stays(candidate, Refusal::silent(ReasonCode::Score, rejection.text()));
            return false;
        }
        if !self.simulations.survives(&proposal, self.pass.snapshot) {
            let detail =
                "the scheduler, which prefers nodes with most room, would leave some of its pods over";
            self.stays(candidate, Refusal::silent(ReasonCode::CannotReschedule, detail));
            return false;
        }
        let launches = &proposal.replacements;
        let held = brake::anti_flap(candidate, launches, self.pass.memory, self.pass.snapshot.now)
            .and_then(|()| brake::health_gates(launches, self.pass.memory, self.pass.snapshot));
        if let Err(held) = held {
            // It has had its turn: the next pass begins with those that have not.
            self.pass.memory.sweep.saw(&candidate.node.id, held.reason.clone());
            self.hold(candidate, held);
            return false;
        }
        // Again: a command of the same chunk may have used the budget up.
        if let Err(reason) = self.pass.check_budget(SINGLE, candidate) {
            self.stays(candidate, Refusal { reason, event: None });
            return false;
        }
        if let Some(note) = judgement.machine_note(candidate) {
            self.pass.note(note);
        }
        self.accept(SINGLE, proposal);
        true
    }

    /// Returns whether one more command may be proposed.
    fn may_command(&mut self) -> bool {
        let may = self.pass.may_command().is_ok();
        self.held |= !may;
        may
    }

    /// A brake holds `candidate`.
    fn hold(&mut self, candidate: &Candidate<'a>, held: Held) {
        self.held = true;
        self.pass.hold(&candidate.node.id, held);
    }

    /// `candidate` stays; remembered until every node was looked at.
    fn stays(&mut self, candidate: &Candidate<'a>, refusal: Refusal) {
        self.pass.memory.sweep.saw(&candidate.node.id, refusal.reason.clone());
        refuse(self.pass, &candidate.node.id, refusal);
    }

    /// Repeats the last reason of nodes that were not reached in this pass; returns whether some wait for the next one.
    fn not_reached(&mut self, turns: &[Candidate<'a>]) -> bool {
        let mut left = false;
        for candidate in turns {
            let id = &candidate.node.id;
            if self.out.contains(id) {
                self.pass.keep(id, promised_to_command());
                continue;
            }
            left |= !self.pass.memory.sweep.has_seen(id) && !self.pass.is_held(id);
            self.pass.keep(id, self.pass.memory.sweep.last_word(id));
        }
        left
    }

    /// Nodes of `candidates` that the budgets allow all at once, up to the size of a batch. A node that was bought back goes
    /// alone or not at all: what goes together may well be removed without a replacement.
    fn within_budget(&mut self, method: Method, candidates: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
        let mut budgets = self.pass.budgets.clone();
        let now = self.pass.snapshot.now;
        let stays = |candidate: &Candidate<'a>| brake::bought_back(candidate, self.pass.memory, now).is_err();
        // Time alone releases such a node, so the method must not settle.
        self.held |= candidates.iter().any(stays);
        let reachable = candidates.iter().filter(|candidate| {
            let id = &candidate.node.id;
            self.movable.contains(id) && !self.out.contains(id) && !stays(candidate)
        });
        let allowed = reachable.filter(|candidate| {
            self.pass.evictions.check(candidate.node).is_ok()
                && budgets.take(candidate, method.reason()).is_ok()
        });
        allowed.take(multi::MAX_BATCH).cloned().collect()
    }

    /// Proposes the command, and makes its removals part of the base.
    fn accept(&mut self, method: Method, proposal: Proposal<'a>) {
        let nodes: Vec<&Node> = proposal.candidates.iter().map(|candidate| candidate.node).collect();
        for candidate in &proposal.candidates {
            // Proposals are made of what `within_budget` or `check_budget` let through.
            let _room = self.pass.take_budget(method, candidate);
            self.out.insert(candidate.node.id.clone());
        }
        self.simulations.commit(&nodes);
        // Nodes that take its pods must not be removed by a later command.
        self.out.extend(proposal.used_nodes.iter().cloned());
        let Proposal { candidates, replacements, nominations, .. } = proposal;
        let command = command(method, &candidates, replacements, nominations, self.pass.snapshot);
        if !command.replacements.is_empty() {
            announce(self.pass, &command);
            brake::tries(&command.replacements, self.pass.memory, self.pass.snapshot);
        }
        self.pass.propose(command);
    }

    /// Gives `method` its share of the simulations of the pass, when `others` come after it.
    fn allow(&mut self, method: Method, others: usize) {
        self.pass.stats(method);
        self.simulations.allow(self.pass.share(others));
    }

    /// Records what `method` did. It settles only if it saw everything and no brake held anything back.
    fn finish(&mut self, method: Method, candidates: &[Candidate<'a>], input: Input) {
        let unfinished = self.simulations.left() == 0;
        self.pass.spend(method, self.simulations.ran());
        self.pass.stats(method).unfinished = unfinished;
        if !unfinished && self.found_nothing() {
            self.pass.settle(method, input, candidates);
        }
    }

    /// Returns whether no method has found anything so far, nor was held back. An accepted command changes the base
    /// for the methods that follow, and it may be rejected later, so what they found must not be remembered.
    fn found_nothing(&self) -> bool {
        self.out.is_empty() && !self.held
    }
}

/// Adds the events for nodes a replacement was found for.
fn announce(pass: &mut Pass<'_>, command: &Command) {
    for candidate in &command.candidates {
        let text = match &command.candidates[..] {
            [_] => text::candidate_event(command),
            _ => text::member_event(command, candidate.target.node.as_str()),
        };
        let note = Note::machine(&candidate.target.id, NoteKind::ConsolidationCandidate, text.clone());
        pass.note(note.distinguished_by(text));
    }
}
