//! Consolidation: the same pods on nodes that cost less (spec disruption 3.9 to 3.12).
//!
//! Several nodes at once first, then one at a time, each method until it finds no more or its simulations are used up.
//! Every command is judged as if those before it had happened, and no command removes a node that an earlier one sends
//! pods to, so they may start in any order. Nothing that is proposed costs more than it saves.

mod cheaper;
mod complement;
pub mod deletion_cost;
mod eligible;
mod judge;
mod many;
mod multi;
mod refusal;
mod session;
mod simulations;
mod single;
mod text;

use std::cmp::Ordering;

use karpenter_model::{Method, NodeId, Price, Snapshot};

pub(crate) use eligible::check;
pub(crate) use judge::Proposal;
pub(crate) use refusal::Refusal;

use crate::disrupt::candidate::Candidate;
use crate::disrupt::cost::{Cost, by_savings};
use crate::disrupt::note::{Note, NoteKind};
use crate::disrupt::pass::Pass;
use crate::place::what_if::Simulated;
use session::Session;

const MULTI: Method = Method::MultiNode;
const SINGLE: Method = Method::SingleNode;
const MANY: Method = Method::ManyToMany;

/// Proposes commands of every method of consolidation.
pub(crate) fn propose(pass: &mut Pass<'_>) {
    let candidates = candidates(pass);
    if candidates.is_empty() {
        return;
    }
    let many = pass.snapshot.settings.disruption.many_to_many.enabled;
    let for_several = not_refused(pass, MULTI, &candidates);
    let for_one = not_refused(pass, SINGLE, &candidates);
    let for_groups = if many { not_refused(pass, MANY, &candidates) } else { Vec::new() };
    for candidate in &candidates {
        // Reported now, because the single-node method will not see this node; a command with others overrides it.
        if let Some(reason) = pass.refused(SINGLE, &candidate.node.id) {
            pass.keep(&candidate.node.id, reason);
        }
    }
    let several = pass.unsettled(MULTI, &for_several);
    let alone = pass.unsettled(SINGLE, &for_one);
    let grouped = many.then(|| pass.unsettled(MANY, &for_groups)).flatten();
    // Nothing has changed since each method last found nothing: compiling a base would be for nothing.
    if several.is_none() && alone.is_none() && grouped.is_none() {
        return;
    }
    if let Some(input) = alone {
        pass.memory.sweep.go_on(input, for_one.iter().map(|candidate| &candidate.node.id));
    }
    let one_by_one = if alone.is_some() { &for_one[..] } else { &[] };
    let mut session = Session::new(pass, one_by_one, [&for_several, &for_groups]);
    if let Some(input) = several {
        let others = usize::from(grouped.is_some()) + usize::from(alone.is_some());
        session.several(&for_several, input, others);
    }
    if let Some(input) = grouped {
        session.many(&for_groups, input, usize::from(alone.is_some()));
    }
    if let Some(input) = alone {
        session.alone(&for_one, input);
    }
}

/// Returns those of `candidates` that no recent rejection keeps from `method`.
fn not_refused<'a>(pass: &Pass<'a>, method: Method, candidates: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let free = |candidate: &&Candidate<'a>| pass.refused(method, &candidate.node.id).is_none();
    candidates.iter().filter(free).cloned().collect()
}

/// Returns how many methods of consolidation may need simulations in this pass.
pub(crate) fn methods_to_come(pass: &Pass<'_>) -> usize {
    let wanted = |candidate: &Candidate<'_>| {
        candidate.blocker(SINGLE).is_none()
            && !candidate.is_drifted()
            && eligible::check(candidate, pass.snapshot).is_ok()
    };
    let many = pass.snapshot.settings.disruption.many_to_many.enabled;
    if pass.free().any(wanted) { 2 + usize::from(many) } else { 0 }
}

/// Checks whether `candidates` may go by the rules of `method`, when `simulated` is the result for their pods.
pub(crate) fn judge<'a>(
    method: Method,
    candidates: &[Candidate<'a>],
    simulated: Simulated,
    snapshot: &Snapshot,
) -> Result<Proposal<'a>, Refusal> {
    match method {
        Method::ManyToMany => many::judge(candidates, simulated, snapshot),
        // Only methods of consolidation are asked; whatever launches one node at most is judged as those that do.
        Method::Repair
        | Method::Emptiness
        | Method::StaticDrift
        | Method::Drift
        | Method::MultiNode
        | Method::SingleNode => judge::judge(candidates, simulated, snapshot),
    }
}

/// Nodes consolidation may do something with: most savings per disturbance first, then by name.
fn candidates<'a>(pass: &mut Pass<'a>) -> Vec<Candidate<'a>> {
    let mut candidates =
        pass.eligible(MULTI, |pass, candidate| match eligible::check(candidate, pass.snapshot) {
            Ok(()) => true,
            Err(refusal) => {
                refuse(pass, &candidate.node.id, refusal);
                false
            }
        });
    candidates.sort_by_cached_key(Rank::of);
    let eligible = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
    // `eligible` has counted them for the first method only; the others choose among the same nodes.
    pass.stats(SINGLE).eligible = eligible;
    if pass.snapshot.settings.disruption.many_to_many.enabled {
        pass.stats(MANY).eligible = eligible;
    }
    candidates
}

/// Key of the order in which nodes are tried.
struct Rank<'c> {
    savings: (Price, Cost),
    name: &'c str,
}

impl<'c> Rank<'c> {
    fn of(candidate: &Candidate<'c>) -> Self {
        Self { savings: (candidate.price, candidate.cost), name: candidate.node.display_name() }
    }
}

impl Ord for Rank<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        by_savings(other.savings, self.savings).then_with(|| self.name.cmp(other.name))
    }
}

impl PartialOrd for Rank<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rank<'_> {}

/// Reports why a node stays, as an event too where the refusal has one.
fn refuse(pass: &mut Pass<'_>, node: &NodeId, refusal: Refusal) {
    if let Some(text) = refusal.event {
        pass.note(Note::machine(node, NoteKind::Unconsolidatable, text));
    }
    pass.keep(node, refusal.reason);
}
