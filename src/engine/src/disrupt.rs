//! Choice of nodes to remove, and of their replacements (spec disruption 3). One method per file.
//!
//! [`decide`] looks at everything and proposes commands; most of them must be quiet for a while and pass a second
//! look, [`confirm`], before they start. Nothing here waits, measures time or is random: instants come with the
//! snapshot, work is bounded by a number of simulations, and [`Memory`] carries from pass to pass what makes the
//! next one fair and cheap.
//!
//! Invariants: A node is in at most one command. The methods run in the order of [`karpenter_model::Method::ALL`], so an
//! empty node is never replaced for drift, and a drifted one never consolidated. The budgets of a pool hold at the start of
//! every command, the commands in [`Standing`] included.

mod balanced;
mod brake;
mod budget;
mod candidate;
mod command;
mod confirm;
mod consolidation;
mod cost;
mod decision;
mod drift;
mod empty;
mod horizon;
mod input;
mod lookup;
mod memory;
mod note;
mod pass;
mod rejection;
mod repair;
mod score;

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::{Command, NodeId, Snapshot};

pub use budget::{BudgetState, Opening, opening};
pub use confirm::confirm;
pub use consolidation::deletion_cost;
pub use decision::{Brake, Decision, MethodStats, Move, MoveDecision};
pub use memory::Memory;
pub use note::{About, Note, NoteKind};
pub use rejection::{Rejection, RejectionKind};
pub use score::Score;

/// Work that is under way already, and what the snapshot may not show yet.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// Commands taken for granted, in the order in which they were proposed: for [`decide`] those that wait for their
    /// second look, and for both those whose replacements the snapshot does not show yet.
    pub proposed: &'a [Command],
    /// Nodes in a command that has started.
    pub running: &'a BTreeSet<NodeId>,
}

/// Returns commands for `snapshot`, why every other node stays, and the notes to publish.
///
/// Returns the last decision, and allocates nothing, if that changed nothing, none of its inputs has changed and no relevant
/// instant has passed.
pub fn decide(snapshot: &Snapshot, memory: &mut Memory, standing: &Standing<'_>) -> Arc<Decision> {
    if let Some(known) = memory.recall(snapshot, standing) {
        return known;
    }
    let mut pass = pass::Pass::new(snapshot, memory, standing);
    // The order of the reference, which is that of `Method::ALL`: budgets are spent in it, and each method takes the
    // proposals of those before it for granted.
    repair::propose(&mut pass);
    empty::propose(&mut pass);
    drift::static_pools::propose(&mut pass);
    drift::propose(&mut pass);
    consolidation::propose(&mut pass);
    let decision = Arc::new(pass.finish());
    if decision.is_idle() {
        let until = horizon::horizon(snapshot, memory);
        memory.remember(snapshot, standing, until, &decision);
    }
    decision
}
