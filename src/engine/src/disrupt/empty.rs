//! Emptiness: nodes nothing would have to leave (spec disruption 3.6). All of them go in one command, as far
//! as budgets allow, those that save most first; nothing takes their place and nothing is simulated. A node that
//! has no pods but the room of a capacity buffer stays (spec scheduling 23).

use std::time::Duration;

use karpenter_model::clock::later;
use karpenter_model::report::ReasonCode;
use karpenter_model::{Claim, Method, Node, Pool, Reason, Snapshot};

use crate::disrupt::candidate::Candidate;
use crate::disrupt::command::command;
use crate::disrupt::cost::by_savings;
use crate::disrupt::note::{Note, NoteKind};
use crate::disrupt::pass::Pass;

const METHOD: Method = Method::Emptiness;

/// Proposes at most one command.
pub(crate) fn propose(pass: &mut Pass<'_>) {
    let mut empty = pass.eligible(METHOD, |pass, candidate| match ready(candidate, pass.snapshot) {
        Ok(()) => true,
        Err(reason) => {
            refuse(pass, candidate, reason);
            false
        }
    });
    // The rate of commands holds for all methods (docs/disruption.md), for removals without a replacement
    // too.
    if let Err(held) = pass.may_command() {
        for candidate in &empty {
            pass.hold(&candidate.node.id, held.clone());
        }
        return;
    }
    empty.sort_by(|a, b| {
        by_savings((b.price, b.cost), (a.price, a.cost)).then_with(|| a.node.id.cmp(&b.node.id))
    });
    let mut chosen = Vec::new();
    for candidate in empty {
        match pass.take_budget(METHOD, &candidate) {
            Ok(()) => chosen.push(candidate),
            Err(reason) => pass.keep(&candidate.node.id, reason),
        }
    }
    if !chosen.is_empty() {
        pass.propose(command(METHOD, &chosen, Vec::new(), Vec::new(), pass.snapshot));
    }
}

/// Records why emptiness does not take a node, if no later method decides about it.
fn refuse(pass: &mut Pass<'_>, candidate: &Candidate<'_>, reason: Reason) {
    if reason.code == ReasonCode::ConsolidationDisabled {
        let text = format!("NodePool {:?} has consolidation disabled", candidate.pool.name.as_str());
        pass.note(Note::machine(&candidate.node.id, NoteKind::Unconsolidatable, text));
    }
    if reason.code == ReasonCode::BufferPods {
        let text = format!("Node has buffer pods, {}", reason.detail);
        pass.note(Note::machine(&candidate.node.id, NoteKind::Unconsolidatable, text));
    }
    // Drifted nodes and nodes with pods are still for later methods to judge; only a first reason is reported.
    if !candidate.is_drifted() && reason.code != ReasonCode::NotEmpty {
        pass.keep(&candidate.node.id, reason);
    }
}

/// Checks that the candidate is empty and has been quiet for long enough.
pub(crate) fn ready(candidate: &Candidate<'_>, snapshot: &Snapshot) -> Result<(), Reason> {
    if candidate.pool.replicas.is_some() {
        return Err(Reason::bare(ReasonCode::PoolStatic));
    }
    let Some(quiet) = candidate.pool.disruption.consolidate_after else {
        return Err(Reason::bare(ReasonCode::ConsolidationDisabled));
    };
    if !candidate.is_empty() {
        return Err(Reason::new(ReasonCode::NotEmpty, format_args!("{} pods", candidate.missed)));
    }
    if candidate.node.buffer_pods > 0 {
        // The room of the buffer is what the node is kept for: without it another one would be launched.
        let places = format_args!("{} virtual pods", candidate.node.buffer_pods);
        return Err(Reason::new(ReasonCode::BufferPods, places));
    }
    quiet_for(candidate.node, candidate.pool, quiet, snapshot)
}

/// Checks that no pod was added or removed for `quiet`, counted from the last pod event or from
/// initialization (spec disruption 1.12).
pub(crate) fn quiet_for(
    node: &Node,
    pool: &Pool,
    quiet: Duration,
    snapshot: &Snapshot,
) -> Result<(), Reason> {
    let since = node.claim.as_deref().and_then(Claim::quiet_since);
    let Some(since) = since else { return Err(Reason::bare(ReasonCode::NotInitialized)) };
    // An instant, not the time that has passed: the reason is the same in every pass and no news.
    let until = later(since, quiet);
    if snapshot.now < until {
        let detail = format!("{}s of pool {}, until {until}", quiet.as_secs(), pool.name);
        return Err(Reason::new(ReasonCode::ConsolidateAfter, detail));
    }
    Ok(())
}
